"""The figures of networks: a row of boxes for each size, drawn from its layers.

records -> networks by workload and size -> boxes (what comes out of a stage), arrows, skip
connections; layers as CSV

How many levels, channels and units a network has is known here, as it is in its code; a network
whose layers do not add up to the parameters that were counted is not drawn, so that no figure shows
another network than the one that trained.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from gpu_report.figures import style
from gpu_report.figures.declaration import FigureSpec
from gpu_report.printing.number_format import count
from gpu_report.records.record import Record


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One box of a figure: what computes, what comes out of it, and its parameters."""

    name: str
    """What computes, in a few words; lines are separated by line breaks."""
    channels: int
    """Channels of a image, or numbers for each character."""
    length: int = 1
    """Width and height of a image in pixels, characters of a text; 1 where one vector comes out."""
    is_image: bool = False
    parameters: int = 0

    @property
    def output(self) -> str:
        """The size of what comes out: `64 × 32²` for a image, `64 × 256` for a text, `10` for a
        vector.
        """
        if self.length == 1:
            return str(self.channels)
        if self.is_image:
            return f"{self.channels} \N{MULTIPLICATION SIGN} {self.length}\N{SUPERSCRIPT TWO}"
        return f"{self.length} \N{MULTIPLICATION SIGN} {self.channels}"


def convolution(channels_in: int, channels_out: int, kernel: int) -> int:
    """Parameters of a convolution with a square kernel and bias, transposed or not."""
    return channels_in * channels_out * kernel**2 + channels_out


def normalization(channels: int) -> int:
    """Those of a batch or layer normalization: a factor and a shift for each channel."""
    return 2 * channels


def normalized(channels_in: int, channels_out: int, kernel: int) -> int:
    """Those of a convolution with a square kernel and no bias, and of its normalization."""
    return channels_in * channels_out * kernel**2 + normalization(channels_out)


def linear(inputs: int, outputs: int) -> int:
    """Those of a linear layer with bias."""
    return inputs * outputs + outputs


