"""From a trace to its tables: who did how much, where and when, and what of that can be trusted.

light trace -> times, kernels, idleness; rich trace -> shapes, memory, source lines; a trace alone serves for both
"""

from collections.abc import Callable, Sequence
from typing import Final

from gpu_report.columns import Table
from gpu_report.traces.advice import advise
from gpu_report.traces.attribution import DeviceWork, HostCalls, attribute_device, attribute_host
from gpu_report.traces.copies import copy_rows
from gpu_report.traces.idle import idle_rows
from gpu_report.traces.kernels import kernel_rows
from gpu_report.traces.launches import launch_rows
from gpu_report.traces.memory import alive_rows, allocation_rows, memory_rows
from gpu_report.traces.operations import category_rows, operation_rows
from gpu_report.traces.phases import phase_rows
from gpu_report.traces.quality import quality_rows
from gpu_report.traces.schema import (
    ALIVE,
    ALLOCATIONS,
    CATEGORY_TIMES,
    COPIES,
    IDLE,
    KERNELS,
    LAUNCHES,
    MEMORY,
    OPERATIONS,
    PHASES,
    QUALITY,
    SHAPES,
    STEPS,
)
from gpu_report.traces.shapes import shape_rows
from gpu_report.traces.steps import step_rows
from gpu_report.traces.tables import TraceRows
from gpu_report.traces.timeline import timeline_rows
from gpu_report.traces.timeline_schema import TIMELINE
from gpu_report.traces.trace import Trace
from gpu_report.traces.trust import ON_DEVICE, Row

_ROWS: Final[dict[Table, Callable[[Trace, HostCalls, DeviceWork], Sequence[Row]]]] = {
    OPERATIONS: operation_rows,
    SHAPES: shape_rows,
    KERNELS: kernel_rows,
    CATEGORY_TIMES: category_rows,
    STEPS: step_rows,
    IDLE: idle_rows,
    LAUNCHES: launch_rows,
    PHASES: phase_rows,
    TIMELINE: timeline_rows,
    COPIES: copy_rows,
    MEMORY: memory_rows,
    ALLOCATIONS: allocation_rows,
    ALIVE: alive_rows,
    QUALITY: quality_rows,
}


_RICH: Final = frozenset({SHAPES, MEMORY, ALLOCATIONS, ALIVE})
"""Tables of what a light trace does not record, nor the columns of KERNELS that stacks tell."""
_STACKS: Final = ("module", "source")


def tabulate_trace(trace: Trace, *, rich: Trace | None = None, checks: Sequence[Row] = ()) -> TraceRows:
    """The tables over the profiled steps; what orders each table's rows is at the function that makes them.

    `rich` is a trace of the same training with shapes, memory and stacks, where `trace` is without. `checks` are rows
    of QUALITY that the trace alone does not show.
    """
    attributed = _attributed(trace)
    rich_attributed = attributed if rich is None else _attributed(rich)
    rows = {table: [*make(*(rich_attributed if table in _RICH else attributed))] for table, make in _ROWS.items()}
    if rich is not None:
        rows[KERNELS] = _with_stacks(rows[KERNELS], kernel_rows(*rich_attributed))
        rows[QUALITY] = [*_light_checks(rows[QUALITY]), *_rich_checks(quality_rows(*rich_attributed))]
    rows[QUALITY] += checks
    return {**rows, **advise(rows, trace)}


def _attributed(trace: Trace) -> tuple[Trace, HostCalls, DeviceWork]:
    calls = attribute_host(trace)
    return trace, calls, attribute_device(trace, calls)


def _with_stacks(kernels: Sequence[Row], rich: Sequence[Row]) -> list[Row]:
    """The kernels with what the stacks tell of those of the same name and category in the rich trace."""
    told = {(row["name"], row["category"]): {column: row[column] for column in _STACKS} for row in rich}
    return [{**row, **told.get((row["name"], row["category"]), {})} for row in kernels]


def _light_checks(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "spoils": ", ".join(name for name in _spoils(row) if not _is_rich(name))} for row in rows]


def _rich_checks(rows: Sequence[Row]) -> list[Row]:
    """The failed checks of the rich trace, which spoil what it decides and nothing else."""
    failed = [(row, [name for name in _spoils(row) if _is_rich(name)]) for row in rows if not row["passed"]]
    return [
        {**row, "check": f"{row['check']}, rich profile", "spoils": ", ".join(names)} for row, names in failed if names
    ]


def _spoils(row: Row) -> list[str]:
    return row["spoils"].split(", ") if row["spoils"] else []


def _is_rich(name: str) -> bool:
    table, _, column = name.removesuffix(ON_DEVICE).partition(".")
    return table in {one.name for one in _RICH} or (table == KERNELS.name and column in _STACKS)
