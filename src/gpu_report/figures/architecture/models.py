"""The networks as their layers: sizes, channels and parameters, told without PyTorch.

What a record says of a workload gives pictures, classes and the count of parameters. How many levels, channels and
units a network has is known here, as it is in its code; a network whose layers do not add up to the count that was
measured is not drawn, so that no picture shows another network than the one that was trained.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gpu_report.figures.architecture.layers import Stage, convolution, linear, normalisation, recurrent


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One sample as the workload describes it."""

    length: int
    """Width and height of the picture that the network gets, or characters of the text."""
    classes: int
    vocabulary: int = 0
    """How many characters there are; 0 for pictures."""


@dataclass(frozen=True, kw_only=True)
class UNet:
    """A U-Net: stages on the way down, the lowest last, those on the way up, and the classifier."""

    picture: Stage
    down: tuple[Stage, ...]
    up: tuple[Stage, ...]
    head: Stage

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.picture, *self.down, *self.up, self.head)


@dataclass(frozen=True, kw_only=True)
class LSTM:
    """A bidirectional LSTM over an embedding, a mean over time and a classifier."""

    sample: Sample
    embedding: Stage
    layers: tuple[Stage, ...]
    hidden: int
    head: Stage

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.embedding, *self.layers, self.head)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A network whose stages follow each other."""

    stages: tuple[Stage, ...]


Model = UNet | LSTM | Chain

_DESCRIPTIONS: Final = (
    re.compile(r"(?P<length>\d+)x(?P=length) \S+ picture, (?P<classes>\d+) classes"),
    re.compile(r"(?P<length>\d+)x(?P=length) crop of a .*, (?P<classes>\d+) classes"),
    re.compile(r"(?P<length>\d+) characters out of (?P<vocabulary>\d+), (?P<classes>\d+) classes"),
)
_COLOURS: Final = 3
_BLOCK_EXPANSION: Final = 4


def sample_from(description: str) -> Sample | None:
    """A sample from the workload's words for it; None where they are others than those of the workloads here."""
    found = next(filter(None, (pattern.match(description) for pattern in _DESCRIPTIONS)), None)
    return Sample(**{name: int(text) for name, text in found.groupdict().items()}) if found else None


