"""What one process is to do."""

from pathlib import Path

from gpu_report.measure.run import MOST_LIGHT_PROFILES, MOST_WARM_UP_STEPS, RICH_STEPS, Run
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant


def run(index: int, *, workers: int = 0) -> Run:
    measurement = Measurement(
        variant=Variant(
            workload="tiny", device="cpu", batch_size=4, workers=workers, epochs=3, seed=5
        ),
        workload=Workload(name="tiny", class_path="somewhere:Tiny", settings={}),
        protocol=Protocol(repetitions=3, profile_steps=2, timed_epochs=1, timed_seconds=0),
    )
    here = Path()
    return Run(
        measurement=measurement,
        machine="here",
        index=index,
        is_profiled=index == measurement.protocol.repetitions,
        threads=1,
        trace_folder=here,
        cache_folder=here,
    )


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
    assert run(3).steps_per_epoch == MOST_WARM_UP_STEPS + light + RICH_STEPS
    assert (
        run(3, workers=2).steps_per_epoch
        == MOST_WARM_UP_STEPS + light + MOST_LIGHT_PROFILES * 2 * 2 + RICH_STEPS
    )
