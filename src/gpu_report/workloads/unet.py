"""U-Net on synthetic pictures of discs and squares: which pixel belongs to what?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from gpu_report.workloads.classification import Classification, TensorPairs
from gpu_report.workloads.synthetic import Floats, Integers, Split, pixel_noise, stream

CLASSES: Final = 3
"""Background, disc, square."""

SIZES: Final[Mapping[str, int]] = {"32px": 32, "64px": 64, "128px": 128}
"""Width and height of a picture in pixels; the network is the same."""

BASE_CHANNELS: Final = 64
SHAPES_PER_PICTURE: Final = 4
MISLABELLED_SHARE: Final = 0.15
DICE_CEILING: Final = (1 + 2 * (1 - MISLABELLED_SHARE)) / CLASSES
"""Dice, on average over data sets, of a model that sees every shape as it is: the background is all
right.
"""

COLOUR_CONTRAST: Final = 0.8
COLOUR_SPREAD: Final = 0.5
NOISE: Final = 0.7


class DoubleConvolution(nn.Sequential):
    """Twice: 3x3 convolution without bias, since the batch normalisation after it has one, and
    ReLU.
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__(
            nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels_out, channels_out, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    """Four levels down, four up, joined by skip connections (Ronneberger et al. 2015, with padding
    and normalisation).

    31,037,763 parameters with 64 base channels and 3 classes. Takes (samples, 3, height, width),
    both divisible by 16, and gives one score per class and pixel: (samples, classes, height,
    width).
    """

    def __init__(self, *, base_channels: int = BASE_CHANNELS, classes: int = CLASSES) -> None:
        super().__init__()
        widths = [base_channels * 2**level for level in range(5)]
        downwards = list(pairwise(widths))
        upwards = [(below, above) for above, below in reversed(downwards)]
        self.entry = DoubleConvolution(3, base_channels)
        self.pool = nn.MaxPool2d(2)
        self.encoders = nn.ModuleList(DoubleConvolution(above, below) for above, below in downwards)
        self.enlargers = nn.ModuleList(
            nn.ConvTranspose2d(below, above, 2, stride=2) for below, above in upwards
        )
        self.decoders = nn.ModuleList(DoubleConvolution(below, above) for below, above in upwards)
        self.head = nn.Conv2d(base_channels, classes, kernel_size=1)

    def forward(self, pictures: Tensor) -> Tensor:
        features = self.entry(pictures)
        skipped = []
        for encoder in self.encoders:
            skipped.append(features)
            features = encoder(self.pool(features))
        for enlarger, decoder in zip(self.enlargers, self.decoders, strict=True):
            features = decoder(torch.cat([skipped.pop(), enlarger(features)], dim=1))
        scores: Tensor = self.head(features)
        return scores


class _Along(nn.Module):
    """A piece of a U-Net, past which goes what the way up will need: features of higher levels, the
    highest first.
    """

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, features: Tensor, *skipped: Tensor) -> tuple[Tensor, ...]:
        return self.parts(features), *skipped


class _Down(_Along):
    def forward(self, features: Tensor, *skipped: Tensor) -> tuple[Tensor, ...]:
        return self.parts(features), *skipped, features


class _Up(_Along):
    def __init__(self, enlarger: nn.Module, *parts: nn.Module) -> None:
        super().__init__(*parts)
        self.enlarger = enlarger

    def forward(self, features: Tensor, *skipped: Tensor) -> tuple[Tensor, ...]:
        return self.parts(torch.cat([skipped[-1], self.enlarger(features)], dim=1)), *skipped[:-1]


@dataclass(frozen=True, kw_only=True)
class UNetSegmentation(Classification):
    """Classifies pixels, in sizes 32px, 64px and 128px; quality is the Dice coefficient of
    `mean_dice`.
    """

    train_samples: int = 500
    test_samples: int = 100
    learning_rate: float = 3e-4

    name: ClassVar[str] = "unet"
    sizes: ClassVar[tuple[str, ...]] = tuple(SIZES)
    title: ClassVar[str] = "U-Net"
    quality_name: ClassVar[str] = "Dice"
    loss_name: ClassVar[str] = "cross-entropy per pixel"
    data_description: ClassVar[str] = (
        f"Generated: {SHAPES_PER_PICTURE} discs and squares at random places and sizes, in "
        "colours that differ on average by class and vary from shape to shape, under pixel "
        "noise; "
        f"{MISLABELLED_SHARE:.0%} of the shapes carry the other shape's label, which no model can "
        f"foresee, so that a Dice of about {DICE_CEILING:.2f} is the most that can be reached."
    ).replace("%", " %")

    @property
    def sample_description(self) -> str:
        pixels = SIZES[self.size]
        return f"{pixels}x{pixels} RGB picture, {CLASSES} classes per pixel"

    def build_model(self) -> nn.Module:
        return UNet()

    def checkpointed_blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        return (module for module in model.modules() if isinstance(module, DoubleConvolution))

    def pieces(self, model: nn.Module) -> Iterator[nn.Module]:
        """A convolution each: between the two of a level a model can be divided, too."""
        whole = cast("UNet", model)
        first, second = slice(3), slice(3, None)
        entry, *encoders = (list(block.children()) for block in (whole.entry, *whole.encoders))
        yield from (_Along(*entry[first]), _Along(*entry[second]))
        for encoder in encoders:
            yield from (_Down(whole.pool, *encoder[first]), _Along(*encoder[second]))
        for enlarger, block in zip(whole.enlargers, whole.decoders, strict=True):
            decoder = list(block.children())
            yield from (_Up(enlarger, *decoder[first]), _Along(*decoder[second]))
        yield _Along(whole.head)

    def quality(self, output: Tensor, target: Tensor) -> float:
        # On the host argmax over a dimension that is not the last takes seven times as long as max.
        return mean_dice(output.max(dim=1).indices, target)

    def chance(self) -> float:
        """Dice of naming each pixel's class at random, as often as it occurs: every class then gets
        its own share.
        """
        counts = self.labelled("test", self.test_samples).targets.flatten().bincount()
        return (counts[counts > 0] / counts.sum()).mean().item()

    def labelled(self, split: Split, samples: int) -> TensorPairs:
        return shape_pictures(
            samples=samples, image_px=SIZES[self.size], seed=self.seed, split=split
        )


