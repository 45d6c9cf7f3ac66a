"""The figures of two networks, the U-Net and the bidirectional LSTM: a box for each stage.

records -> network of each workload -> boxes (what comes out of a stage), arrows, skip connections;
layers as CSV

How many levels, channels and units a network has is known here, as it is in its code; a network
whose layers do not add up to the parameters that were counted is not drawn, so that no figure shows
another network than the one that trained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from gpu_report.figures import palette, style
from gpu_report.figures.declaration import FigureSpec
from gpu_report.printing.number_format import count
from gpu_report.records.record import Record


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One box of a figure: what computes, what comes out of it, and its parameters."""

    name: str
    channels: int
    """Channels of an image, or numbers for each character."""
    length: int = 1
    """Width and height of an image in pixels, characters of a text; 1 of a vector."""
    is_image: bool = False
    parameters: int = 0

    @property
    def output(self) -> str:
        """The size of what comes out, a line each: channels and pixels of an image, characters and
        numbers of a text, the numbers of a vector alone.
        """
        if self.is_image:
            return f"{self.channels}\n{self.length}\N{SUPERSCRIPT TWO}"
        return f"{self.length}\n{self.channels}" if self.length > 1 else str(self.channels)


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network as its stages, in the order in which a sample passes them."""

    stages: tuple[Stage, ...]
    skips: tuple[tuple[int, int], ...] = ()
    """Positions of two stages where the output of the first goes to the second as well; the
    outermost pair first.
    """


def recurrent(inputs: int, hidden: int) -> int:
    """Parameters of an LSTM layer in both directions, with four gates each and two biases a gate,
    as cuDNN has them.
    """
    return 2 * 4 * (inputs * hidden + hidden * hidden + 2 * hidden)


def unet(
    pixels: int, *, colors: int = 3, base_channels: int = 64, levels: int = 4, classes: int = 3
) -> Network:
    """Blocks of two convolutions; half the size and twice the channels on each level down."""
    image = partial(Stage, is_image=True)
    stages = [image(name="image", channels=colors, length=pixels)]
    for level in (*range(levels + 1), *reversed(range(levels))):
        before, channels = stages[-1].channels, base_channels * 2**level
        # Two 3x3 convolutions without bias, each followed by a normalization, which has a factor
        # and a shift for each channel.
        parameters = 3**2 * (before + channels) * channels + 2 * 2 * channels
        if channels < before:  # on the way up a 2x2 transposed convolution enlarges the image first
            parameters += (2**2 * before + 1) * channels
        stages.append(
            image(name="block", channels=channels, length=pixels // 2**level, parameters=parameters)
        )
    return Network(
        stages=(
            *stages,
            image(
                name="scores",
                channels=classes,
                length=pixels,
                parameters=(base_channels + 1) * classes,
            ),
        ),
        skips=tuple((1 + level, 2 * levels + 1 - level) for level in range(levels)),
    )


def lstm(
    *,
    characters: int = 64,
    vocabulary: int = 100,
    embedding: int = 128,
    hidden: int = 256,
    classes: int = 3,
) -> Network:
    """Two layers that read the text in both directions; the second gets the states of both."""
    text = partial(Stage, length=characters)
    layer = partial(text, name="bidirectional LSTM", channels=2 * hidden)
    return Network(
        stages=(
            text(name="embedding", channels=embedding, parameters=vocabulary * embedding),
            layer(parameters=recurrent(embedding, hidden)),
            layer(parameters=recurrent(2 * hidden, hidden)),
            Stage(name="linear", channels=classes, parameters=(2 * hidden + 1) * classes),
        )
    )


NETWORKS: Final[Mapping[tuple[str, str], Network]] = {
    ("gpu_report.workloads.unet", "32px"): unet(32),
    ("gpu_report.workloads.unet", "64px"): unet(64),
    ("gpu_report.workloads.unet", "128px"): unet(128),
    ("gpu_report.workloads.lstm", "default"): lstm(),
}
"""By the workload's module and its size."""


def network_of(*, source_file: str, size: str, parameters: int) -> Network | None:
    """The network that a record names; None where it is none of these, or has other parameters."""
    network = NETWORKS.get((source_file, size))
    counted = sum(stage.parameters for stage in network.stages) if network else None
    return network if counted == parameters else None


