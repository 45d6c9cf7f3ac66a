"""The image CNN has the sizes it claims, and its synthetic pictures can be distinguished."""

from typing import get_args

import pytest
import torch

from gpu_report.workloads.cnn import SIZES, CNNClassification
from gpu_report.workloads.synthetic import Split, draw_blends
from gpu_report.workloads.textures import CLASSES, IMAGE_PX, class_textures
from tests.unit.workloads.training import all_of, losses_of_training, parameters_of


def small_cnn(size: str = "small", *, train_samples: int = 64, test_samples: int = 200) -> CNNClassification:
    return CNNClassification(size=size, seed=0, train_samples=train_samples, test_samples=test_samples)


@pytest.mark.parametrize(("size", "parameters"), [("small", 31_258), ("medium", 406_674), ("large", 6_689_125)])
def test_the_sizes_have_the_parameters_they_claim(size: str, parameters: int) -> None:
    assert parameters_of(small_cnn(size)) == parameters


def test_every_picture_gets_a_score_per_class() -> None:
    model = small_cnn().build_model()

    assert model(torch.zeros(2, 3, IMAGE_PX, IMAGE_PX)).shape == (2, CLASSES)
    assert list(SIZES) == ["small", "medium", "large"]


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


@pytest.mark.parametrize("split", get_args(Split))
def test_pictures_are_reproducible(split: Split) -> None:
    draws = [all_of(getattr(small_cnn(), f"{split}_data")())[0] for _ in range(2)]

    assert torch.equal(*draws)


def test_training_and_held_out_pictures_are_different() -> None:
    workload = small_cnn(test_samples=64)

    assert not torch.equal(all_of(workload.train_data())[0], all_of(workload.test_data())[0])


def test_the_cnn_learns() -> None:
    losses = losses_of_training(small_cnn(), steps=8)

    assert losses[-1] < losses[0]
