"""How the trainings went: losses, quality, wall times and telemetry, a row per epoch, step or
sample; and whether CPU and GPU converge alike.

records -> pairs of variants that differ in the device only -> pairs of processes with the same seed
-> differences
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.record import Epoch, Record, Repetition
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.study.variant import Variant
from gpu_report.tables.processes import Pairs, are_comparable, brings_loop, pairs_of
from gpu_report.tables.statistics import DEVICE, EPOCH, REPETITION, VARIANT, WORKLOAD
from gpu_report.tables.variants import in_reading_order

_DIVERGED: Final = "missing where it was not finite, because the training diverged."

CONVERGENCE: Final = Table(
    name="convergence",
    meaning="One row per variant, process and epoch: how the training went.",
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        REPETITION,
        EPOCH,
        whole("samples_seen", "1", "Training samples gone through by the end of the epoch."),
        number("train_loss", "1", f"Mean over the steps of the epoch; {_DIVERGED}"),
        number("test_loss", "1", f"Mean on the held-out samples after the epoch; {_DIVERGED}"),
        number("quality", "1", f"Quality on the held-out samples after the epoch; {_DIVERGED}"),
    ),
)

LOSSES: Final = Table(
    name="losses",
    meaning="One row per variant, process and step: the training loss.",
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        REPETITION,
        whole("step", "1", "Index of the step since the training began."),
        number("train_loss", "1", f"Loss of the step; {_DIVERGED}"),
        number(
            "loss_scale",
            "1",
            "Factor of the gradient scaler after the step; missing but with fp16.",
        ),
    ),
)

EPOCHS: Final = Table(
    name="epochs",
    meaning="One row per variant, process and epoch: the wall time as measured, also of epochs of "
    "a fixed length.",
    columns=(
        VARIANT,
        REPETITION,
        EPOCH,
        number("wall_time_s", "s", "Wall time of the epoch's training; evaluation lies outside."),
        flag("is_warm_up", "One of the first epochs, which are not timed."),
    ),
)

TELEMETRY: Final = Table(
    name="telemetry",
    meaning="One row per variant, process and sample of the GPU's driver while the timed epochs "
    "ran.",
    columns=(
        VARIANT,
        REPETITION,
        number("moment_s", "s", "Since the first timed epoch began."),
        number(
            "utilisation_percent",
            "%",
            "GPU utilization (NVML): share of the driver's window in which a kernel ran.",
        ),
        number("memory_used_mib", "MiB", "Device memory in use."),
        number("power_w", "W", "Power."),
        number("sm_clock_mhz", "MHz", "Clock of the multiprocessors."),
        number("temperature_c", "C", "Temperature."),
    ),
)


_SERIES: Final = (
    "utilisation_percent",
    "memory_used_mib",
    "power_w",
    "sm_clock_mhz",
    "temperature_c",
)


def tabulate_convergence(records: Iterable[Record]) -> list[Row]:
    """The table CONVERGENCE of every variant measured to the end whose epochs go on where the one
    before ended.
    """
    return [
        {
            "variant": record.variant,
            "workload": record.as_variant().workload,
            "device": record.as_variant().device,
            "repetition": repetition.index,
            "epoch": position,
            "samples_seen": samples_seen,
            "train_loss": finite_or_missing(statistics.fmean(epoch.train_losses)),
            "test_loss": finite_or_missing(epoch.test_loss),
            "quality": finite_or_missing(epoch.quality),
        }
        for record, repetition in _trainings(records, that_go_on=True)
        for position, (epoch, samples_seen) in enumerate(
            zip(
                repetition.epochs,
                accumulate(epoch.samples for epoch in repetition.epochs),
                strict=True,
            )
        )
    ]


def tabulate_losses(records: Iterable[Record]) -> list[Row]:
    """The table LOSSES of every variant measured to the end whose epochs go on where the one before
    ended.
    """
    return [
        {
            "variant": record.variant,
            "workload": variant.workload,
            "device": variant.device,
            "repetition": repetition.index,
            "step": step,
            "train_loss": finite_or_missing(loss),
            "loss_scale": scale,
        }
        for record, repetition in _trainings(records, that_go_on=True)
        for variant in [record.as_variant()]
        for step, (loss, scale) in enumerate(
            pair
            for epoch in repetition.epochs
            for scales in [epoch.loss_scales or [math.nan] * len(epoch.train_losses)]
            for pair in zip(epoch.train_losses, scales, strict=True)
        )
    ]


def tabulate_epochs(records: Iterable[Record]) -> list[Row]:
    """The table EPOCHS of every variant measured to the end."""
    return [
        {
            "variant": record.variant,
            "repetition": repetition.index,
            "epoch": number,
            "wall_time_s": epoch.wall_time_s,
            "is_warm_up": number < repetition.warm_up_epochs,
        }
        for record, repetition in _trainings(records)
        for number, epoch in enumerate(repetition.all_epochs)
    ]


def finite_or_missing(value: float | None) -> float:
    """The value, or NaN for what was not measured, and the infinite loss of a training that
    diverged.
    """
    return value if value is not None and math.isfinite(value) else math.nan


def _trainings(
    records: Iterable[Record], *, that_go_on: bool = False
) -> Iterator[tuple[Record, Repetition]]:
    """Each process of what was measured to the end; where asked without those whose every epoch is
    the same training again, through whose epochs there is no curve.
    """
    for record in in_reading_order(records):
        if record.status == "ok" and not (that_go_on and brings_loop(record)):
            for repetition in sorted(record.repetitions, key=lambda repetition: repetition.index):
                yield record, repetition


def tabulate_telemetry(records: Iterable[Record]) -> list[Row]:
    """The table TELEMETRY of every variant measured to the end; what a driver does not know is
    missing.
    """
    return [
        {
            "variant": record.variant,
            "repetition": repetition.index,
            "moment_s": moment_s,
            **{name: values[sample] if values else math.nan for name, values in series.items()},
        }
        for record, repetition in _trainings(records)
        if repetition.telemetry
        for series in [{name: getattr(repetition.telemetry, name) for name in _SERIES}]
        for sample, moment_s in enumerate(repetition.telemetry.moments_s)
    ]


CONSISTENCY: Final = Table(
    name="consistency",
    meaning="One row per CPU variant, its twin on a GPU, metric and epoch: do the two converge "
    "alike?",
    columns=(
        text("variant", "The GPU's variant; the CPU's differs in the device only."),
        WORKLOAD,
        text("size", "Size of the model or its input."),
        whole("batch_size", "1", "Training samples per step."),
        text("reference_device", "The CPU."),
        DEVICE,
        text("metric", "train_loss, test_loss or quality."),
        EPOCH,
        number(
            "reference_value", "1", "On the CPU; mean over the processes that both have, by seed."
        ),
        number("value", "1", "On the GPU; mean over the same seeds."),
        number(
            "difference_percent",
            "%",
            "Size of the difference, of the CPU's value: mean over pairs of processes with the "
            "same seed; missing where the CPU's value is 0.",
        ),
    ),
)

REFERENCE_DEVICE: Final = "cpu"
"""Every machine has one, and its arithmetic is the plainest."""

_COMPARED: Final[Mapping[str, Callable[[Epoch], float | None]]] = {
    "train_loss": lambda epoch: statistics.fmean(epoch.train_losses),
    "test_loss": lambda epoch: epoch.test_loss,
    "quality": lambda epoch: epoch.quality,
}


def tabulate_consistency(records: Iterable[Record]) -> Iterator[Row]:
    """The table CONSISTENCY; no rows where nothing was measured both on the CPU and on a GPU.

    Custom training loops, which restart each epoch, are left out: their epochs are no course of one
    training.
    """
    measured = [
        record
        for record in in_reading_order(records)
        if record.status == "ok" and not brings_loop(record)
    ]
    references = {
        record.as_variant().fields_without("device"): record
        for record in measured
        if record.as_variant().device == REFERENCE_DEVICE
    }
    for record in measured:
        variant = record.as_variant()
        reference = references.get(variant.fields_without("device"))
        if reference and variant.device != REFERENCE_DEVICE and are_comparable(record, reference):
            yield from _consistency_rows(variant, pairs_of(reference, record))


def _consistency_rows(variant: Variant, pairs: Pairs) -> Iterator[Row]:
    for metric, value_of in _COMPARED.items():
        for epoch in range(variant.epochs if pairs else 0):
            values = [
                (value_of(first.epochs[epoch]), value_of(second.epochs[epoch]))
                for first, second in pairs
            ]
            yield {
                "variant": variant.slug,
                "workload": variant.workload,
                "size": variant.size,
                "batch_size": variant.batch_size,
                "reference_device": REFERENCE_DEVICE,
                "device": variant.device,
                "metric": metric,
                "epoch": epoch,
                "reference_value": _mean(first for first, _ in values),
                "value": _mean(second for _, second in values),
                "difference_percent": _mean(
                    100 * abs(second - first) / abs(first)
                    if first and second is not None
                    else math.nan
                    for first, second in values
                ),
            }


def _mean(values: Iterable[float | None]) -> float:
    """NaN as soon as one value is missing or not finite: a training that diverged agrees with
    nothing.
    """
    known = [finite_or_missing(value) for value in values]
    return math.nan if any(map(math.isnan, known)) else statistics.fmean(known)
