"""What one process of a variant says: each figure that is later summarised over the processes.

Repetition -> one number per metric: the median over its timed epochs; warm-up enters only where it
is meant.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, pairwise
from typing import Final

from gpu_report.records.record import Record, Repetition, Telemetry, WorkloadFacts
from gpu_report.study.catalogue import BuiltInWorkload
from gpu_report.study.options import first_loss_scale
from gpu_report.study.study import Workload


def process_values(record: Record) -> dict[str, list[float]]:
    """Metric -> one value per process; no values where the variant was not measured to the end.

    A process without a figure is left out of it: one without telemetry, or the one that compiled
    with an empty cache where the time with a filled one is asked for.
    """
    return {name: values_of(record, name) for name in _FIGURES}


def values_of(record: Record, metric: str) -> list[float]:
    """The same of one metric alone: to summarise the steps takes longer than all else."""
    return [*values_by_seed(record, metric).values()]


def values_by_seed(record: Record, metric: str) -> dict[tuple[int, int], float]:
    """The same by the index and seed of each process, so that processes that began alike can be
    paired.
    """
    facts = record.workload
    if record.status != "ok" or facts is None:
        return {}
    found = {(each.index, each.seed): _FIGURES[metric](each, facts) for each in record.repetitions}
    return {begin: value for begin, value in found.items() if value is not None}


def times_to_target_s(record: Record, target: float | None) -> list[float]:
    """How long each process trained, without evaluation, up to and including the first epoch that
    reached the target.

    Empty without a target, where a process never reached it, and where every epoch begins anew.
    """
    if target is None or record.status != "ok" or brings_loop(record):
        return []
    times = []
    for epochs in (repetition.epochs for repetition in record.repetitions):
        reached = next(
            (
                at
                for at, epoch in enumerate(epochs, start=1)
                if _reaches(record, epoch.quality, target)
            ),
            None,
        )
        if reached is None:
            return []
        times.append(sum(epoch.wall_time_s for epoch in epochs[:reached]))
    return times


def _reaches(record: Record, quality: float | None, target: float) -> bool:
    falls = record.workload is not None and record.workload.quality_better == "lower"
    return quality is not None and (quality <= target if falls else quality >= target)


def optimizer_steps(record: Record) -> float:
    """Steps up to the epoch whose quality is reported; NaN where none was measured."""
    first = next(iter(record.repetitions), None) if record.status == "ok" else None
    return sum(len(epoch.step_times_ms) for epoch in first.epochs) if first else math.nan


def brings_loop(record: Record) -> bool:
    """Whether a loop of the workload's own trains it, each epoch from the beginning; also where it
    was not measured.
    """
    if record.workload is not None:
        return record.workload.begins_anew
    ours = built_in(record)
    return ours is not None and bool(ours.loops)


def built_in(record: Record) -> BuiltInWorkload | None:
    """The workload of ours that a record is of; None where it is a user's, whatever its name."""
    class_path = record.measurement.get("workload", {}).get("class_path", "")
    return Workload(name=record.as_variant().workload, class_path=class_path, settings={}).built_in


def is_projected(record: Record) -> bool:
    """Whether an epoch was not the whole training set, shorter or longer, so that the time of one
    is projected.

    Where every epoch is a training by a custom loop, each of its steps is the whole training set.
    """
    facts = record.workload
    if facts is None or facts.begins_anew:
        return False
    epochs = [epoch for repetition in record.repetitions for epoch in repetition.timed_epochs]
    return any(len(epoch.step_times_ms) != facts.steps_per_full_epoch for epoch in epochs)


def protocol_version(record: Record) -> int:
    """The version of the protocol that measured."""
    return record.measurement["protocol"]["version"]


def preparation_cold_s(record: Record) -> float:
    """What compiling and capturing took the first process; NaN where an earlier one had filled the
    compiler's cache.
    """
    first = min(record.repetitions, key=lambda repetition: repetition.index, default=None)
    if record.status != "ok" or first is None or first.preparation_cache == "filled":
        return math.nan
    return first.preparation_time_s