def mean_dice(predicted: Tensor, target: Tensor) -> float:
    """Dice 2|P and T| / (|P| + |T|) of each class over all pixels of all pictures, averaged over
    the classes in target.

    The background counts as a class.
    """
    coefficients: list[float] = []
    for label in target.flatten().bincount().nonzero().flatten().tolist():
        found, wanted = predicted == label, target == label
        coefficients.append(
            2 * (found & wanted).sum().item() / (found.sum().item() + wanted.sum().item())
        )
    return sum(coefficients) / len(coefficients)


class Outline(NamedTuple):
    """Where a shape (1 disc, 2 square) lies: its centre and its reach from there, in pixels."""

    shape: int
    across: float
    down: float
    reach: float


def shape_pictures(
    *,
    samples: int,
    image_px: int,
    seed: int,
    split: Split,
    mislabelled_share: float = MISLABELLED_SHARE,
) -> TensorPairs:
    """Pictures (samples, 3, pixels, pixels) and the class of every pixel; later shapes cover
    earlier ones.
    """
    pictures = pixel_noise(
        (samples, 3, image_px, image_px), deviation=NOISE, seed=seed, split=split
    )
    masks = np.empty((samples, image_px, image_px), dtype=np.int64)
    labels = np.zeros((samples, 1 + SHAPES_PER_PICTURE), dtype=np.int64)
    colours = np.zeros((samples, 3, 1 + SHAPES_PER_PICTURE), dtype=np.float32)
    outlines = []
    for layer in range(SHAPES_PER_PICTURE):
        shapes, labels[:, layer + 1] = draw_labels(
            samples, mislabelled_share=mislabelled_share, seed=seed, split=split, layer=layer
        )
        colours[:, :, layer + 1] = _draw_colours(shapes, seed=seed, split=split, layer=layer)
        outlines.append(_draw_outlines(shapes, image_px, seed=seed, split=split, layer=layer))
    # One picture at a time stays in the processor's cache: a third of the time of all pictures at
    # once.
    for sample in range(samples):
        topmost = _topmost_shapes([outline[sample] for outline in outlines], image_px)
        pictures[sample] += colours[sample].take(topmost, axis=1)
        masks[sample] = labels[sample].take(topmost)
    return TensorPairs(torch.from_numpy(pictures), torch.from_numpy(masks))


def draw_labels(
    samples: int, *, mislabelled_share: float, seed: int, split: Split, layer: int
) -> tuple[Integers, Integers]:
    """What each shape is (1 disc, 2 square), and what it is labelled."""
    shapes = stream(seed=seed, split=split, quantity=f"shape {layer}").integers(
        1, CLASSES, size=samples
    )
    mislabelled = (
        stream(seed=seed, split=split, quantity=f"label {layer}").random(samples)
        < mislabelled_share
    )
    return shapes, np.where(mislabelled, CLASSES - shapes, shapes)


def _draw_colours(shapes: Integers, *, seed: int, split: Split, layer: int) -> Floats:
    draw = stream(seed=seed, split=split, quantity=f"colour {layer}")
    means = COLOUR_CONTRAST * np.array([[0, 0, 0], [1, 0, -1], [-1, 0, 1]], dtype=np.float32)
    spread: Floats = COLOUR_SPREAD * draw.standard_normal((len(shapes), 3), dtype=np.float32)
    return means[shapes] + spread


def _draw_outlines(
    shapes: Integers, image_px: int, *, seed: int, split: Split, layer: int
) -> list[Outline]:
    draw = stream(seed=seed, split=split, quantity=f"place {layer}").random((len(shapes), 3))
    centres, reaches = draw[:, :2] * image_px, (0.14 + 0.14 * draw[:, 2]) * image_px
    return [Outline(*values) for values in zip(shapes, *centres.T, reaches, strict=True)]


def _topmost_shapes(outlines: Sequence[Outline], image_px: int) -> Integers:
    """Which shape is seen at each pixel (pixels, pixels): 1 for the first, 0 where there is
    none.
    """
    topmost = np.zeros((image_px, image_px), dtype=np.int64)
    position = np.arange(image_px) + 0.5
    for number, outline in enumerate(outlines, start=1):
        across, down = np.abs(position - outline.across), np.abs(position - outline.down)
        if outline.shape == 1:
            topmost[down[:, None] ** 2 + across**2 < outline.reach**2] = number
        else:
            topmost[np.ix_(down < 0.9 * outline.reach, across < 0.9 * outline.reach)] = number
    return topmost