def recurrent(inputs: int, hidden: int) -> int:
    """Those of an LSTM layer in both directions, with four gates each and two biases a gate, as
    cuDNN has them.
    """
    return 2 * 4 * (inputs * hidden + hidden * hidden + 2 * hidden)


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network as its stages, in the order in which a sample passes them."""

    stages: tuple[Stage, ...]
    skips: tuple[tuple[int, int], ...] = ()
    """Positions of two stages where the output of the first goes to the second as well; the
    outermost pair first.
    """

    @property
    def parameters(self) -> int:
        """Of all stages."""
        return sum(stage.parameters for stage in self.stages)


_COLORS: Final = 3
_U_NET_CLASSES: Final = 3
_IMAGE_PX, _IMAGE_CLASSES = 32, 10
_CROP_PX, _FILE_CLASSES = 64, 5
_CHARACTERS, _VOCABULARY, _TEXT_CLASSES = 64, 100, 3
"""Of a text, of all texts, and how many kinds of texts there are."""
_BLOCK_EXPANSION: Final = 4


def unet(pixels: int, *, base_channels: int = 64, levels: int = 4) -> Network:
    """Blocks of two 3x3 convolutions, each normalised; half the size and twice the channels on each
    level.
    """
    widths = [base_channels * 2**level for level in range(levels + 1)]
    sizes = [pixels // 2**level for level in range(levels + 1)]

    def block(channels_in: int, channels: int) -> int:
        return normalized(channels_in, channels, 3) + normalized(channels, channels, 3)

    down = [
        _image("block", width, size, block(above, width))
        for above, width, size in zip([_COLORS, *widths], widths, sizes, strict=False)
    ]
    up = [
        _image("block", width, size, convolution(below, width, 2) + block(below, width))
        for below, width, size in reversed(
            list(zip(widths[1:], widths[:-1], sizes[:-1], strict=True))
        )
    ]
    head = _image("scores", _U_NET_CLASSES, pixels, convolution(widths[0], _U_NET_CLASSES, 1))
    image = _image("image", _COLORS, pixels, 0)
    skips = tuple((1 + level, 2 * levels + 1 - level) for level in range(levels))
    return Network(stages=(image, *down, *up, head), skips=skips)


def lstm(*, embedding: int = 128, hidden: int = 256, layers: int = 2) -> Network:
    """Layers that read the text in both directions; the next one gets the states of both."""
    inputs = [embedding] + [2 * hidden] * (layers - 1)
    return Network(
        stages=(
            _text("embedding", embedding, _VOCABULARY * embedding),
            *(
                _text("bidirectional LSTM", 2 * hidden, recurrent(width, hidden))
                for width in inputs
            ),
            Stage(
                name="linear", channels=_TEXT_CLASSES, parameters=linear(2 * hidden, _TEXT_CLASSES)
            ),
        ),
    )


def transformer(
    *, width: int = 256, heads: int = 8, feed_forward: int = 1024, layers: int = 4
) -> Network:
    """Encoder layers that normalise what goes into them, and a last normalization."""
    attention = linear(width, 3 * width) + linear(width, width)
    layer = (
        attention
        + linear(width, feed_forward)
        + linear(feed_forward, width)
        + 2 * normalization(width)
    )
    return Network(
        stages=(
            _text("characters", 1, 0),
            _text("embedding\nand position", width, (_VOCABULARY + _CHARACTERS) * width),
            _text(
                f"{layers} encoder layers:\n{heads} heads, {feed_forward} units",
                width,
                layers * layer,
            ),
            _text("layer\nnormalization", width, normalization(width)),
            Stage(name="mean over\nthe text", channels=width),
            Stage(name="linear", channels=_TEXT_CLASSES, parameters=linear(width, _TEXT_CLASSES)),
        )
    )


def image_cnn(
    *, base_channels: int, hidden_units: int, pixels: int = _IMAGE_PX, classes: int = _IMAGE_CLASSES
) -> Network:
    """Three blocks that halve the image and double the channels, a hidden layer and a
    classifier.
    """
    channels = [_COLORS, base_channels, 2 * base_channels, 4 * base_channels]
    blocks = [
        _image(
            "3\N{MULTIPLICATION SIGN}3 convolution,\nnorm., pooling",
            width,
            pixels // 2**number,
            convolution(before, width, 3) + normalization(width),
        )
        for number, (before, width) in enumerate(pairwise(channels), start=1)
    ]
    features = blocks[-1].channels * blocks[-1].length ** 2
    return Network(
        stages=(
            _image("image", _COLORS, pixels, 0),
            *blocks,
            Stage(
                name="linear,\nReLU",
                channels=hidden_units,
                parameters=linear(features, hidden_units),
            ),
            Stage(name="linear", channels=classes, parameters=linear(hidden_units, classes)),
        )
    )


def residual(
    *, blocks: tuple[int, ...], bottleneck: bool, base_channels: int = 64, pixels: int = _IMAGE_PX
) -> Network:
    """A residual network whose later groups halve the image; its beginning keeps a small one and
    quarters a large.
    """
    is_small = pixels == _IMAGE_PX
    width, strides, pooling = (3, 1, "") if is_small else (7, 4, ", pooling")
    stages = [
        _image("image", _COLORS, pixels, 0),
        _image(
            f"{width}\N{MULTIPLICATION SIGN}{width} conv.,\nnorm.{pooling}",
            base_channels,
            pixels // strides,
            normalized(_COLORS, base_channels, width),
        ),
    ]
    for group, depth in enumerate(blocks):
        inner, size = base_channels * 2**group, pixels // strides // 2**group
        outer = inner * (_BLOCK_EXPANSION if bottleneck else 1)
        ins = [stages[-1].channels] + [outer] * (depth - 1)
        parameters = sum(_residual_block(before, inner, outer) for before in ins)
        stages.append(_image(f"{depth} residual\nblocks", outer, size, parameters))
    last = stages[-1].channels
    return Network(
        stages=(
            *stages,
            Stage(name="mean over\npixels", channels=last),
            Stage(name="linear", channels=_IMAGE_CLASSES, parameters=linear(last, _IMAGE_CLASSES)),
        )
    )


def _residual_block(before: int, inner: int, outer: int) -> int:
    """Two 3x3 convolutions, or one between two of 1x1; one of 1x1 past them where the channels
    change.
    """
    past = normalized(before, outer, 1) if before != outer else 0
    if outer == inner:
        return past + normalized(before, inner, 3) + normalized(inner, inner, 3)
    ends = normalized(before, inner, 1) + normalized(inner, outer, 1)
    return past + ends + normalized(inner, inner, 3)


def _image(name: str, channels: int, size: int, parameters: int) -> Stage:
    return Stage(name=name, channels=channels, length=size, is_image=True, parameters=parameters)


def _text(name: str, channels: int, parameters: int) -> Stage:
    return Stage(name=name, channels=channels, length=_CHARACTERS, parameters=parameters)


MODELS: Final[Mapping[tuple[str, str], Callable[[], Network]]] = {
    **{
        ("gpu_report.workloads.unet", f"{pixels}px"): partial(unet, pixels)
        for pixels in (32, 64, 128)
    },
    ("gpu_report.workloads.lstm", ""): lstm,
    ("gpu_report.workloads.transformer", "default"): transformer,
    ("gpu_report.workloads.transformer", "bertlarge"): partial(
        transformer, width=1024, heads=16, feed_forward=4096, layers=24
    ),
    ("gpu_report.workloads.cnn", "small"): partial(image_cnn, base_channels=8, hidden_units=48),
    ("gpu_report.workloads.cnn", "medium"): partial(image_cnn, base_channels=32, hidden_units=152),
    ("gpu_report.workloads.cnn", "large"): partial(image_cnn, base_channels=40, hidden_units=2545),
    ("gpu_report.workloads.image_files", ""): partial(
        image_cnn, base_channels=32, hidden_units=152, pixels=_CROP_PX, classes=_FILE_CLASSES
    ),
    ("gpu_report.workloads.resnet", "resnet18"): partial(
        residual, blocks=(2, 2, 2, 2), bottleneck=False
    ),
    ("gpu_report.workloads.resnet", "224px"): partial(
        residual, blocks=(3, 4, 6, 3), bottleneck=True, pixels=224
    ),
    ("gpu_report.workloads.resnet", "resnet50"): partial(
        residual, blocks=(3, 4, 6, 3), bottleneck=True
    ),
}
"""By the workload's module, and its size or name where that decides its network."""


