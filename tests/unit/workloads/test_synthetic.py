"""Draws are fixed by their seed, and labels leave no way to be right more often than the ceiling
says.
"""

import numpy as np
import pytest

from gpu_report.workloads.synthetic import ACCURACY_CEILING, Split, draw_blends, stream


def test_a_sample_depends_on_its_index_and_not_on_how_many_there_are() -> None:
    few, many = (
        draw_blends(samples=samples, classes=5, seed=3, split="train") for samples in (10, 1000)
    )

    for name in ("first", "second", "share", "label"):
        assert np.array_equal(getattr(few, name), getattr(many, name)[:10])


@pytest.mark.parametrize(
    ("seed", "split", "quantity"), [(1, "train", "noise"), (0, "test", "noise"), (0, "train", "x")]
)
def test_streams_of_another_seed_split_or_quantity_differ(
    seed: int, split: Split, quantity: str
) -> None:
    draws = stream(seed=0, split="train", quantity="noise").random(8)

    assert not np.array_equal(stream(seed=seed, split=split, quantity=quantity).random(8), draws)


def test_who_always_recognises_the_first_class_reaches_the_ceiling() -> None:
    blends = draw_blends(samples=100_000, classes=3, seed=0, split="train")

    assert np.mean(blends.label == blends.first) == pytest.approx(ACCURACY_CEILING, abs=0.01)
    assert not np.any(blends.first == blends.second)
    assert np.all((blends.label == blends.first) | (blends.label == blends.second))
