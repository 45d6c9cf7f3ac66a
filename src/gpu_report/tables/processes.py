"""What one process of a variant says: each figure that is later summarised over the processes.

Repetition -> one number per metric; the first epoch is warm-up and enters only where it is meant.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Final

from gpu_report.records import Epoch, Record, Repetition, WorkloadFacts


def process_values(record: Record) -> dict[str, list[float]]:
    """Metric -> one value per process; no values where the variant was not measured to the end."""
    facts = record.workload
    repetitions = record.repetitions if record.status == "ok" and facts else []
    return {
        name: [figure(repetition, facts) for repetition in repetitions if facts] for name, figure in _FIGURES.items()
    }


def timed_epochs(repetition: Repetition) -> list[Epoch]:
    """Every epoch but the first."""
    return repetition.epochs[1:]


def is_projected(record: Record) -> bool:
    """Whether an epoch was not the whole training set, shorter or longer, so that the time of one is projected."""
    facts = record.workload
    if facts is None:
        return False
    epochs = [epoch for repetition in record.repetitions for epoch in timed_epochs(repetition)]
    return any(len(epoch.step_times_ms) != facts.steps_per_full_epoch for epoch in epochs)


def profile_overhead(record: Record) -> float:
    """Median step time with the profiler on over the median wall time per timed step; NaN without either.

    Both are host clocks with the device synchronised at the ends; device times of single steps would leave out what the
    profiler costs on the host.
    """
    if record.profile is None or record.status != "ok":
        return math.nan
    timed_ms = [_wall_per_step_ms(repetition) for repetition in record.repetitions]
    return statistics.median(record.profile.step_times_ms) / statistics.median(timed_ms)


def _wall_per_step_ms(repetition: Repetition) -> float:
    epochs = timed_epochs(repetition)
    return 1000 * sum(epoch.wall_time_s for epoch in epochs) / sum(len(epoch.step_times_ms) for epoch in epochs)


def _step_time_ms(repetition: Repetition, _: WorkloadFacts) -> float:
    return statistics.median(time for epoch in timed_epochs(repetition) for time in epoch.step_times_ms)


def _throughput_per_s(repetition: Repetition, _: WorkloadFacts) -> float:
    epochs = timed_epochs(repetition)
    return sum(epoch.samples for epoch in epochs) / sum(epoch.wall_time_s for epoch in epochs)


def _epoch_time_s(repetition: Repetition, facts: WorkloadFacts) -> float:
    """Wall time per step, times the steps of a whole epoch; for a whole epoch that is its wall time."""
    return statistics.median(
        epoch.wall_time_s * (facts.steps_per_full_epoch / len(epoch.step_times_ms))
        for epoch in timed_epochs(repetition)
    )


def _first_epoch_ratio(repetition: Repetition, _: WorkloadFacts) -> float:
    timed_s = statistics.median(epoch.wall_time_s for epoch in timed_epochs(repetition))
    return repetition.epochs[0].wall_time_s / timed_s


def _data_wait_share(repetition: Repetition, _: WorkloadFacts) -> float:
    epochs = timed_epochs(repetition)
    waited_ms = sum(sum(epoch.data_wait_ms) for epoch in epochs)
    return waited_ms / (1000 * sum(epoch.wall_time_s for epoch in epochs))


_FIGURES: Final[Mapping[str, Callable[[Repetition, WorkloadFacts], float]]] = {
    "step_time_ms": _step_time_ms,
    "throughput_per_s": _throughput_per_s,
    "epoch_time_s": _epoch_time_s,
    "first_epoch_ratio": _first_epoch_ratio,
    "memory_peak_mib": lambda repetition, _: repetition.memory_peak_mib,
    "quality": lambda repetition, _: repetition.epochs[-1].quality,
    "test_loss": lambda repetition, _: repetition.epochs[-1].test_loss,
    "data_wait_share": _data_wait_share,
}
