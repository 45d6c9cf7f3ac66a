"""How the trainings went: losses, quality, wall times and telemetry, a row per epoch, step or
sample.
"""

import math
import statistics
from collections.abc import Iterable, Iterator
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.record import Record, Repetition, Telemetry
from gpu_report.storage.columns import Table, flag, number, whole
from gpu_report.tables.column_kinds import DEVICE, EPOCH, REPETITION, VARIANT, WORKLOAD
from gpu_report.tables.processes import brings_loop
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
        {**identity, **row}
        for record, repetition in _trainings(_going_on(records))
        for identity in [_identity(record)]
        for row in _epoch_rows(repetition)
    ]


def tabulate_losses(records: Iterable[Record]) -> list[Row]:
    """The table LOSSES of every variant measured to the end whose epochs go on where the one before
    ended.
    """
    return [
        {
            **identity,
            "repetition": repetition.index,
            "step": step,
            "train_loss": finite_or_missing(loss),
            "loss_scale": scale,
        }
        for record, repetition in _trainings(_going_on(records))
        for identity in [_identity(record)]
        for step, (loss, scale) in enumerate(_steps(repetition))
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


def _steps(repetition: Repetition) -> Iterator[tuple[float, float]]:
    """Loss and loss scale of each step."""
    for epoch in repetition.epochs:
        yield from zip(
            epoch.train_losses,
            epoch.loss_scales or [math.nan] * len(epoch.train_losses),
            strict=True,
        )


def finite_or_missing(value: float | None) -> float:
    """The value, or NaN for what was not measured, and the infinite loss of a training that
    diverged.
    """
    return value if value is not None and math.isfinite(value) else math.nan


def _going_on(records: Iterable[Record]) -> Iterator[Record]:
    """Without those whose every epoch is the same training again: there is no curve through its
    epochs.
    """
    return (record for record in records if not brings_loop(record))


def _trainings(records: Iterable[Record]) -> Iterator[tuple[Record, Repetition]]:
    for record in in_reading_order(records):
        if record.status == "ok":
            for repetition in sorted(record.repetitions, key=lambda repetition: repetition.index):
                yield record, repetition


def _identity(record: Record) -> dict[str, str]:
    variant = record.as_variant()
    return {"variant": variant.slug, "workload": variant.workload, "device": variant.device}


def _epoch_rows(repetition: Repetition) -> Iterator[Row]:
    samples_seen = 0
    for position, epoch in enumerate(repetition.epochs):
        samples_seen += epoch.samples
        yield {
            "repetition": repetition.index,
            "epoch": position,
            "samples_seen": samples_seen,
            "train_loss": finite_or_missing(statistics.fmean(epoch.train_losses)),
            "test_loss": finite_or_missing(epoch.test_loss),
            "quality": finite_or_missing(epoch.quality),
        }


def tabulate_telemetry(records: Iterable[Record]) -> list[Row]:
    """The table TELEMETRY of every variant measured to the end; what a driver does not know is
    missing.
    """
    return [
        {"variant": record.variant, "repetition": repetition.index, **row}
        for record in in_reading_order(records)
        if record.status == "ok"
        for repetition in sorted(record.repetitions, key=lambda repetition: repetition.index)
        if repetition.telemetry
        for row in _samples(repetition.telemetry)
    ]


def _samples(telemetry: Telemetry) -> Iterator[Row]:
    series: dict[str, list[float]] = {name: getattr(telemetry, name) for name in _SERIES}
    for sample, moment_s in enumerate(telemetry.moments_s):
        values = {
            name: samples[sample] if samples else math.nan for name, samples in series.items()
        }
        yield {"moment_s": moment_s, **values}
