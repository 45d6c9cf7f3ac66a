"""What one process is to do."""

from gpu_report.measure.run import (
    LEAST_WARM_UP_STEPS,
    MOST_LIGHT_PROFILES,
    MOST_WARM_UP_STEPS,
    RICH_STEPS,
    Run,
)
from tests.unit.measure.trainings import measurement, run_of


def run(index: int, *, workers: int = 0) -> Run:
    asked = measurement("Tiny", repetitions=3, profile_steps=2, workers=workers, seed=5)
    return run_of(asked, index=index, is_profiled=index == 3)


def test_each_repetition_has_a_seed_of_its_own_and_the_profiled_run_that_of_the_first() -> None:
    assert [run(index).seed for index in range(4)] == [5, 6, 7, 5]


def test_the_run_after_the_repetitions_is_the_profiled_one() -> None:
    assert [run(index).title for index in (0, 2, 3)] == [
        "repetition 1",
        "repetition 3",
        "profiled run",
    ]
    assert run(3).epochs == 1
    assert (run(2).epochs, run(2).steps_per_epoch) == (3, None)


def test_the_profiled_run_has_steps_for_every_trace_and_for_prefetched_batches() -> None:
    light = MOST_LIGHT_PROFILES * (1 + 2)
    rich = LEAST_WARM_UP_STEPS + RICH_STEPS
    assert run(3).steps_per_epoch == rich + MOST_WARM_UP_STEPS + light
    assert (
        run(3, workers=2).steps_per_epoch
        == rich + MOST_WARM_UP_STEPS + light + MOST_LIGHT_PROFILES * 2 * 2
    )
