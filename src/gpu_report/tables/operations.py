"""Where time and memory went inside the profiled steps: the costliest operations and the share of each category.

trace tables, one set per variant -> rows on the variant's own device -> TOP_OPERATIONS, CATEGORY_SHARES,
OPERATION_MEMORY; those of one configuration on two devices -> CATEGORY_SPEEDUPS
"""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpu_report.tables.profiled import Profiled, profiled
from gpu_report.tables.schema import CATEGORY_SHARES, TOP_OPERATIONS
from gpu_report.tables.trace_schema import CATEGORY_SPEEDUPS, OPERATION_MEMORY
from gpu_report.traces.categories import category_by_name
from gpu_report.traces.memory import ALLOCATIONS
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.trace import HOST

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.traces.tables import TraceTables

TOP: Final = 10
"""Operations listed per variant: together they usually hold nine tenths of the time, and they fit half a page."""


def tabulate_top_operations(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table TOP_OPERATIONS; a variant without a trace, or with one that the gate spoils, has no rows.

    On an accelerator only the time there counts: time on the host runs beside it and would count twice.
    """
    return TOP_OPERATIONS.from_rows(
        {
            **each.identity,
            "rank": rank,
            **{name: row[name] for name in ("name", "category", "calls", "total_ms", "self_ms", "self_share")},
        }
        for each in profiled(traces)
        for rank, row in enumerate(_ordered(each.rows_on_own_device(OPERATIONS), by="name")[:TOP], start=1)
    )


def tabulate_category_shares(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table CATEGORY_SHARES, the largest share first; rows are missing as in TOP_OPERATIONS."""
    return CATEGORY_SHARES.from_rows(
        {**each.identity, **{name: row[name] for name in ("category", "calls", "self_ms", "share")}}
        for each in profiled(traces)
        for row in _ordered(each.rows_on_own_device(CATEGORY_TIMES), by="category")
    )


def tabulate_operation_memory(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table OPERATION_MEMORY; a variant whose profiler recorded no memory has no rows."""
    columns = ("operation", "allocations_per_step", "allocated_mib_per_step", "share")
    return OPERATION_MEMORY.from_rows(
        {**each.identity, "rank": rank, **{name: row[name] for name in columns}}
        for each in profiled(traces)
        for rank, row in enumerate(each.rows_on_own_device(ALLOCATIONS)[:TOP], start=1)
    )


def convolution_workspace_mib(each: Profiled) -> float:
    """The most that a convolution held within its own call; NaN where the trace has no memory, or no convolution."""
    held_mib = (
        row["within_call_mib"]
        for row in each.rows_on_own_device(ALLOCATIONS)
        if category_by_name(row["operation"]) == "convolution"
    )
    return max(held_mib, default=math.nan)


def tabulate_category_speedups(traces: "Mapping[str, TraceTables]", *, loops: Container[str]) -> "pd.DataFrame":
    """The table CATEGORY_SPEEDUPS, the most time on the CPU first.

    Variants with custom training `loops` are left out: what they profile as a step is a whole training.
    """
    compared = [each for each in profiled(traces) if each.variant.slug not in loops]
    on_cpu: dict[Any, Profiled] = {}
    for each in compared:
        if each.variant.device_type == HOST:
            on_cpu.setdefault(_configuration(each), each)
    return CATEGORY_SPEEDUPS.from_rows(
        {
            **each.identity,
            "cpu_variant": reference.variant.slug,
            "category": category,
            "cpu_ms": cpu_ms,
            "device_ms": device_ms[category],
            "speedup": cpu_ms / device_ms[category],
        }
        for each in compared
        if each.variant.device_type != HOST and (reference := on_cpu.get(_configuration(each)))
        for device_ms in [_step_times_ms(each)]
        for category, cpu_ms in sorted(_step_times_ms(reference).items(), key=lambda pair: (-pair[1], pair[0]))
        if category in device_ms
    )


def _configuration(each: Profiled) -> tuple[Any, ...]:
    """All that a profiled step depends on but the device."""
    left_out = {"device", "epochs", "steps_per_epoch"}
    return tuple(value for name, value in asdict(each.variant).items() if name not in left_out)


def _step_times_ms(each: Profiled) -> dict[str, float]:
    """By category the time in a profiled step on the variant's own device, where it took any."""
    steps = len(each.tables[STEPS])
    rows = each.rows_on_own_device(CATEGORY_TIMES)
    return {row["category"]: row["self_ms"] / steps for row in rows if steps and row["self_ms"] > 0}


def _ordered(rows: Iterable[dict[str, Any]], *, by: str) -> list[dict[str, Any]]:
    """From the longest time down; ties are ordered by name, so that the order of the trace does not matter."""
    return sorted(rows, key=lambda row: (-row["self_ms"], row[by]))
