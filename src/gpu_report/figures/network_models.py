"""The networks as their layers: sizes, channels and parameters, known without PyTorch.

How many levels, channels and units a network has is known here, as it is in its code; a network
whose layers do not add up to the parameters that were counted is not drawn, so that no figure shows
another network than the one that trained.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final


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


def convolution(channels_in: int, channels_out: int, kernel: int, *, bias: bool) -> int:
    """Parameters of a convolution with a square kernel, transposed or not."""
    return channels_in * channels_out * kernel**2 + (channels_out if bias else 0)


def normalization(channels: int) -> int:
    """Those of a batch or layer normalization: a factor and a shift for each channel."""
    return 2 * channels


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
        both = convolution(channels_in, channels, 3, bias=False) + convolution(
            channels, channels, 3, bias=False
        )
        return both + 2 * normalization(channels)

    down = [
        _image("block", width, size, block(above, width))
        for above, width, size in zip([_COLORS, *widths], widths, sizes, strict=False)
    ]
    up = [
        _image("block", width, size, convolution(below, width, 2, bias=True) + block(below, width))
        for below, width, size in reversed(
            list(zip(widths[1:], widths[:-1], sizes[:-1], strict=True))
        )
    ]
    head = _image(
        "scores", _U_NET_CLASSES, pixels, convolution(widths[0], _U_NET_CLASSES, 1, bias=True)
    )
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
            convolution(before, width, 3, bias=True) + normalization(width),
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
            convolution(_COLORS, base_channels, width, bias=False) + normalization(base_channels),
        ),
    ]
    for group, count in enumerate(blocks):
        inner, size = base_channels * 2**group, pixels // strides // 2**group
        outer = inner * (_BLOCK_EXPANSION if bottleneck else 1)
        ins = [stages[-1].channels] + [outer] * (count - 1)
        parameters = sum(_residual_block(before, inner, outer) for before in ins)
        stages.append(_image(f"{count} residual\nblocks", outer, size, parameters))
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
    if outer == inner:
        inside = convolution(before, inner, 3, bias=False) + convolution(
            inner, inner, 3, bias=False
        )
        norms = 2 * normalization(inner)
    else:
        ends = convolution(before, inner, 1, bias=False) + convolution(inner, outer, 1, bias=False)
        inside = ends + convolution(inner, inner, 3, bias=False)
        norms = 2 * normalization(inner) + normalization(outer)
    past = before != outer
    return (
        inside
        + norms
        + (convolution(before, outer, 1, bias=False) + normalization(outer) if past else 0)
    )


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
    ("gpu_report.workloads.transformer", ""): transformer,
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
