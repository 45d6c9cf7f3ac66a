"""torchvision's residual networks on the pictures of the image CNN, with a beginning that suits 32x32 pixels."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import nn
from torchvision.models import resnet18, resnet50
from torchvision.models.resnet import BasicBlock, Bottleneck

from gpu_report.workloads.textures import CLASSES, PictureClassification


def for_small_pictures(model: nn.Module) -> nn.Module:
    """Put a 3x3 convolution of stride 1 in place of the 7x7 of stride 2, and take the pooling after it away.

    He et al. (2016) begin so on CIFAR-10. What was made for 224 pixels would leave 8x8 pixels to the first block.
    """
    stem = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
    model.conv1 = stem
    model.maxpool = nn.Identity()
    return model


@dataclass(frozen=True, kw_only=True)
class ResNetClassification(PictureClassification):
    """What both depths share; their data, settings and defaults are those of the image CNN.

    Each block begins as the identity (torchvision's `zero_init_residual`). Without that, ResNet-18 went back to
    guessing on held-out pictures after some of the first epochs, while its training loss went on falling.
    """

    def checkpointed_blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        return (module for module in model.modules() if isinstance(module, BasicBlock | Bottleneck))


@dataclass(frozen=True, kw_only=True)
class ResNet18Classification(ResNetClassification):
    """11,173,962 parameters in eight blocks of two convolutions."""

    name: ClassVar[str] = "resnet18"
    title: ClassVar[str] = "ResNet-18"

    def build_model(self) -> nn.Module:
        return for_small_pictures(resnet18(num_classes=CLASSES, zero_init_residual=True))


@dataclass(frozen=True, kw_only=True)
class ResNet50Classification(ResNetClassification):
    """23,520,842 parameters in sixteen blocks of three convolutions."""

    name: ClassVar[str] = "resnet50"
    title: ClassVar[str] = "ResNet-50"

    def build_model(self) -> nn.Module:
        return for_small_pictures(resnet50(num_classes=CLASSES, zero_init_residual=True))
