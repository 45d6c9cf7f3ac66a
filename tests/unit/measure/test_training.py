"""The training loop: what it trains on, what a seed decides, what options leave alone, and when it
has warmed up.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from gpu_report.measure.arithmetic import multiply_in_fp8
from gpu_report.measure.training import (
    eager_step,
    evaluate,
    is_enough,
    prepare,
    train_step,
    warm_up,
)
from gpu_report.study.study import Protocol
from gpu_report.workloads.gpt2 import GPT2LanguageModel
from gpu_report.workloads.protocol import WorkloadError, with_defaults
from tests.unit.measure.trainings import build, losses, pictures, tiny, train_for, train_quietly

PROTOCOL = Protocol(repetitions=5, profile_steps=3, timed_epochs=4, timed_seconds=3.0)


def test_an_epoch_ends_with_a_smaller_batch_or_goes_through_the_set_again() -> None:
    epochs = train_quietly(build(tiny(samples=10)))
    assert [epoch.samples for epoch in epochs] == [10, 10]
    assert [len(epoch.step_times_ms) for epoch in epochs] == [3, 3]
    epochs = train_quietly(build(tiny(samples=10), steps_per_epoch=5))
    assert [epoch.samples for epoch in epochs] == [20, 20]


def test_a_batch_larger_than_the_training_set_is_refused_for_whole_epochs_only() -> None:
    with pytest.raises(
        WorkloadError,
        match=r"a batch of 4 is more than the 3 samples .* smaller batch_size or more",
    ):
        build(tiny(samples=3))

    assert build(tiny(samples=4)).train_samples == 4
    assert build(tiny(samples=3), steps_per_epoch=2).train_samples == 3


def test_the_same_seed_trains_alike_and_another_one_otherwise() -> None:
    first, again, other = (losses(build(tiny(), seed=seed)) for seed in (3, 3, 4))
    assert first == again
    assert first[0] != other[0]


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_loader_workers_change_nothing_of_what_is_learned() -> None:
    assert losses(build(tiny(), workers=1)) == losses(build(tiny()))


def test_evaluating_changes_nothing() -> None:
    training = build(tiny())
    before = [parameter.clone() for parameter in training.model.parameters()]
    assert evaluate(training) == evaluate(training)
    assert all(map(torch.equal, before, training.model.parameters()))


def test_a_model_that_multiplies_in_fp8_is_evaluated_too() -> None:
    gpt2 = GPT2LanguageModel(size="tiny", seed=0, train_samples=4, test_samples=2)
    training = build(with_defaults(gpt2), precision="bf16")
    loss, _ = evaluate(training)
    multiply_in_fp8(training.model, emulate=True)
    assert evaluate(training)[0] == pytest.approx(loss, rel=0.01)


def test_epochs_lie_one_after_the_other_on_the_clock_that_all_processes_share() -> None:
    trained = train_for(build(tiny()), epochs=3)
    moments = [moment for window in trained.epoch_windows_s for moment in window]
    assert len(moments) == 6
    assert moments == sorted(moments)
    assert sum(epoch.wall_time_s for epoch in trained.epochs) < trained.wall_s


def test_epochs_are_added_until_enough_is_timed_and_leave_what_was_learned_alone() -> None:
    asked, longer = (
        train_for(build(tiny()), epochs=3),
        train_for(build(tiny()), epochs=3, timed_epochs=5),
    )
    assert len(longer.epochs) == 3
    assert len(longer.extra_epochs) >= 3
    assert len(longer.epoch_windows_s) == len(longer.epochs) + len(longer.extra_epochs)
    learnt, learnt_longer = (
        [(epoch.train_losses, epoch.quality) for epoch in each.epochs] for each in (asked, longer)
    )
    assert learnt_longer == learnt


@pytest.mark.parametrize("options", ["fused", "checkpoint", "channelslast+fused+resident"])
def test_an_option_changes_how_a_training_runs_and_not_what_it_learns(options: str) -> None:
    assert losses(build(pictures(), options=options)) == pytest.approx(
        losses(build(pictures())), rel=1e-3
    )


@pytest.mark.parametrize(("parts", "samples"), [(2, 10), (4, 10), (4, 9)])
def test_gradients_accumulated_over_parts_are_those_of_the_whole_batch(
    parts: int, samples: int
) -> None:
    """A last batch with fewer samples than parts is accumulated sample by sample."""
    accumulated = losses(build(tiny(samples=samples), accumulation=parts))
    assert accumulated == pytest.approx(losses(build(tiny(samples=samples))), rel=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_about_the_same(precision: str) -> None:
    assert losses(build(pictures(), precision=precision)) == pytest.approx(
        losses(build(pictures())), rel=0.05
    )


def test_the_gradient_scale_is_recorded_per_step_for_fp16_and_for_nothing_else() -> None:
    (scaled, _), (plain, _) = (
        train_quietly(build(tiny(), precision=precision)) for precision in ("fp16", "bf16")
    )
    assert len(scaled.loss_scales) == len(scaled.train_losses)
    assert all(math.log2(scale).is_integer() for scale in scaled.loss_scales)
    assert plain.loss_scales == []


def test_a_step_whose_gradients_overflow_is_skipped_and_lowers_the_scale() -> None:
    training = build(tiny(), precision="fp16")
    before = [parameter.clone() for parameter in training.model.parameters()]
    inputs, target = next(iter(training.train_loader))

    train_step(training, [inputs * 6e4, target])

    assert all(map(torch.equal, before, training.model.parameters()))
    assert training.arithmetic.scaler.get_scale() == 2.0**15


def test_a_step_names_its_phases_in_order() -> None:
    training, entered = build(tiny(), accumulation=2), []

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        entered.append(name)
        yield

    eager_step(training, next(iter(training.train_loader)), phase=phase)
    assert entered == ["data", "forward", "backward", "forward", "backward", "optimizer"]


def test_a_compiled_training_learns_the_same_and_preparing_it_leaves_no_trace(
    traced_only: None,
) -> None:
    training, plain = build(tiny(), options="compile"), build(tiny())

    assert prepare(training) > 0

    assert all(map(torch.equal, training.model.parameters(), plain.model.parameters()))
    assert training.optimizer.state_dict() == plain.optimizer.state_dict()
    assert losses(training) == pytest.approx(losses(plain), rel=1e-5)


@pytest.mark.parametrize(
    ("times_s", "warm_up_epochs"),
    [
        ([1.2, 1.0, 1.0, 1.0, 1.0], 1),
        # Compiling and tuning reach into the second and third epoch.
        ([30.0, 1.85, 0.82, 0.49, 0.52, 0.5, 0.51], 3),
        ([6.0, 4.14, 1.14, 1.22, 1.18, 1.16], 2),
        # One slow epoch in the middle is the host's, and stays.
        ([1.2, 1.0, 1.0, 3.0, 1.0, 1.0], 1),
    ],
)
def test_warm_up_ends_with_the_last_of_the_first_epochs_that_take_much_longer(
    times_s: list[float], warm_up_epochs: int
) -> None:
    found = warm_up(times_s, PROTOCOL)
    assert found.settled
    assert found.warm_up_epochs == warm_up_epochs


def test_a_process_whose_epochs_keep_getting_faster_is_not_settled_and_ends() -> None:
    times_s = [2.0**-number for number in range(40)]
    trained = next(length for length in range(1, 41) if is_enough(times_s[:length], PROTOCOL))
    found = warm_up(times_s[:trained], PROTOCOL)
    assert not found.settled
    assert found.warm_up_epochs == PROTOCOL.most_warm_up_epochs
    assert trained == PROTOCOL.most_warm_up_epochs + 4


@pytest.mark.parametrize(
    ("epoch_s", "timed"), [(10.0, 4), (0.5, 6), (0.001, PROTOCOL.most_timed_epochs)]
)
def test_a_process_times_the_epochs_and_the_seconds_of_the_protocol(
    epoch_s: float, timed: int
) -> None:
    trained = next(length for length in range(1, 100) if is_enough([epoch_s] * length, PROTOCOL))
    assert trained == 1 + timed


def test_a_single_timed_epoch_has_nothing_to_be_compared_with() -> None:
    asked = Protocol(repetitions=3, profile_steps=1, timed_epochs=1, timed_seconds=0.0)
    assert is_enough([5.0, 1.0], asked)
    assert warm_up([5.0, 1.0], asked).settled