def model_of(*, source_file: str, workload: str, size: str, parameters: int) -> Network | None:
    """The network that a record names; None where it is none of these, or has other parameters."""
    build = next(
        (MODELS[source_file, key] for key in ("", size, workload) if (source_file, key) in MODELS),
        None,
    )
    model = build() if build else None
    return model if model and model.parameters == parameters else None


_NAMES_IN: Final = 0.34
_ROW_IN: Final = 0.56
_BOX_HEIGHT_IN: Final = 0.3
_SIZE_NAME_IN: Final = 0.55
_ARROW_IN: Final = 0.17
_SKIP_IN: Final = 0.11
"""Between the lines of two skip connections, which are below the boxes."""
_PARAMETERS_IN: Final = 0.18
_MOST_IN_ONE_LINE: Final = 8
"""Stages side by side whose sizes fit into their boxes in one line."""


def network_figures(records: Sequence[Record]) -> list[FigureSpec]:
    """One figure for each workload whose network is known here, in the order of the records.

    A workload of the user's own has none, nor has one whose parameters are not those of the network
    known here. Sizes that differ in the image alone are drawn with the largest.
    """
    found: dict[tuple[str, str], dict[str, Network]] = {}
    for record in records:
        variant, facts = record.as_variant(), record.workload
        if facts is None:
            continue
        model = model_of(
            source_file=facts.source_file,
            workload=variant.workload,
            size=variant.size,
            parameters=facts.parameters,
        )
        if model is not None:
            found.setdefault((variant.workload, facts.title), {}).setdefault(variant.size, model)
    return [
        _network_figure(workload, title, _drawn(models))
        for (workload, title), models in found.items()
    ]


def _drawn(models: Mapping[str, Network]) -> dict[str, Network]:
    """The smallest network first; of those with equal parameters the one with the largest image."""
    by_image = sorted(models.items(), key=lambda item: item[1].stages[0].length)
    largest = {model.parameters: (size, model) for size, model in by_image}
    return dict(largest[parameters] for parameters in sorted(largest))