def unet(sample: Sample, *, base_channels: int = 64, levels: int = 4) -> UNet:
    """Blocks of two 3x3 convolutions, each normalised; half the size and twice the channels on each level."""
    widths = [base_channels * 2**level for level in range(levels + 1)]
    sizes = [sample.length // 2**level for level in range(levels + 1)]

    def block(channels_in: int, channels: int) -> int:
        both = convolution(channels_in, channels, 3, bias=False) + convolution(channels, channels, 3, bias=False)
        return both + 2 * normalisation(channels)

    down = [
        _picture("block", width, size, block(above, width))
        for above, width, size in zip([_COLOURS, *widths], widths, sizes, strict=False)
    ]
    up = [
        _picture("block", width, size, convolution(below, width, 2, bias=True) + block(below, width))
        for below, width, size in reversed(list(zip(widths[1:], widths[:-1], sizes[:-1], strict=True)))
    ]
    head = _picture("scores", sample.classes, sample.length, convolution(widths[0], sample.classes, 1, bias=True))
    picture = _picture("picture", _COLOURS, sample.length, 0)
    return UNet(picture=picture, down=tuple(down), up=tuple(up), head=head)


def lstm(sample: Sample, *, embedding: int = 128, hidden: int = 256, layers: int = 2) -> LSTM:
    """Layers that read the text in both directions; the next one gets the states of both."""
    inputs = [embedding] + [2 * hidden] * (layers - 1)
    return LSTM(
        sample=sample,
        embedding=_text("embedding", embedding, sample, sample.vocabulary * embedding),
        layers=tuple(_text("LSTM", 2 * hidden, sample, recurrent(width, hidden)) for width in inputs),
        hidden=hidden,
        head=Stage(name="linear", channels=sample.classes, parameters=linear(2 * hidden, sample.classes)),
    )


def transformer(
    sample: Sample, *, width: int = 256, heads: int = 8, feed_forward: int = 1024, layers: int = 4
) -> Chain:
    """Encoder layers that normalise what goes into them, and a last normalisation."""
    attention = linear(width, 3 * width) + linear(width, width)
    layer = attention + linear(width, feed_forward) + linear(feed_forward, width) + 2 * normalisation(width)
    return Chain(
        stages=(
            _text("characters", 1, sample, 0),
            _text("embedding\nand position", width, sample, (sample.vocabulary + sample.length) * width),
            _text(f"{layers} encoder layers:\n{heads} heads, {feed_forward} units", width, sample, layers * layer),
            _text("layer\nnormalisation", width, sample, normalisation(width)),
            Stage(name="mean over\nthe text", channels=width),
            Stage(name="linear", channels=sample.classes, parameters=linear(width, sample.classes)),
        )
    )


def image_cnn(sample: Sample, *, base_channels: int, hidden_units: int) -> Chain:
    """Three blocks that halve the picture and double the channels, a hidden layer and a classifier."""
    channels = [_COLOURS, base_channels, 2 * base_channels, 4 * base_channels]
    blocks = [
        _picture(
            "3\N{MULTIPLICATION SIGN}3 convolution,\nnorm., pooling",
            width,
            sample.length // 2**number,
            convolution(before, width, 3, bias=True) + normalisation(width),
        )
        for number, (before, width) in enumerate(pairwise(channels), start=1)
    ]
    features = blocks[-1].channels * blocks[-1].length ** 2
    return Chain(
        stages=(
            _picture("picture", _COLOURS, sample.length, 0),
            *blocks,
            Stage(name="linear,\nReLU", channels=hidden_units, parameters=linear(features, hidden_units)),
            Stage(name="linear", channels=sample.classes, parameters=linear(hidden_units, sample.classes)),
        )
    )


def residual(sample: Sample, *, blocks: tuple[int, ...], bottleneck: bool, base_channels: int = 64) -> Chain:
    """A residual network whose first convolution keeps the size of the picture, and whose later groups halve it."""
    stages = [
        _picture("picture", _COLOURS, sample.length, 0),
        _picture(
            "3\N{MULTIPLICATION SIGN}3 conv.,\nnorm.",
            base_channels,
            sample.length,
            convolution(_COLOURS, base_channels, 3, bias=False) + normalisation(base_channels),
        ),
    ]
    for group, count in enumerate(blocks):
        inner, size = base_channels * 2**group, sample.length // 2**group
        outer = inner * (_BLOCK_EXPANSION if bottleneck else 1)
        ins = [stages[-1].channels] + [outer] * (count - 1)
        parameters = sum(_residual_block(before, inner, outer) for before in ins)
        stages.append(_picture(f"{count} residual\nblocks", outer, size, parameters))
    last = stages[-1].channels
    return Chain(
        stages=(
            *stages,
            Stage(name="mean over\npixels", channels=last),
            Stage(name="linear", channels=sample.classes, parameters=linear(last, sample.classes)),
        )
    )


def _residual_block(before: int, inner: int, outer: int) -> int:
    """Two 3x3 convolutions, or one between two of 1x1; one of 1x1 past them where the channels change."""
    if outer == inner:
        inside = convolution(before, inner, 3, bias=False) + convolution(inner, inner, 3, bias=False)
        norms = 2 * normalisation(inner)
    else:
        ends = convolution(before, inner, 1, bias=False) + convolution(inner, outer, 1, bias=False)
        inside = ends + convolution(inner, inner, 3, bias=False)
        norms = 2 * normalisation(inner) + normalisation(outer)
    past = before != outer
    return inside + norms + (convolution(before, outer, 1, bias=False) + normalisation(outer) if past else 0)


def _picture(name: str, channels: int, size: int, parameters: int) -> Stage:
    return Stage(name=name, channels=channels, length=size, is_picture=True, parameters=parameters)


def _text(name: str, channels: int, sample: Sample, parameters: int) -> Stage:
    return Stage(name=name, channels=channels, length=sample.length, parameters=parameters)


MODELS: Final[Mapping[tuple[str, str], Callable[[Sample], Model]]] = {
    ("gpu_report.workloads.unet", ""): unet,
    ("gpu_report.workloads.lstm", ""): lstm,
    ("gpu_report.workloads.transformer", ""): transformer,
    ("gpu_report.workloads.cnn", "small"): lambda sample: image_cnn(sample, base_channels=8, hidden_units=48),
    ("gpu_report.workloads.cnn", "medium"): lambda sample: image_cnn(sample, base_channels=32, hidden_units=152),
    ("gpu_report.workloads.cnn", "large"): lambda sample: image_cnn(sample, base_channels=40, hidden_units=2545),
    ("gpu_report.workloads.image_files", ""): lambda sample: image_cnn(sample, base_channels=32, hidden_units=152),
    ("gpu_report.workloads.resnet", "resnet18"): lambda sample: residual(sample, blocks=(2, 2, 2, 2), bottleneck=False),
    ("gpu_report.workloads.resnet", "resnet50"): lambda sample: residual(sample, blocks=(3, 4, 6, 3), bottleneck=True),
}
"""By the workload's module, and its size or name where that decides how large its network is."""


def model_of(*, source_file: str, workload: str, size: str, sample_description: str, parameters: int) -> Model | None:
    """The network of a workload as a record tells of it; None where it is none of these, or has other parameters."""
    sample = sample_from(sample_description)
    build = next((MODELS[source_file, key] for key in ("", size, workload) if (source_file, key) in MODELS), None)
    if sample is None or build is None:
        return None
    model = build(sample)
    return model if sum(stage.parameters for stage in model.stages) == parameters else None
