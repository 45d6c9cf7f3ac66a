"""The training loop: what it trains on, in which order, and that the same seed gives the same training."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.measure.batches import ShuffledSampler
from gpu_report.measure.training import Training, build_training, evaluate, train
from gpu_report.records import Epoch
from gpu_report.variant import Variant
from gpu_report.workloads.protocol import WorkloadError
from tests.unit.measure.tiny_workloads import Tiny

CPU = torch.device("cpu")


def build(*, seed: int = 0, steps_per_epoch: int | None = None, samples: int = 10, workers: int = 0) -> Training:
    variant = Variant(workload="tiny", device="cpu", batch_size=4, workers=workers, epochs=3)
    workload = Tiny(size="default", seed=0, samples=samples)
    return build_training(workload, variant, device=CPU, seed=seed, steps_per_epoch=steps_per_epoch)


def train_quietly(training: Training, *, epochs: int) -> list[Epoch]:
    return train(training, epochs=epochs, on_step=lambda _epoch, _step: None, before_epoch=lambda _epoch: None).epochs


@given(samples=st.integers(1, 30), per_epoch=st.integers(1, 80), seed=st.integers(0, 2**32))
def test_every_sample_is_drawn_once_before_any_is_drawn_again(samples: int, per_epoch: int, seed: int) -> None:
    sampler = ShuffledSampler(samples=samples, samples_per_epoch=per_epoch, seed=seed)
    drawn = [index for _epoch in range(3) for index in sampler]
    assert len(drawn) == 3 * per_epoch
    for start in range(0, len(drawn) - samples + 1, samples):
        assert sorted(drawn[start : start + samples]) == list(range(samples))


def test_an_epoch_over_the_whole_set_ends_with_a_smaller_batch() -> None:
    epochs = train_quietly(build(samples=10), epochs=2)
    assert [epoch.samples for epoch in epochs] == [10, 10]
    assert [len(epoch.step_times_ms) for epoch in epochs] == [3, 3]


def test_a_batch_larger_than_the_training_set_is_refused_for_whole_epochs_only() -> None:
    with pytest.raises(WorkloadError, match=r"a batch of 4 is more than the 3 samples .* smaller batch_size or more"):
        build(samples=3)

    assert build(samples=4).train_samples == 4
    assert build(samples=3, steps_per_epoch=2).train_samples == 3


def test_an_epoch_of_more_steps_than_the_set_holds_goes_through_it_again() -> None:
    epochs = train_quietly(build(samples=10, steps_per_epoch=5), epochs=2)
    assert [epoch.samples for epoch in epochs] == [20, 20]


def test_the_same_seed_trains_alike_and_another_one_otherwise() -> None:
    first, again, other = (train_quietly(build(seed=seed), epochs=2) for seed in (3, 3, 4))
    assert [epoch.train_losses for epoch in first] == [epoch.train_losses for epoch in again]
    assert first[0].train_losses != other[0].train_losses


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_loader_workers_change_nothing_of_what_is_learnt() -> None:
    alone, helped = (train_quietly(build(workers=workers), epochs=2) for workers in (0, 1))
    assert [epoch.train_losses for epoch in alone] == [epoch.train_losses for epoch in helped]


def test_evaluating_changes_nothing() -> None:
    training = build()
    before = [parameter.clone() for parameter in training.model.parameters()]
    assert evaluate(training) == evaluate(training)
    assert all(map(torch.equal, before, training.model.parameters()))


def test_fp32_means_ieee_arithmetic() -> None:
    build()
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
