"""An image CNN on JPEG files from disk: every sample is decoded and augmented, so that DataLoader
workers have work.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import torch
from PIL import Image
from torch import Tensor, nn
from torchvision.transforms import v2

from gpu_report.workloads.classification import Classification, LabelledSamples
from gpu_report.workloads.cnn import SIZES, ImageCNN, convolution_blocks
from gpu_report.workloads.jpeg_files import CLASS_NAMES, image_paths
from gpu_report.workloads.synthetic import CEILING_DESCRIPTION, Split

CROP_PX: Final = 64


class ImageFiles(LabelledSamples):
    """Decodes a file and transforms the picture, each time a sample is asked for."""

    def __init__(self, paths: list[tuple[Path, int]], *, transform: v2.Transform) -> None:
        self.paths = paths
        self.targets = torch.tensor([label for _, label in paths])
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        path, _ = self.paths[index]
        with Image.open(path) as file:
            picture: Tensor = self.transform(file.convert("RGB"))
        return picture, self.targets[index]


def training_transform() -> v2.Transform:
    """A random part of the picture, mirrored half of the time, brighter or darker, slightly turned
    and blurred.

    The hue is left alone, since it marks the class.
    """
    return v2.Compose(
        [
            v2.RandomResizedCrop(CROP_PX, scale=(0.3, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomRotation(10),
            v2.ColorJitter(brightness=0.3, contrast=0.3),
            v2.GaussianBlur(kernel_size=5, sigma=(0.1, 1.0)),
            *_to_standardised_tensor(),
        ]
    )


def held_out_transform() -> v2.Transform:
    """The whole picture, made smaller; nothing random."""
    return v2.Compose([v2.Resize((CROP_PX, CROP_PX), antialias=True), *_to_standardised_tensor()])


def _to_standardised_tensor() -> list[v2.Transform]:
    half = [0.5, 0.5, 0.5]
    return [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(half, half)]


@dataclass(frozen=True, kw_only=True)
class ImageFileClassification(Classification):
    """One size, default: the medium image CNN on 64x64 crops (1,339,797 parameters).

    `folder` is where `jpeg_files.write_image_files` put the files; `image_px` is the width and
    height they have there.
    """

    folder: str
    image_px: int
    learning_rate: float = 1e-3

    name: ClassVar[str] = "image_files"
    title: ClassVar[str] = "image CNN on JPEG files"

    @property
    def sample_description(self) -> str:
        return (
            f"{CROP_PX}x{CROP_PX} crop of a {self.image_px}x{self.image_px} JPEG file, "
            f"{len(CLASS_NAMES)} classes"
        )

    @property
    def data_description(self) -> str:
        return (
            "Generated and written to disk as JPEG files of coloured spots, whose hues overlap "
            "between classes; "
            f"{CEILING_DESCRIPTION}. Each training sample is decoded when it is asked for, then "
            "randomly cropped, mirrored, turned, brightened and blurred."
        )

    def build_model(self) -> nn.Module:
        return ImageCNN(SIZES["medium"], classes=len(CLASS_NAMES), image_px=CROP_PX)

    def checkpointed_blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        return convolution_blocks(model)

    def labelled(self, split: Split, samples: int) -> ImageFiles:
        transform = {"train": training_transform, "test": held_out_transform}[split]()
        return ImageFiles(
            image_paths(Path(self.folder), split, samples=samples), transform=transform
        )
