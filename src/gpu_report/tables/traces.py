"""What the traces of all variants say of a step: its parts, gaps, kernels, the advice, the doubts and a timeline.

trace tables, one set per variant -> rows that the quality gate lets through -> the tables of `trace_schema`
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from gpu_report.columns import Table
from gpu_report.tables.operations import (
    tabulate_category_shares,
    tabulate_category_speedups,
    tabulate_operation_memory,
    tabulate_top_operations,
)
from gpu_report.tables.phases import tabulate_phases
from gpu_report.tables.profiled import Profiled, profiled
from gpu_report.tables.trace_schema import (
    IDLE_CAUSES,
    STEP_PARTS,
    STEP_SHARES,
    TIMELINES,
    TOP_KERNELS,
    TRACE_ADVICE,
    TRACE_DOUBTS,
    TRACE_UNANSWERED,
)
from gpu_report.traces.advice import ADVICE, UNANSWERED
from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.timeline import TIMELINE
from gpu_report.traces.trace import HOST

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.traces.tables import TraceTables

TOP_OF_CAUSE: Final = 3
"""Operations listed per cause of gaps; the others are one row."""

TOP: Final = 10
"""Kernels listed per variant, as many as operations."""

OTHERS: Final = "(others)"
"""What the operation of that one row is called; no operation of PyTorch has such a name."""

_SHARED_OUT: Final = (*STEP_PARTS, "host_busy", "device_busy", "exposed_copy", "exposed_communication")
_OF_ACCELERATORS: Final = ("kernel", "memcpy", "memset")
_OF_THE_WHOLE: Final = ("wall_ms", "host_busy_ms")
"""What spoils these spoils each share: of a step that the profiler slowed a part may be right, the whole is not."""

_OF_KERNELS: Final = ("calls", "total_ms", "share", "median_us", "library", "tensor_cores", "occupancy")
_OF_STRETCHES: Final = ("step", "wall_ms", "lane", "begin_ms", "end_ms", "busy_share")
_OF_LAUNCHING_CALLS: Final = ("category", "operation", "module", "source")


def tabulate_traces(traces: "Mapping[str, TraceTables]", *, loops: Container[str]) -> "dict[str, pd.DataFrame]":
    """Every table of the study that the traces decide, by name; `loops` are variants with custom training loops."""
    return {
        "top_operations": tabulate_top_operations(traces),
        "category_shares": tabulate_category_shares(traces),
        "phases": tabulate_phases(traces),
        "operation_memory": tabulate_operation_memory(traces),
        "category_speedups": tabulate_category_speedups(traces, loops=loops),
        **{
            table.name: table.from_rows({**each.identity, **row} for each in profiled(traces) for row in rows_of(each))
            for table, rows_of in _ROWS_OF.items()
        },
    }


def _step_shares(each: Profiled) -> Iterator[Row]:
    """A step of which the gate spoils a number is left out of its sums; with no step left they are missing."""
    if each.tables[STEPS]:
        shares = {f"{name}_share": _share(each, name) for name in _SHARED_OUT}
        yield {
            "steps": len(each.tables[STEPS]),
            "wall_ms": _mean([row["wall_ms"] for row in each.rows(STEPS, "wall_ms")]),
            **shares,
            "device_idle_share": 1 - shares["device_busy_share"],
            **_launches(each),
        }


def _trace_advice(each: Profiled) -> Iterator[Row]:
    """In the order of the trace table, whose rules keep to the gate themselves."""
    return ({"rank": rank, **row} for rank, row in enumerate(each.tables[ADVICE], start=1))


def _trace_doubts(each: Profiled) -> Iterator[Row]:
    """A trace that passes every check has no row."""
    return ({name: value for name, value in check.items() if name != "passed"} for check in each.failed)


def _timelines(each: Profiled) -> Iterator[Row]:
    """In the order of the trace table; the category is empty where the gate spoils it."""
    trusted = {(row["lane"], row["begin_ms"]) for row in each.rows(TIMELINE, "category")}
    for row in each.rows(TIMELINE, *_OF_STRETCHES):
        category = row["category"] if (row["lane"], row["begin_ms"]) in trusted else ""
        yield {**{column: row[column] for column in _OF_STRETCHES}, "category": category}


def _share(each: Profiled, name: str) -> float:
    """A trace table has no number for an accelerator that did nothing; of the CPU's steps it did nothing is known."""
    rows = each.rows(STEPS, *_OF_THE_WHOLE, f"{name}_ms")
    nothing = name in _OF_ACCELERATORS and each.variant.device_type == HOST
    spent_ms = 0.0 if nothing else sum(row[f"{name}_ms"] for row in rows)
    return _quotient(spent_ms, sum(row["wall_ms"] for row in rows))


