"""What one process of a variant says, and two variants compared process by process.

Repetition -> one number per metric: the median over its timed epochs; warm-up enters only where it
is meant
two records -> processes with the same seed side by side -> one figure of both, so that what seeds
differ in cancels: a seed gives data, initial weights and order
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Final

from gpu_report.records.data_sheets import data_sheets
from gpu_report.records.record import Record, Repetition, Telemetry
from gpu_report.study.catalogue import BuiltInWorkload
from gpu_report.study.machine import default_threads
from gpu_report.study.options import first_loss_scale
from gpu_report.study.study import Workload
from gpu_report.tables.sessions import ONE_SESSION, Sessions
from gpu_report.tables.statistics import NOT_MEASURED, Summary, difference, ratio


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
    if record.status != "ok" or record.workload is None:
        return {}
    found = {(each.index, each.seed): _FIGURES[metric](each, record) for each in record.repetitions}
    return {begin: value for begin, value in found.items() if value is not None}


def times_to_target_s(record: Record, target: float | None) -> list[float]:
    """How long each process trained, without evaluation, up to and including the first epoch that
    reached the target.

    Empty without a target, where a process never reached it, and where every epoch begins anew.
    """
    if target is None or record.status != "ok" or brings_loop(record):
        return []
    falls = record.workload is not None and record.workload.quality_better == "lower"
    times = []
    for epochs in (repetition.epochs for repetition in record.repetitions):
        reaching = (
            at
            for at, epoch in enumerate(epochs, start=1)
            if epoch.quality is not None
            and (epoch.quality <= target if falls else epoch.quality >= target)
        )
        reached = next(reaching, None)
        if reached is None:
            return []
        times.append(sum(epoch.wall_time_s for epoch in epochs[:reached]))
    return times


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
    return Workload(
        name=record.as_variant().workload, class_path=class_of(record)[0], settings={}
    ).built_in


def is_projected(record: Record) -> bool:
    """Whether an epoch was not the whole training set, shorter or longer, so that the time of one
    is projected.

    Where every epoch is a training by a custom loop, each of its steps is the whole training set.
    """
    facts = record.workload
    if facts is None or facts.begins_anew:
        return False
    epochs = [epoch for repetition in record.repetitions for epoch in repetition.timed_epochs]
    return any(epoch.samples != facts.train_samples for epoch in epochs)


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


def _of_samples(
    samples_of: Callable[[Telemetry], list[float]], summary: Callable[[Iterable[float]], float]
) -> Callable[[Repetition, Record], float | None]:
    """A figure of the driver's samples; the driver need not know all of them."""

    def figure(repetition: Repetition, _: Record) -> float | None:
        samples = samples_of(repetition.telemetry) if repetition.telemetry else []
        return summary(samples) if samples else None

    return figure


def flops_per_sample(record: Record) -> float:
    """Floating-point operations that training needs for a sample: by the workload's formula, else
    those of an eager step, as counted. NaN where it is not known, or where what was counted
    includes what checkpointing computes again.
    """
    facts, work = record.workload, record.profile.work if record.profile else None
    if facts is not None and facts.flops_per_token is not None:
        return facts.flops_per_token * (facts.tokens_per_sample or math.nan)
    if work is None or brings_loop(record) or "checkpoint" in record.as_variant().options:
        return math.nan
    return work.flops / work.samples


def data_sheet_flops_per_s(record: Record) -> float:
    """What the data sheet gives for dense matrix products in the training's precision, of all of
    its devices; NaN for a GPU that is not known, for CPUs, and where some layers compute in FP8, so
    that no one peak holds.
    """
    variant = record.as_variant()
    sheet = data_sheets().get(str(record.environment.get("accelerator")))
    peak = (
        sheet.rate("matrix product", variant.precision)
        if sheet and variant.device != "cpu" and "fp8" not in variant.options
        else None
    )
    return variant.devices * peak if peak else math.nan


