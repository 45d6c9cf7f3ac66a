"""What the traces of all variants say of a step: its parts, gaps, kernels, the advice, the doubts and a timeline.

trace tables, one set per variant -> rows that the quality gate lets through -> the tables of `trace_schema`
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

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
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.timeline import TIMELINE
from gpu_report.traces.trace import HOST

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.traces.tables import TraceTables

Row = dict[str, Any]

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
        "step_shares": tabulate_step_shares(traces),
        "idle_causes": tabulate_idle_causes(traces),
        "top_kernels": tabulate_top_kernels(traces),
        "operation_memory": tabulate_operation_memory(traces),
        "category_speedups": tabulate_category_speedups(traces, loops=loops),
        "trace_advice": tabulate_trace_advice(traces),
        "trace_unanswered": tabulate_trace_unanswered(traces),
        "trace_doubts": tabulate_trace_doubts(traces),
        "timelines": tabulate_timelines(traces),
    }


def tabulate_step_shares(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table STEP_SHARES; a variant without a trace has no row.

    A step of which the gate spoils a number is left out of its sums; with no step left they are missing.
    """
    return STEP_SHARES.from_rows(
        {
            **each.identity,
            "steps": len(each.tables[STEPS]),
            "wall_ms": _mean([row["wall_ms"] for row in each.rows(STEPS, "wall_ms")]),
            **_shares_of_steps(each),
            **_launches(each),
        }
        for each in profiled(traces)
        if len(each.tables[STEPS])
    )


def tabulate_idle_causes(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table IDLE_CAUSES: the cause with the longest gaps in all first, and the longest operation of each."""
    return IDLE_CAUSES.from_rows(
        {**each.identity, **row} for each in profiled(traces) for row in _longest_of_causes(each.rows(IDLE))
    )


def tabulate_top_kernels(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table TOP_KERNELS; what the launching call tells is empty where the gate spoils it."""
    return TOP_KERNELS.from_rows(
        {**each.identity, "rank": rank, **row}
        for each in profiled(traces)
        for rank, row in enumerate(_longest_kernels(each), start=1)
    )


def tabulate_trace_advice(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table TRACE_ADVICE, in the order of the trace table, whose rules keep to the gate themselves."""
    return TRACE_ADVICE.from_rows(
        {**each.identity, "rank": rank, **row}
        for each in profiled(traces)
        for rank, row in enumerate(each.tables[ADVICE], start=1)
    )


def tabulate_trace_unanswered(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table TRACE_UNANSWERED, in the order of the rules."""
    return TRACE_UNANSWERED.from_rows(
        {**each.identity, **row} for each in profiled(traces) for row in each.tables[UNANSWERED]
    )


def tabulate_trace_doubts(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table TRACE_DOUBTS; a trace that passes every check has no row."""
    columns = ("check", "step", "value", "limit", "text", "spoils")
    return TRACE_DOUBTS.from_rows(
        {**each.identity, **{column: row[column] for column in columns}}
        for each in profiled(traces)
        for row in each.failed
    )


def tabulate_timelines(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table TIMELINES, in the order of the trace table; the category is empty where the gate spoils it."""
    return TIMELINES.from_rows(
        {
            **each.identity,
            **{column: row[column] for column in _OF_STRETCHES},
            "category": row["category"] if (row["lane"], row["begin_ms"]) in told else "",
        }
        for each in profiled(traces)
        for told in [{(row["lane"], row["begin_ms"]) for row in each.rows(TIMELINE, "category")}]
        for row in each.rows(TIMELINE, *_OF_STRETCHES)
    )


def _shares_of_steps(each: Profiled) -> dict[str, float]:
    shares = {f"{name}_share": _share(each, name) for name in _SHARED_OUT}
    return {**shares, "device_idle_share": 1 - shares["device_busy_share"]}


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


def _longest_of_causes(rows: Sequence[Row]) -> Iterator[Row]:
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


def _longest_kernels(each: Profiled) -> Iterator[Row]:
    told = [column for column in _OF_LAUNCHING_CALLS if each.trusts(KERNELS, column)]
    has_delay = each.trusts(KERNELS, "launch_delay_us")
    rows = each.rows(KERNELS, "name", *_OF_KERNELS)
    for row in sorted(rows, key=lambda row: (-row["total_ms"], row["name"], row["category"]))[:TOP]:
        yield {
            "name": row["name"],
            **{column: row[column] for column in _OF_KERNELS},
            **{column: row[column] if column in told else "" for column in _OF_LAUNCHING_CALLS},
            "launch_delay_us": row["launch_delay_us"] if has_delay else math.nan,
        }


def _mean(values: Sequence[float]) -> float:
    return _quotient(sum(values), len(values))


def _quotient(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
