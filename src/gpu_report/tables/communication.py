"""DistributedDataParallel's exposed communication: how much longer a step takes than with nothing
sent.

records -> a variant and its twin with the option nocomm, process by process -> t - t_bound of the
wall time per step

The twin leaves out what DistributedDataParallel sends: the gradients to be averaged, and
BatchNorm's buffers of rank 0.

No timer of one rank gives it: NCCL's kernels run beside those that compute, take streaming
multiprocessors from them, and wait for other ranks inside themselves. The difference holds all of
that. The trace's interval union, beside it, is the time in which a collective and no other kernel
ran: what collectives slow down others by is not in it.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpu_report.glossary import Row
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, text, whole
from gpu_report.study.options import BUCKETS_MIB, OPTIONS, joined, option_names
from gpu_report.tables.column_kinds import DEVICE, VARIANT, WORKLOAD, metric, summary_of
from gpu_report.tables.pairs import same_protocol
from gpu_report.tables.processes import values_by_seed
from gpu_report.tables.profiled import Profiled, profiled
from gpu_report.tables.statistics import NOT_MEASURED, BySeed, difference, summarise
from gpu_report.tables.variants import in_reading_order, records_by_variant
from gpu_report.traces.ranks import RANKS

if TYPE_CHECKING:
    from gpu_report.traces.tables import TraceTables

COMMUNICATION: Final = Table(
    name="communication",
    meaning=(
        "One row per measured variant of DistributedDataParallel with a measured twin that sends "
        "neither gradients nor buffers: how much longer its steps take. Options of "
        "DistributedDataParallel alone may differ between the two."
    ),
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text("bound", "Name of the twin without communication."),
        whole("bucket_mib", "MiB", "Most gradients that are averaged at a time."),
        *summary_of("step_wall_ms"),
        *summary_of("step_bound_ms"),
        *summary_of("exposed_ms"),
        *summary_of("exposed_share"),
        metric("exposed_in_trace_ms"),
    ),
)

NO_COMMUNICATION: Final = "nocomm"

_DEFAULT_BUCKET_MIB: Final = 25
_EXPOSED: Final = "exposed_ms"


def tabulate_communication(
    records: Iterable[Record], traces: "Mapping[str, TraceTables]"
) -> list[Row]:
    """The table COMMUNICATION in reading order."""
    by_variant = records_by_variant(records)
    in_trace_ms = {each.variant.slug: _exposed_in_trace_ms(each) for each in profiled(traces)}
    rows: list[Row] = []
    for record in in_reading_order(by_variant.values()):
        variant = record.as_variant()
        if variant.strategy != "ddp" or NO_COMMUNICATION in option_names(variant.options):
            continue
        kept = [name for name in option_names(variant.options) if not OPTIONS[name].ddp_only]
        bound = by_variant.get(replace(variant, options=joined([*kept, NO_COMMUNICATION])).slug)
        if (
            bound is not None
            and record.status == bound.status == "ok"
            and same_protocol(record, bound)
        ):
            rows.append(
                {
                    **_row(record, bound),
                    "exposed_in_trace_ms": in_trace_ms.get(record.variant, math.nan),
                }
            )
    return rows


def _row(record: Record, bound: Record) -> Row:
    variant = record.as_variant()
    steps_ms, bounds_ms = _steps_ms(record), _steps_ms(bound)
    exposed = difference(steps_ms, bounds_ms)
    shares = (
        {begin: 1 - bounds_ms[begin] / step_ms for begin, step_ms in steps_ms.items()}
        if exposed.count
        else {}
    )
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "device": variant.device,
        "bound": bound.variant,
        "bucket_mib": bucket_mib(variant.options),
        **summarise([*steps_ms.values()]).as_columns("step_wall_ms"),
        **summarise([*bounds_ms.values()]).as_columns("step_bound_ms"),
        **exposed.as_columns("exposed_ms"),
        **(summarise([*shares.values()], scale="linear") if shares else NOT_MEASURED).as_columns(
            "exposed_share"
        ),
    }


def bucket_mib(options: str) -> int:
    """The size of the buckets of gradients that DistributedDataParallel averages with these
    options.
    """
    return next(
        (BUCKETS_MIB[name] for name in option_names(options) if name in BUCKETS_MIB),
        _DEFAULT_BUCKET_MIB,
    )


def sets_bucket_alone(options: str) -> bool:
    """Whether it has DistributedDataParallel's defaults in all but the size of its buckets."""
    of_ddp = [name for name in option_names(options) if OPTIONS[name].ddp_only]
    return len(of_ddp) <= 1 and all(name in BUCKETS_MIB for name in of_ddp)


def _steps_ms(record: Record) -> BySeed:
    """Wall time of an epoch over its steps, the median over the timed epochs of each process."""
    samples = record.as_variant().batch_size
    return {
        begin: 1e3 * samples / per_s
        for begin, per_s in values_by_seed(record, "throughput_per_s").items()
    }


def _exposed_in_trace_ms(each: Profiled) -> float:
    """Mean over ranks and profiled steps; NaN without a trace, and on the CPU, where no kernel
    shows it.
    """
    steps = [] if each.variant.device_type == "cpu" else each.rows(RANKS, _EXPOSED)
    return statistics.fmean([row[_EXPOSED] for row in steps] or [math.nan])