def mfu_of(repetition: Repetition, record: Record) -> float:
    """Model FLOPs utilization (Chowdhery et al. 2022, PaLM): operations that training needs a
    second, over the data sheet's. NaN where one of them is not known.
    """
    return flops_per_sample(record) * repetition.throughput_per_s / data_sheet_flops_per_s(record)


def is_impossible(record: Record) -> bool:
    """Whether its MFU would be above 1: its operations are counted too high, or it computes in
    another precision than the configuration says.
    """
    return any(mfu_of(each, record) > 1 for each in record.repetitions)


def _mfu(repetition: Repetition, record: Record) -> float | None:
    mfu = mfu_of(repetition, record)
    return mfu if math.isfinite(mfu) and not is_impossible(record) else None


def _epoch_time_s(repetition: Repetition, record: Record) -> float:
    """Wall time per sample, times the samples of a whole epoch, whose last step may have fewer than
    the others; for a whole epoch that is its wall time.
    """
    samples = record.workload.train_samples if record.workload else math.nan
    return statistics.median(
        epoch.wall_time_s * (samples / epoch.samples) for epoch in repetition.timed_epochs
    )


_mean_reading_w = _of_samples(lambda telemetry: telemetry.power_w, statistics.fmean)
_FIGURES: Final[Mapping[str, Callable[[Repetition, Record], float | None]]] = {
    "step_time_ms": lambda repetition, _: statistics.median(
        chain.from_iterable(epoch.step_times_ms for epoch in repetition.timed_epochs)
    ),
    "throughput_per_s": lambda repetition, _: repetition.throughput_per_s,
    "tokens_per_s": lambda repetition, record: (
        tokens * repetition.throughput_per_s
        if record.workload and (tokens := record.workload.tokens_per_sample)
        else None
    ),
    "mfu": _mfu,
    "epoch_time_s": _epoch_time_s,
    "first_epoch_ratio": lambda repetition, _: (
        repetition.epochs[0].wall_time_s
        / statistics.median(epoch.wall_time_s for epoch in repetition.timed_epochs)
    ),
    "memory_peak_mib": lambda repetition, _: repetition.memory_peak_mib,
    "quality": lambda repetition, _: repetition.epochs[-1].quality,
    "test_loss": lambda repetition, _: repetition.epochs[-1].test_loss,
    # Two clocks' rounding can exceed the epoch.
    "data_wait_share": lambda repetition, _: min(
        1.0,
        statistics.median(
            sum(epoch.data_wait_ms) / (1000 * epoch.wall_time_s)
            for epoch in repetition.timed_epochs
        ),
    ),
    "preparation_time_s": lambda repetition, _: (
        None if repetition.preparation_cache == "empty" else repetition.preparation_time_s
    ),
    "utilisation_percent": _of_samples(
        lambda telemetry: telemetry.utilisation_percent, statistics.fmean
    ),
    "power_w": lambda repetition, record: (
        telemetry.energy_j / sum(epoch.wall_time_s for epoch in repetition.timed_epochs)
        if (telemetry := repetition.telemetry) and telemetry.energy_j is not None
        else _mean_reading_w(repetition, record)
    ),
    "sm_clock_mhz": _of_samples(lambda telemetry: telemetry.sm_clock_mhz, statistics.median),
    "temperature_c": _of_samples(lambda telemetry: telemetry.temperature_c, max),
    "energy_per_sample_j": lambda repetition, _: (
        telemetry.energy_j / sum(epoch.samples for epoch in repetition.timed_epochs)
        if (telemetry := repetition.telemetry) and telemetry.energy_j is not None
        else None
    ),
}


Pairs = list[tuple[Repetition, Repetition]]

SOFTWARE: Final = {
    "torch": "PyTorch",
    "torchvision": "torchvision",
    "python": "Python",
    "numpy": "NumPy",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "driver": "driver",
}
"""Software that affects how fast the same code trains: the key in a record's environment, and the
name for readers.
"""


