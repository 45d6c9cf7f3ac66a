"""torchvision's residual networks on the pictures of the image CNN, with a beginning that suits
32x32 pixels.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from torch import nn
from torchvision.models import resnet18, resnet50
from torchvision.models.resnet import BasicBlock, Bottleneck

from gpu_report.workloads.classification import TensorPairs
from gpu_report.workloads.synthetic import Split
from gpu_report.workloads.textures import CLASSES, IMAGE_PX, PictureClassification

LARGE: Final = "224px"
_ENLARGED: Final = 7


def for_small_pictures(model: nn.Module) -> nn.Module:
    """Put a 3x3 convolution of stride 1 in place of the 7x7 of stride 2, and take the pooling after
    it away.

    He et al. (2016) begin so on CIFAR-10. What was made for 224 pixels would leave 8x8 pixels to
    the first block.
    """
    stem = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
    model.conv1 = stem
    model.maxpool = nn.Identity()
    return model


@dataclass(frozen=True, kw_only=True)
class ResNetClassification(PictureClassification):
    """What both depths share; their data, settings and defaults are those of the image CNN.

    Each block begins as the identity (torchvision's `zero_init_residual`). Without that, ResNet-18
    went back to guessing on held-out pictures after some of the first epochs, while its training
    loss went on falling.
    """

    def checkpointed_blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        return (module for module in model.modules() if isinstance(module, BasicBlock | Bottleneck))

    def pieces(self, model: nn.Module) -> Iterator[nn.Module]:
        """The beginning, each block, and the head."""
        parts = dict(model.named_children())
        yield nn.Sequential(*(parts.pop(name) for name in ("conv1", "bn1", "relu", "maxpool")))
        head = parts.pop("fc")
        for layer in ("layer1", "layer2", "layer3", "layer4"):
            yield from parts.pop(layer).children()
        yield nn.Sequential(*parts.values(), nn.Flatten(), head)


@dataclass(frozen=True, kw_only=True)
class ResNet18Classification(ResNetClassification):
    """11,173,962 parameters in eight blocks of two convolutions."""

    name: ClassVar[str] = "resnet18"
    title: ClassVar[str] = "ResNet-18"

    def build_model(self) -> nn.Module:
        return for_small_pictures(resnet18(num_classes=CLASSES, zero_init_residual=True))


@dataclass(frozen=True, kw_only=True)
class ResNet50Classification(ResNetClassification):
    """23,520,842 parameters in sixteen blocks of three convolutions.

    Size 224px is the network as it is published, with 23,528,522 parameters, on the same pictures
    enlarged: work enough for a large GPU.
    """

    name: ClassVar[str] = "resnet50"
    sizes: ClassVar[tuple[str, ...]] = ("default", LARGE)
    title: ClassVar[str] = "ResNet-50"

    @property
    def sample_description(self) -> str:  # type: ignore[override]
        small = super().sample_description
        return (
            f"{small}, enlarged to {_ENLARGED * IMAGE_PX}x{_ENLARGED * IMAGE_PX}"
            if self.size == LARGE
            else small
        )

    def build_model(self) -> nn.Module:
        model = resnet50(num_classes=CLASSES, zero_init_residual=True)
        return model if self.size == LARGE else for_small_pictures(model)

    def labelled(self, split: Split, samples: int) -> TensorPairs:
        pairs = super().labelled(split, samples)
        if self.size == LARGE:
            pairs.inputs = nn.functional.interpolate(pairs.inputs, scale_factor=_ENLARGED)
        return pairs