def skipped_steps(record: Record) -> float:
    """Steps whose gradients overflowed, so that the scaler left them out and lowered its factor;
    NaN without one.
    """
    scales = _loss_scales(record)
    if not scales:
        return math.nan
    first = first_loss_scale(record.as_variant().options)
    return sum(
        after < before for process in scales for before, after in pairwise([first, *process])
    )


def loss_scale_last(record: Record) -> float:
    """The scaler's factor after the last step, median over processes; NaN without one."""
    scales = _loss_scales(record)
    return statistics.median(process[-1] for process in scales) if scales else math.nan


def _loss_scales(record: Record) -> list[list[float]]:
    repetitions = record.repetitions if record.status == "ok" else []
    processes = [
        [scale for epoch in repetition.epochs for scale in epoch.loss_scales]
        for repetition in repetitions
    ]
    return [process for process in processes if process]


def _data_wait_share(repetition: Repetition, _: WorkloadFacts) -> float:
    shares = (
        sum(epoch.data_wait_ms) / (1000 * epoch.wall_time_s) for epoch in repetition.timed_epochs
    )
    return min(1.0, statistics.median(shares))  # two clocks' rounding can exceed the epoch


def _energy_per_sample_j(repetition: Repetition, _: WorkloadFacts) -> float | None:
    telemetry = repetition.telemetry
    if telemetry is None or telemetry.energy_j is None:
        return None
    return telemetry.energy_j / sum(epoch.samples for epoch in repetition.timed_epochs)


def _of_samples(
    samples_of: Callable[[Telemetry], list[float]], summary: Callable[[Iterable[float]], float]
) -> Callable[[Repetition, WorkloadFacts], float | None]:
    """A figure of the driver's samples; the driver need not know all of them."""

    def figure(repetition: Repetition, _: WorkloadFacts) -> float | None:
        samples = samples_of(repetition.telemetry) if repetition.telemetry else []
        return summary(samples) if samples else None

    return figure


_FIGURES: Final[Mapping[str, Callable[[Repetition, WorkloadFacts], float | None]]] = {
    "step_time_ms": lambda repetition, _: statistics.median(
        chain.from_iterable(epoch.step_times_ms for epoch in repetition.timed_epochs)
    ),
    "throughput_per_s": lambda repetition, _: repetition.throughput_per_s,
    # Wall time per step, times the steps of a whole epoch; for a whole epoch that is its wall time.
    "epoch_time_s": lambda repetition, facts: statistics.median(
        epoch.wall_time_s * (facts.steps_per_full_epoch / len(epoch.step_times_ms))
        for epoch in repetition.timed_epochs
    ),
    "first_epoch_ratio": lambda repetition, _: (
        repetition.epochs[0].wall_time_s
        / statistics.median(epoch.wall_time_s for epoch in repetition.timed_epochs)
    ),
    "memory_peak_mib": lambda repetition, _: repetition.memory_peak_mib,
    "quality": lambda repetition, _: repetition.epochs[-1].quality,
    "test_loss": lambda repetition, _: repetition.epochs[-1].test_loss,
    "data_wait_share": _data_wait_share,
    "preparation_time_s": lambda repetition, _: (
        None if repetition.preparation_cache == "empty" else repetition.preparation_time_s
    ),
    "utilisation_percent": _of_samples(
        lambda telemetry: telemetry.utilisation_percent, statistics.fmean
    ),
    "power_w": _of_samples(lambda telemetry: telemetry.power_w, statistics.fmean),
    "sm_clock_mhz": _of_samples(lambda telemetry: telemetry.sm_clock_mhz, statistics.median),
    "temperature_c": _of_samples(lambda telemetry: telemetry.temperature_c, max),
    "energy_per_sample_j": _energy_per_sample_j,
}