def pairs_of(reference: Record, record: Record) -> Pairs:
    """Processes of the same repetition and seed, that of the reference first."""
    twins = {(each.index, each.seed): each for each in reference.repetitions}
    return [
        (twins[begin], each)
        for each in record.repetitions
        if (begin := (each.index, each.seed)) in twins
    ]


def speedup(record: Record, reference: Record | None, sessions: Sessions = ONE_SESSION) -> Summary:
    """Its throughput over the reference's; not measured where either was not, or by another version
    of the protocol or of a user's class.

    Nor where their optimizers keep other types of numbers: a smaller state is faster, whatever else
    differs. Between two of the machine's sessions the interval includes the spread between them.
    """
    if reference is None or not are_comparable(record, reference):
        return NOT_MEASURED
    kept = [
        {name for each in one.repetitions for name in each.optimizer_dtypes}
        for one in (record, reference)
    ]
    if all(kept) and kept[0] != kept[1]:
        return NOT_MEASURED
    sides = [values_by_seed(each, "throughput_per_s") for each in (record, reference)]
    return ratio(*sides, spread=sessions.between(record, reference, *sides))


def over_base(record: Record) -> Summary:
    """Throughput over that of the base measured in turn, of the repetitions that have one."""
    bases = {each.index: each.base for each in record.repetitions if each.base is not None}
    speeds = {
        begin: speed
        for begin, speed in values_by_seed(record, "throughput_per_s").items()
        if begin[0] in bases
    }
    return ratio(speeds, {begin: bases[begin[0]].throughput_per_s for begin in speeds})


def quality_change(record: Record, reference: Record | None) -> Summary:
    """How much higher the quality after the last epoch is than the reference's, seed by seed, of
    the processes that both have.

    Not measured where a variant was not, where each has a process that the other has no twin of,
    where the two learn different workloads, or were measured by different versions of the protocol
    or of a user's class.
    """
    if (
        reference is None
        or not reference.status == record.status == "ok"
        or not are_comparable(record, reference)
        or reference.as_variant().workload != record.as_variant().workload
    ):
        return NOT_MEASURED
    return difference(*(values_by_seed(each, "quality") for each in (record, reference)))


def class_of(record: Record) -> tuple[str, str]:
    """The path of the class that was trained, and the digest of its file; that of one of ours is
    empty.
    """
    workload = record.measurement.get("workload", {})
    return str(workload.get("class_path", "")), record.provenance.workload_digest


def same_class(record: Record, reference: Record) -> bool:
    """Whether neither trained another version of a user's class than the other."""
    (path, digest), (other_path, other_digest) = class_of(record), class_of(reference)
    return path != other_path or digest == other_digest


def are_comparable(record: Record, reference: Record) -> bool:
    """Whether one version of the protocol measured both, and of a user's class; numbers of two
    versions are never compared.
    """
    return protocol_version(record) == protocol_version(reference) and same_class(record, reference)


def other_software(record: Record, reference: Record) -> Iterator[str]:
    """Software whose versions differ, such as `PyTorch 2.11.0 and 2.15.0`, the record's version
    first.

    A training on the CPU has no driver, CUDA or cuDNN; that does not count as a difference.
    """
    for key, name in SOFTWARE.items():
        versions = [each.environment.get(key) for each in (record, reference)]
        if None not in versions and versions[0] != versions[1]:
            yield f"{name} {versions[0]} and {versions[1]}"


def same_threads(record: Record, reference: Record) -> bool:
    """Whether one thread setting explains the thread counts of both.

    The setting is the default, which depends on the device and on how many processes share it, or
    one requested number. A count that is missing in a record does not count as a difference.
    """
    threads = [each.environment.get("torch_threads") for each in (record, reference)]
    defaults = [
        default_threads(
            variant.device_type,
            cores=int(each.environment.get("cpu_cores") or 1),
            sharing=variant.devices // each.hosts,
        )
        for each in (record, reference)
        for variant in [each.as_variant()]
    ]
    return None in threads or threads[0] == threads[1] or threads == defaults
