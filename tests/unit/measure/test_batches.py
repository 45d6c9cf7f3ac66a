"""Batches: every way of getting them gives the same ones."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import Dataset

from gpu_report.measure.batches import ShuffledSampler, example_batch
from gpu_report.measure.training import Training
from tests.unit.measure.trainings import build, tiny


def epochs_of(training: Training, *, epochs: int = 3) -> list[list[Tensor]]:
    return [batch for _epoch in range(epochs) for batch in training.train_loader]


@given(samples=st.integers(1, 30), per_epoch=st.integers(1, 80), seed=st.integers(0, 2**32))
def test_every_sample_is_drawn_once_before_any_is_drawn_again(
    samples: int, per_epoch: int, seed: int
) -> None:
    sampler = ShuffledSampler(samples=samples, samples_per_epoch=per_epoch, seed=seed)
    drawn = [index for _epoch in range(3) for index in sampler]
    assert len(drawn) == 3 * per_epoch
    for start in range(0, len(drawn) - samples + 1, samples):
        assert sorted(drawn[start : start + samples]) == list(range(samples))


@pytest.mark.parametrize("steps_per_epoch", [None, 2, 7])
def test_resident_data_comes_in_the_batches_of_the_loader(steps_per_epoch: int | None) -> None:
    loaded, resident = (
        build(tiny(), steps_per_epoch=steps_per_epoch, seed=5, options=options)
        for options in ("none", "resident")
    )
    assert len(resident.train_loader) == len(loaded.train_loader)
    for ours, theirs in zip(epochs_of(resident), epochs_of(loaded), strict=True):
        assert all(map(torch.equal, ours, theirs))


def test_resident_data_is_asked_for_once() -> None:
    asked = []

    class Counting(Dataset[tuple[Tensor, Tensor]]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            asked.append(index)
            return torch.zeros(4), torch.tensor(0)

    workload = tiny()
    workload.train_data = Counting  # type: ignore[method-assign]
    epochs_of(build(workload, options="resident"))

    to_know_its_form = [0]
    assert asked == [*to_know_its_form, 0, 1, 2, 3, 4, 5]


def test_an_example_has_the_samples_asked_for_even_of_a_small_set() -> None:
    inputs, target = example_batch(tiny(samples=3).train_data(), 4)
    assert (len(inputs), len(target)) == (4, 4)
    assert torch.equal(inputs[0], inputs[3])