def network_figures(records: Sequence[Record]) -> list[FigureSpec]:
    """One figure for each workload whose network is known here, in the order of the records.

    A workload of the user's own has none, nor has one whose parameters are not those of the network
    known here. Of several sizes the one with the largest image is drawn.
    """
    drawn: dict[tuple[str, str], Network] = {}
    for record in records:
        variant, facts = record.as_variant(), record.workload
        network = facts and network_of(
            source_file=facts.source_file, size=variant.size, parameters=facts.parameters
        )
        if facts and network:
            key = variant.workload, facts.title
            drawn[key] = max(
                drawn.get(key, network), network, key=lambda each: each.stages[0].length
            )
    return [_figure_of(network, workload, title) for (workload, title), network in drawn.items()]


def _figure_of(network: Network, workload: str, workload_title: str) -> FigureSpec:
    title = f"Architecture of the {workload_title}"
    first = network.stages[0]
    size = f" in size {first.length}px" if first.is_image else ""
    units = "channels and pixels" if first.is_image else "characters and the numbers for each"
    skips = " Dashed lines are skip connections." if network.skips else ""
    path = ", ".join(f"{stage.name} {stage.output}" for stage in network.stages)
    path = path.replace("\n", " \N{MULTIPLICATION SIGN} ")
    return FigureSpec(
        name=f"architecture_{workload}",
        subject=workload,
        kind="architecture",
        title=title,
        caption=(
            f"{title}{size}. A box has what comes out of a stage, {units}; below are its "
            f"parameters, which add up to those counted in the trained network.{skips}"
        ),
        alt=f"The {workload_title} as boxes from its input to its scores: {path}.",
        csv=pd.DataFrame(network.stages)
        .drop(columns="is_image")
        .rename(columns={"name": "stage"})
        .to_csv(index=False, lineterminator="\n"),
        drawing=partial(_draw, network),
    )


_BOX_HEIGHT_IN: Final = 0.3
_SKIP_IN: Final = 0.11
"""Between the lines of two skip connections, which are below the boxes and their parameters."""


def _draw(network: Network) -> Figure:
    """Draw the stages from left to right, on axes that count inches from the boxes' bottom."""
    top = _BOX_HEIGHT_IN + 0.34  # the stages' names
    bottom = -0.26 - len(network.skips) * _SKIP_IN  # their parameters, and skip connections
    figure = Figure(figsize=(style.TEXT_WIDTH_IN, top - bottom))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, style.TEXT_WIDTH_IN), ylim=(bottom, top))
    axes.set_axis_off()
    pitch = style.TEXT_WIDTH_IN / len(network.stages)
    width = pitch - 0.17  # leaves room for an arrow
    middle = _BOX_HEIGHT_IN / 2
    centres = [(column + 0.5) * pitch for column in range(len(network.stages))]
    write = partial(
        axes.text, ha="center", va="center", linespacing=1.1, fontsize=style.TINY_FONT_SIZE_PT
    )
    for stage, centre in zip(network.stages, centres, strict=True):
        axes.add_patch(
            FancyBboxPatch(
                (centre - width / 2, 0),
                width,
                _BOX_HEIGHT_IN,
                boxstyle="round,pad=0,rounding_size=0.03",
                facecolor=palette.SKY if stage.parameters else palette.OTHERS,
                edgecolor=palette.INK,
                linewidth=0.8,
            )
        )
        write(centre, middle, stage.output)
        if stage.parameters:
            write(centre, -0.09, count(stage.parameters).plain())
        write(centre, _BOX_HEIGHT_IN + 0.04, stage.name, va="bottom")
    for left, right in pairwise(centres):
        axes.annotate(
            "",
            (right - width / 2, middle),
            (left + width / 2, middle),
            arrowprops={
                "arrowstyle": "-|>,head_length=0.3,head_width=0.16",
                "shrinkA": 0,
                "shrinkB": 0,
                "color": palette.INK,
                "linewidth": 0.8,
            },
        )
    for number, (source, target) in enumerate(reversed(network.skips), start=1):
        left, right = centres[source], centres[target]
        above, below = -0.18, -0.18 - number * _SKIP_IN
        axes.plot(
            [left, left, right, right],
            [above, below, below, above],
            color=palette.BLUE,
            linestyle="--",
            linewidth=0.8,
        )
    return figure
