"""What a training that several devices share gains and saves against one plain process with the
same batch.

records -> a shared variant, its twins on one device -> speedup, time lost beside the bubble's
formula, memory saved

A model in p parts, whose batch goes through in m micro-batches one behind the other, keeps each
device waiting for (p - 1) / (m + p - 1) of its time at least: the bubble (Huang et al., GPipe,
2019). The formula takes micro-batches to be free: it knows neither what sending activations takes,
nor parts that take unequal times, nor that small micro-batches fill a GPU less. What is measured
beside it is 1 - S / p, with the speedup S over the base that is measured in turn: one device that
goes through the samples of each device (all of them where the model is in parts) in as many parts.
Both sides then have micro-batches of one size, so that it holds the bubble, the sending and the
unequal parts, or the exchange of gradients, and not the size of the micro-batches.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpu_report.glossary import Row
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.study.options import is_bound
from gpu_report.study.strategies import SINGLE
from gpu_report.tables.column_kinds import DEVICE, VARIANT, WORKLOAD, summary_of
from gpu_report.tables.pairs import over_base, same_protocol, speedup
from gpu_report.tables.processes import values_by_seed
from gpu_report.tables.statistics import NOT_MEASURED, Summary, ratio
from gpu_report.tables.variants import in_reading_order, records_by_variant

if TYPE_CHECKING:
    from gpu_report.study.variant import Variant

MODEL_SPLITS: Final = Table(
    name="model_splits",
    meaning=(
        "One row per measured variant that several devices share, where one plain process with "
        "the same batch was measured, too."
    ),
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text(
            "plain", "Name of the variant of the plain process, which takes its batch in one part."
        ),
        whole("micro_batches", "1", "Parts in which a step goes through its batch."),
        number(
            "bubble_share",
            "1",
            "Share of its time for which a device with a part of the model waits at least: (p - "
            "1) / (m + p - 1) of m micro-batches in p parts, 1 - 1 / p without a pipeline; "
            "missing where each device has a whole model.",
        ),
        *summary_of("speedup_over_one"),
        *summary_of("lost_share"),
        *summary_of("memory_saved_share"),
    ),
)


def tabulate_model_splits(records: Iterable[Record]) -> list[Row]:
    """The table MODEL_SPLITS in reading order; bounds, which are no trainings, are left out."""
    by_variant = records_by_variant(records)
    rows: list[Row] = []
    for record in in_reading_order(by_variant.values()):
        variant = record.as_variant()
        if variant.strategy == SINGLE or is_bound(variant.options) or record.status != "ok":
            continue
        plain = by_variant.get(
            replace(variant.base, batch_size=variant.batch_size, accumulation=1).slug
        )
        if plain is not None and plain.status == "ok":
            rows.append(
                {
                    "variant": variant.slug,
                    "workload": variant.workload,
                    "device": variant.device,
                    "plain": plain.variant,
                    "micro_batches": variant.accumulation,
                    "bubble_share": bubble_share(variant),
                    **speedup(record, plain).as_columns("speedup_over_one"),
                    **_missing_to_one(over_base(record), variant.devices).as_columns("lost_share"),
                    **_missing_to_one(_memory_over(record, plain), 1).as_columns(
                        "memory_saved_share"
                    ),
                }
            )
    return rows


def bubble_share(variant: "Variant") -> float | None:
    """What a model in parts, one on each device, keeps each of them waiting; None where each has a
    whole model.
    """
    if variant.divides_batch:
        return None
    parts, micro_batches = variant.devices, variant.accumulation if variant.has_ranks else 1
    return (parts - 1) / (micro_batches + parts - 1)


def _missing_to_one(figure: Summary, whole: int) -> Summary:
    """How far a ratio is below the whole, as a share of it."""
    if not figure.count:
        return NOT_MEASURED
    value, low, high = (1 - each / whole for each in (figure.value, figure.high, figure.low))
    return Summary(value=value, low=low, high=high, count=figure.count)


def _memory_over(record: Record, plain: Record) -> Summary:
    if not same_protocol(record, plain):
        return NOT_MEASURED
    return ratio(*(values_by_seed(each, "memory_peak_mib") for each in (record, plain)))
