"""The table of all variants: one row each, whether it was measured or not.

Record -> process_values -> Summary per metric -> row
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpu_report.catalogue import BUILT_IN_WORKLOADS
from gpu_report.errors import RecordError
from gpu_report.records import Record
from gpu_report.tables.marks import SEPARATOR, Today, is_same_code, marks_of
from gpu_report.tables.processes import is_projected, process_values, profile_overhead
from gpu_report.tables.schema import METRICS, VARIANTS
from gpu_report.tables.statistics import summarise
from gpu_report.variant import Variant

if TYPE_CHECKING:
    import pandas as pd


def tabulate_variants(records: Iterable[Record], *, today: Today) -> "pd.DataFrame":
    """The table VARIANTS in reading order, whatever the order of the records.

    Raises:
        RecordError: two records are of one variant.
    """
    by_variant = records_by_variant(records)
    return VARIANTS.from_rows(variant_row(record, today=today) for record in in_reading_order(by_variant.values()))


def variant_row(record: Record, *, today: Today) -> dict[str, Any]:
    """One row of the table VARIANTS; its numbers are NaN unless the status is ok."""
    values = process_values(record)
    summaries = {name: summarise(values[name]) for name in METRICS}
    marks = marks_of(record, summaries["throughput_per_s"], today)
    return {
        **_identity(record.as_variant()),
        **_facts(record),
        "status": record.status,
        "reason": record.reason,
        "marks": SEPARATOR.join(marks),
        "processes": len(record.repetitions),
        **{column: value for name in METRICS for column, value in summaries[name].as_columns(name).items()},
        "epoch_time_projected": record.status == "ok" and is_projected(record),
        "profile_overhead": profile_overhead(record),
        "measured_at": record.provenance.measured_at,
        "same_code": is_same_code(record, today),
    }


def records_by_variant(records: Iterable[Record]) -> dict[str, Record]:
    """Each record under its variant's name.

    Raises:
        RecordError: two records are of one variant, for instance of two machines.
    """
    by_variant: dict[str, Record] = {}
    for record in records:
        known = by_variant.setdefault(record.variant, record)
        if known is not record:
            raise RecordError(
                f"variant {record.variant} has two records, of machines {known.machine} and {record.machine}; "
                "give the records of one machine"
            )
    return by_variant


def in_reading_order(records: Iterable[Record]) -> list[Record]:
    """Ordered by workload, size from small to large, device with the CPU first, then the other axes."""
    return sorted(records, key=lambda record: _reading_key(record.as_variant()))


def _reading_key(variant: Variant) -> tuple[Any, ...]:
    built_in = BUILT_IN_WORKLOADS.get(variant.workload)
    sizes = built_in.sizes if built_in else ()
    return (
        variant.workload,
        sizes.index(variant.size) if variant.size in sizes else len(sizes),
        variant.size,
        variant.device != "cpu",
        variant.device,
        variant.batch_size,
        variant.workers,
        variant.precision,
        variant.epochs,
        variant.steps_per_epoch or math.inf,
        variant.seed,
    )


def _identity(variant: Variant) -> dict[str, Any]:
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "size": variant.size,
        "device": variant.device,
        "batch_size": variant.batch_size,
        "workers": variant.workers,
        "precision": variant.precision,
        "epochs": variant.epochs,
        "steps_per_epoch": variant.steps_per_epoch,
        "seed": variant.seed,
    }


def _facts(record: Record) -> Mapping[str, Any]:
    facts, workload = record.workload, record.as_variant().workload
    memory_kinds = [repetition.memory_kind for repetition in record.repetitions]
    known_title = BUILT_IN_WORKLOADS[workload].title if workload in BUILT_IN_WORKLOADS else workload
    return {
        "memory_kind": memory_kinds[0] if memory_kinds else "",
        "workload_title": facts.title if facts else known_title,
        "parameters": facts.parameters if facts else math.nan,
        "quality_name": facts.quality_name if facts else "",
        "quality_chance": facts.quality_chance if facts else math.nan,
    }
