"""Whether CPU and GPU converge alike: their losses and quality side by side, from the same seeds.

records -> pairs of variants that differ in the device only -> pairs of processes with the same seed
-> differences
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.record import Epoch, Record
from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.study.variant import Variant
from gpu_report.tables.column_kinds import DEVICE, EPOCH, WORKLOAD
from gpu_report.tables.curves import finite_or_missing
from gpu_report.tables.pairs import Pairs, pairs_of, same_protocol
from gpu_report.tables.processes import brings_loop
from gpu_report.tables.variants import in_reading_order

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

_METRICS: Final[Mapping[str, Callable[[Epoch], float | None]]] = {
    "train_loss": lambda epoch: statistics.fmean(epoch.train_losses),
    "test_loss": lambda epoch: epoch.test_loss,
    "quality": lambda epoch: epoch.quality,
}


def tabulate_consistency(records: Iterable[Record]) -> list[Row]:
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
    rows: list[Row] = []
    for record in measured:
        variant = record.as_variant()
        reference = references.get(variant.fields_without("device"))
        if reference and variant.device != REFERENCE_DEVICE and same_protocol(record, reference):
            rows += _rows(variant, pairs_of(reference, record))
    return rows


def _rows(variant: Variant, pairs: Pairs) -> Iterator[Row]:
    if not pairs:
        return
    for metric, value_of in _METRICS.items():
        for epoch in range(variant.epochs):
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
