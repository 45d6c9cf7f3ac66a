"""The U-Net has the size it claims, and its pictures hold shapes whose labels nobody can get all
right.
"""

import hashlib
from typing import Any

import pytest
import torch

from gpu_report.workloads.unet import DICE_CEILING, UNetSegmentation, mean_dice, shape_pictures
from tests.unit.workloads.training import all_of


def small_unet(**settings: int) -> UNetSegmentation:
    return UNetSegmentation(
        size="32px", seed=0, **{"train_samples": 4, "test_samples": 40, **settings}
    )


def test_dice_of_a_perfect_answer_is_one_and_of_a_disjoint_answer_zero() -> None:
    target = torch.tensor([[[0, 1], [1, 0]]])

    assert mean_dice(target, target) == 1
    assert mean_dice(1 - target, target) == 0


def test_dice_is_averaged_over_the_classes_that_occur() -> None:
    target, predicted = torch.tensor([[0, 0, 0, 1]]), torch.tensor([[0, 0, 1, 1]])

    assert mean_dice(predicted, target) == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_chance_is_what_drawing_classes_as_often_as_they_occur_reaches() -> None:
    workload = small_unet(test_samples=200)
    _, masks = all_of(workload.test_data())
    shuffled = masks.flatten()[
        torch.randperm(masks.numel(), generator=torch.Generator().manual_seed(0))
    ]

    assert mean_dice(shuffled, masks.flatten()) == pytest.approx(workload.chance(), abs=0.01)


def test_who_sees_every_shape_reaches_the_ceiling() -> None:
    labelled = shape_pictures(samples=1000, image_px=32, seed=0, split="train").targets
    seen = shape_pictures(
        samples=1000, image_px=32, seed=0, split="train", mislabelled_share=0
    ).targets

    assert mean_dice(seen, labelled) == pytest.approx(DICE_CEILING, abs=0.02)


@pytest.mark.parametrize(
    ("settings", "digest"),
    [
        ({"samples": 7, "image_px": 32, "seed": 0, "split": "train"}, "5b31e9835eabb9b5"),
        ({"samples": 7, "image_px": 64, "seed": 1, "split": "test"}, "d515a19425fd1889"),
        ({"samples": 5, "image_px": 128, "seed": 2, "split": "train"}, "e2c1a8f179302760"),
    ],
)
def test_pictures_are_those_of_the_present_protocol(settings: Any, digest: str) -> None:
    pairs = shape_pictures(**settings)
    drawn = hashlib.sha256(pairs.inputs.numpy().tobytes() + pairs.targets.numpy().tobytes())

    assert drawn.hexdigest().startswith(digest)
