"""How the trainings went: losses, held-out quality and wall times, one row per epoch or step of each process."""

import math
import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gpu_report.records import Record, Repetition
from gpu_report.tables.processes import brings_loop
from gpu_report.tables.schema import CONVERGENCE, EPOCHS, LOSSES
from gpu_report.tables.variants import in_reading_order

if TYPE_CHECKING:
    import pandas as pd


def tabulate_convergence(records: Iterable[Record]) -> "pd.DataFrame":
    """The table CONVERGENCE of every variant measured to the end whose epochs go on where the one before ended."""
    return CONVERGENCE.from_rows(
        {**identity, **row}
        for record, repetition in _trainings(_going_on(records))
        for identity in [_identity(record)]
        for row in _epoch_rows(repetition)
    )


def tabulate_losses(records: Iterable[Record]) -> "pd.DataFrame":
    """The table LOSSES of every variant measured to the end whose epochs go on where the one before ended."""
    return LOSSES.from_rows(
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
    )


def tabulate_epochs(records: Iterable[Record]) -> "pd.DataFrame":
    """The table EPOCHS of every variant measured to the end."""
    return EPOCHS.from_rows(
        {
            "variant": record.variant,
            "repetition": repetition.index,
            "epoch": number,
            "wall_time_s": epoch.wall_time_s,
            "is_warm_up": number < repetition.warm_up_epochs,
        }
        for record, repetition in _trainings(records)
        for number, epoch in enumerate(repetition.all_epochs)
    )


def _steps(repetition: Repetition) -> Iterator[tuple[float, float]]:
    """Loss and loss scale of each step."""
    for epoch in repetition.epochs:
        yield from zip(epoch.train_losses, epoch.loss_scales or [math.nan] * len(epoch.train_losses), strict=True)


def finite_or_missing(value: float) -> float:
    """The value, or NaN for the infinite loss of a training that diverged."""
    return value if math.isfinite(value) else math.nan


def _going_on(records: Iterable[Record]) -> Iterator[Record]:
    """Without those whose every epoch is the same training again: there is no curve through its epochs."""
    return (record for record in records if not brings_loop(record))


def _trainings(records: Iterable[Record]) -> Iterator[tuple[Record, Repetition]]:
    for record in in_reading_order(records):
        if record.status == "ok":
            for repetition in sorted(record.repetitions, key=lambda repetition: repetition.index):
                yield record, repetition


def _identity(record: Record) -> dict[str, str]:
    variant = record.as_variant()
    return {"variant": variant.slug, "workload": variant.workload, "device": variant.device}


def _epoch_rows(repetition: Repetition) -> Iterator[dict[str, Any]]:
    samples_seen = 0
    for number, epoch in enumerate(repetition.epochs):
        samples_seen += epoch.samples
        yield {
            "repetition": repetition.index,
            "epoch": number,
            "samples_seen": samples_seen,
            "train_loss": finite_or_missing(statistics.fmean(epoch.train_losses)),
            "test_loss": finite_or_missing(epoch.test_loss),
            "quality": finite_or_missing(epoch.quality),
        }
