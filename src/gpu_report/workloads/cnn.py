"""An image CNN in three sizes on 32x32 RGB pictures of ten classes: synthetic textures, or
CIFAR-10.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

from torch import nn

from gpu_report.workloads.textures import CLASSES, IMAGE_PX, PictureClassification


@dataclass(frozen=True, kw_only=True)
class CNNSize:
    """Channels of the first of three convolutions (doubled at each), and units of the
    hidden layer.
    """

    base_channels: int
    hidden_units: int


SIZES: Final[Mapping[str, CNNSize]] = {
    "small": CNNSize(base_channels=8, hidden_units=48),
    "medium": CNNSize(base_channels=32, hidden_units=152),
    "large": CNNSize(base_channels=40, hidden_units=2545),
}


class ImageCNN(nn.Sequential):
    """Three blocks of 3x3 convolution, batch normalisation, ReLU and 2x2 pooling, then a hidden
    layer and a classifier.

    Parameters for 32x32 pictures of 10 classes: small 31,258, medium 406,674, large 6,689,125. The
    hidden layers have the widths that bring the counts to the 0.03, 0.41 and 6.69 million of the
    laboratory course this sweep follows.
    """

    def __init__(self, size: CNNSize, *, classes: int, image_px: int) -> None:
        channels = [3, size.base_channels, 2 * size.base_channels, 4 * size.base_channels]
        features = channels[-1] * (image_px // 8) ** 2
        super().__init__(
            *(_block(*pair) for pair in pairwise(channels)),
            nn.Flatten(),
            nn.Linear(features, size.hidden_units),
            nn.ReLU(inplace=True),
            nn.Linear(size.hidden_units, classes),
        )


def convolution_blocks(model: nn.Module) -> Iterable[nn.Module]:
    """The three blocks of an ImageCNN, whose activations are most of what it keeps for the backward
    pass.
    """
    return (block for block in model.children() if isinstance(block, nn.Sequential))


def _block(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


@dataclass(frozen=True, kw_only=True)
class CNNClassification(PictureClassification):
    """Sizes small, medium and large."""

    name: ClassVar[str] = "cnn"
    sizes: ClassVar[tuple[str, ...]] = tuple(SIZES)
    title: ClassVar[str] = "image CNN"

    def build_model(self) -> nn.Module:
        return ImageCNN(SIZES[self.size], classes=CLASSES, image_px=IMAGE_PX)

    def checkpointed_blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        return convolution_blocks(model)
