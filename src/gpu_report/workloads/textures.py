"""Small pictures of ten classes, synthetic textures or CIFAR-10, and what workloads on them
share.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

import numpy as np
import torch

from gpu_report.workloads.cifar10 import cifar10_data
from gpu_report.workloads.classification import Classification, TensorPairs
from gpu_report.workloads.protocol import WorkloadError
from gpu_report.workloads.synthetic import (
    CEILING_DESCRIPTION,
    Floats,
    Integers,
    Split,
    draw_blends,
    pixel_noise,
    stream,
)

CLASSES: Final = 10
IMAGE_PX: Final = 32
WAVES_PER_TEXTURE: Final = 4
HIGHEST_FREQUENCY: Final = 5
TEXTURE_CONTRAST: Final = 1.0
TINT_CONTRAST: Final = 0.3
NOISE: Final = 1.5


@dataclass(frozen=True, kw_only=True)
class PictureClassification(Classification):
    """All of a workload but its title and its model; `data_folder` is read only where data is
    cifar10.
    """

    data: Literal["synthetic", "cifar10"] = "synthetic"
    data_folder: str = "results/data/cifar10"
    train_samples: int = 2048
    test_samples: int = 512
    learning_rate: float = 5e-4

    sample_description: ClassVar[str] = f"{IMAGE_PX}x{IMAGE_PX} RGB picture, {CLASSES} classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data not in ("synthetic", "cifar10"):
            raise WorkloadError(
                f"workloads.{self.name}.data: there is no data {self.data!r}; use one of "
                "synthetic, cifar10"
            )

    @property
    def data_description(self) -> str:
        if self.data == "cifar10":
            return (
                "CIFAR-10: photographs of ten classes, standardised per channel, in the order of "
                "the data set's files."
            )
        return (
            "Generated: each class is a texture of coloured waves, shown at a random shift under "
            "strong pixel noise; "
            f"{CEILING_DESCRIPTION}."
        )

    def labelled(self, split: Split, samples: int) -> TensorPairs:
        if self.data == "cifar10":
            return cifar10_data(
                Path(self.data_folder), workload=self.name, split=split, samples=samples
            )
        return texture_pictures(samples=samples, seed=self.seed, split=split)


def texture_pictures(*, samples: int, seed: int, split: Split) -> TensorPairs:
    """Pictures that blend the textures of two classes, each at its own random shift, under pixel
    noise.
    """
    blends = draw_blends(samples=samples, classes=CLASSES, seed=seed, split=split)
    shifts = stream(seed=seed, split=split, quantity="shifts").integers(
        IMAGE_PX, size=(samples, 2, 2)
    )
    pictures = pixel_noise(
        (samples, 3, IMAGE_PX, IMAGE_PX), deviation=NOISE, seed=seed, split=split
    )
    textures = class_textures()
    share = blends.share[:, None, None, None]
    pictures += share * _shifted(textures, blends.first, shifts[:, 0])
    pictures += (1 - share) * _shifted(textures, blends.second, shifts[:, 1])
    return TensorPairs(torch.from_numpy(pictures), torch.from_numpy(blends.label))


def class_textures() -> Floats:
    """One periodic texture per class (classes, 3, pixels, pixels): waves of whole periods, each in
    its own colour.

    The textures are part of the task, so they are the same for every seed.
    """
    draw = np.random.default_rng(CLASSES)
    frequencies = draw.integers(
        -HIGHEST_FREQUENCY, HIGHEST_FREQUENCY + 1, size=(CLASSES, WAVES_PER_TEXTURE, 2)
    )
    colours = draw.standard_normal((CLASSES, WAVES_PER_TEXTURE, 3))
    phases = draw.uniform(0, 2 * np.pi, (CLASSES, WAVES_PER_TEXTURE))
    position = np.arange(IMAGE_PX) * 2 * np.pi / IMAGE_PX
    rows, columns = (frequencies[:, :, axis, None] * position for axis in (0, 1))
    waves = np.sin(rows[..., :, None] + columns[..., None, :] + phases[..., None, None])
    textures = np.einsum("kwyx,kwc->kcyx", waves, colours) / np.sqrt(WAVES_PER_TEXTURE)
    tints = np.repeat(draw.standard_normal((CLASSES // 2, 3)), 2, axis=0)
    result: Floats = (TEXTURE_CONTRAST * textures + TINT_CONTRAST * tints[..., None, None]).astype(
        np.float32
    )
    return result


def _shifted(textures: Floats, classes: Integers, shifts: Integers) -> Floats:
    position = np.arange(IMAGE_PX)
    rows = (position + shifts[:, :1]) % IMAGE_PX
    columns = (position + shifts[:, 1:]) % IMAGE_PX
    channels, kinds = np.arange(3)[None, :, None, None], classes[:, None, None, None]
    shifted: Floats = textures[kinds, channels, rows[:, None, :, None], columns[:, None, None, :]]
    return shifted
