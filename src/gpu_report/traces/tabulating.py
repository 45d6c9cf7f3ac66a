"""From a trace to its tables: who did how much, where and when, and what of that can be trusted."""

from collections.abc import Callable, Sequence
from typing import Final

from gpu_report.columns import Table
from gpu_report.traces.advice import advise
from gpu_report.traces.attribution import DeviceWork, HostCalls, attribute_device, attribute_host
from gpu_report.traces.copies import copy_rows
from gpu_report.traces.idle import idle_rows
from gpu_report.traces.kernels import kernel_rows
from gpu_report.traces.launches import launch_rows
from gpu_report.traces.memory import alive_rows, memory_rows
from gpu_report.traces.operations import category_rows, operation_rows
from gpu_report.traces.phases import phase_rows
from gpu_report.traces.quality import quality_rows
from gpu_report.traces.schema import (
    ALIVE,
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
from gpu_report.traces.trust import Row

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
    ALIVE: alive_rows,
    QUALITY: quality_rows,
}


def tabulate_trace(trace: Trace, *, checks: Sequence[Row] = ()) -> TraceRows:
    """The tables over the profiled steps; what orders each table's rows stands at the function that makes them.

    `checks` are rows of QUALITY that the trace alone cannot tell.
    """
    calls = attribute_host(trace)
    work = attribute_device(trace, calls)
    rows = {table: [*make(trace, calls, work)] for table, make in _ROWS.items()}
    rows[QUALITY] += checks
    return {**rows, **advise(rows, trace)}