def _network_figure(
    workload: str, workload_title: str, models: Mapping[str, Network]
) -> FigureSpec:
    title = f"Architecture of the {workload_title}"
    size, first = next(iter(models.items()))
    path = ", ".join(f"{_on_one_line(stage.name)} {stage.output}" for stage in first.stages)
    sizes = (
        "channels and pixels" if first.stages[0].is_image else "characters and the numbers for each"
    )
    caption = (
        f"{title}{'' if size == 'default' or len(models) > 1 else f' in size {size}'}. A box has "
        f"what comes out of a stage, {sizes}; below are its parameters, which add up to those "
        "counted in the trained network."
        f"{' Dashed lines are skip connections.' if first.skips else ''}"
    )
    stages = pd.DataFrame(
        {
            "size": size,
            "stage": _on_one_line(stage.name),
            "channels": stage.channels,
            "length": stage.length,
            "parameters": stage.parameters,
        }
        for size, model in models.items()
        for stage in model.stages
    )
    return FigureSpec(
        name=f"architecture_{workload}",
        subject=workload,
        kind="architecture",
        title=title,
        caption=caption,
        alt=f"The {workload_title} as boxes from its input to its scores: {path}.",
        csv=stages.to_csv(index=False, lineterminator="\n"),
        drawing=partial(_draw_networks, models),
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _draw_networks(models: Mapping[str, Network]) -> Figure:
    """Draw networks of the same stages by the name of their size, on axes that count inches; one
    alone is not named.
    """
    first = next(iter(models.values()))
    row_in = _ROW_IN + len(first.skips) * _SKIP_IN
    height = _NAMES_IN + len(models) * row_in
    figure = Figure(figsize=(style.TEXT_WIDTH_IN, height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set(xlim=(0, style.TEXT_WIDTH_IN), ylim=(0, height))
    begin = _SIZE_NAME_IN if len(models) > 1 else 0.0
    pitch = (style.TEXT_WIDTH_IN - begin) / len(first.stages)
    for row, (size, model) in enumerate(models.items()):
        middle = height - _NAMES_IN - row * row_in - _BOX_HEIGHT_IN / 2
        centres = [begin + (column + 0.5) * pitch for column in range(len(model.stages))]
        width = pitch - _ARROW_IN
        bottom, crowded = middle - _BOX_HEIGHT_IN / 2, len(centres) > _MOST_IN_ONE_LINE
        write = partial(
            _write, axes, fontsize=style.TINY_FONT_SIZE_PT if crowded else style.SMALL_FONT_SIZE_PT
        )
        for stage, centre in zip(model.stages, centres, strict=True):
            fill = (
                style.OTHERS
                if not stage.parameters
                else style.YELLOW
                if stage.length == 1
                else style.SKY
            )
            corner = (centre - width / 2, bottom)
            look: Any = {"facecolor": fill, "edgecolor": style.INK, "linewidth": 0.8}
            axes.add_patch(
                FancyBboxPatch(
                    corner, width, _BOX_HEIGHT_IN, boxstyle="round,pad=0,rounding_size=0.03", **look
                )
            )
            write(
                (centre, middle),
                stage.output.replace(" \N{MULTIPLICATION SIGN} ", "\n")
                if crowded
                else stage.output,
            )
            if stage.parameters:
                write((centre, bottom - 0.09), count(stage.parameters).plain())
            if row == 0:
                write((centre, bottom + _BOX_HEIGHT_IN + 0.04), stage.name, va="bottom")
        for left, right in pairwise(centres):
            arrow: Any = {
                "arrowstyle": "-|>,head_length=0.3,head_width=0.16",
                "shrinkA": 0,
                "shrinkB": 0,
                "color": style.INK,
            }
            axes.annotate(
                "",
                (right - width / 2, middle),
                (left + width / 2, middle),
                arrowprops={"lw": 0.8, **arrow},
            )
        for number, (source, target) in enumerate(reversed(model.skips), start=1):
            across = [centres[source], centres[source], centres[target], centres[target]]
            above, below = bottom - _PARAMETERS_IN, bottom - _PARAMETERS_IN - number * _SKIP_IN
            axes.plot(
                across,
                [above, below, below, above],
                color=style.BLUE,
                linestyle="--",
                linewidth=0.8,
            )
        if begin:
            _write(axes, (0.0, middle), size, ha="left", fontsize=style.SMALL_FONT_SIZE_PT)
    return figure


def _write(axes: Axes, point: tuple[float, float], text: str, **look: Any) -> None:
    axes.text(*point, text, **{"ha": "center", "va": "center", "linespacing": 1.1, **look})
