"""The image CNN has the sizes it claims, and its synthetic pictures can be distinguished."""

import torch

from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.synthetic import draw_blends
from gpu_report.workloads.textures import CLASSES, IMAGE_PX, class_textures
from tests.unit.workloads.training import all_of


def small_cnn(
    size: str = "small", *, train_samples: int = 64, test_samples: int = 200
) -> CNNClassification:
    return CNNClassification(
        size=size, seed=0, train_samples=train_samples, test_samples=test_samples
    )


def test_held_out_pictures_show_every_class_and_chance_is_near_a_tenth() -> None:
    workload = small_cnn(test_samples=2000)
    pictures, labels = all_of(workload.test_data())

    assert pictures.shape == (2000, 3, IMAGE_PX, IMAGE_PX)
    assert set(labels.tolist()) == set(range(CLASSES))
    assert 0.1 <= workload.chance() < 0.13


def test_pictures_contain_the_texture_of_their_first_class() -> None:
    pictures, _ = all_of(small_cnn().train_data())
    first = draw_blends(samples=64, classes=CLASSES, seed=0, split="train").first
    spectra = torch.fft.fft2(torch.from_numpy(class_textures())).abs().flatten(1)
    seen = torch.fft.fft2(pictures).abs().flatten(1)
    likeness = seen @ (spectra / spectra.norm(dim=1, keepdim=True)).T

    assert (likeness.argmax(dim=1) == torch.from_numpy(first)).float().mean() > 0.4