def _launches(each: Profiled) -> dict[str, float]:
    """Means over the steps' time where a column is one over time, and over launches where it is one of launches."""
    wall_ms = {row["step"]: row["wall_ms"] for row in each.rows(STEPS, "wall_ms")}
    short = [row for row in each.rows(LAUNCHES, "launches", "short_share") if row["launches"]]
    return {
        "launches_per_step": _mean([row["launches"] for row in each.rows(LAUNCHES, "launches")]),
        "short_share": _quotient(
            sum(row["launches"] * row["short_share"] for row in short), sum(row["launches"] for row in short)
        ),
        **{name: _mean_over_time(each, name, wall_ms) for name in ("mean_queue", "launch_bound_share")},
    }


def _mean_over_time(each: Profiled, column: str, wall_ms: Mapping[int, float]) -> float:
    rows = [row for row in each.rows(LAUNCHES, column) if row["step"] in wall_ms]
    return _quotient(sum(row[column] * wall_ms[row["step"]] for row in rows), sum(wall_ms[row["step"]] for row in rows))


def _idle_causes(each: Profiled) -> Iterator[Row]:
    """The cause with the longest gaps in all first, and the longest operations of each."""
    rows = each.rows(IDLE)
    total_of: dict[str, float] = {}
    for row in rows:
        total_of[row["cause"]] = total_of.get(row["cause"], 0.0) + row["total_ms"]
    ordered = sorted(rows, key=lambda row: (-total_of[row["cause"]], row["cause"], -row["total_ms"], row["operation"]))
    for cause, of_cause in groupby(ordered, key=lambda row: row["cause"]):
        longest = list(of_cause)
        yield from longest[:TOP_OF_CAUSE]
        if longest[TOP_OF_CAUSE:]:
            yield _together(cause, longest[TOP_OF_CAUSE:])


def _together(cause: str, rows: Sequence[Row]) -> Row:
    return {
        "cause": cause,
        "operation": OTHERS,
        **{column: sum(row[column] for row in rows) for column in ("gaps", "total_ms", "share")},
        "longest_us": max(row["longest_us"] for row in rows),
    }


def _top_kernels(each: Profiled) -> Iterator[Row]:
    """What the launching call shows is empty where the gate spoils it."""
    trusted = [column for column in _OF_LAUNCHING_CALLS if each.trusts(KERNELS, column)]
    has_delay = each.trusts(KERNELS, "launch_delay_us")
    rows = each.rows(KERNELS, "name", *_OF_KERNELS)
    rows.sort(key=lambda row: (-row["total_ms"], row["name"], row["category"]))
    for rank, row in enumerate(rows[:TOP], start=1):
        yield {
            "rank": rank,
            "name": row["name"],
            **{column: row[column] for column in _OF_KERNELS},
            **{column: row[column] if column in trusted else "" for column in _OF_LAUNCHING_CALLS},
            "launch_delay_us": row["launch_delay_us"] if has_delay else math.nan,
        }


def _mean(values: Sequence[float]) -> float:
    return _quotient(sum(values), len(values))


def _quotient(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


_ROWS_OF: Final[Mapping[Table, Callable[[Profiled], Iterable[Row]]]] = {
    STEP_SHARES: _step_shares,
    IDLE_CAUSES: _idle_causes,
    TOP_KERNELS: _top_kernels,
    TRACE_ADVICE: _trace_advice,
    TRACE_UNANSWERED: lambda each: each.tables[UNANSWERED],
    TRACE_DOUBTS: _trace_doubts,
    TIMELINES: _timelines,
}
"""The rows of each table for one variant, without the columns that name it; a variant without a trace has none."""
