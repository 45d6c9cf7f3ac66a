"""Every table of a trace with the function that makes it, and the tables of one trace, or of a
record's traces.

light trace -> times, kernels, idleness; rich trace -> memory, modules, shapes, source lines; a
trace alone serves for both

To add a table, declare it beside the function that makes it and list both here.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import Final

import msgspec

from gpu_report.errors import TraceError
from gpu_report.records.record import MOST_SLOWED, Record, is_as_timed
from gpu_report.storage.columns import Table
from gpu_report.study.variant import Variant
from gpu_report.traces.advice import ADVICE, UNANSWERED, weigh
from gpu_report.traces.attribution import Attributed, DeviceWork, HostCalls, attribute
from gpu_report.traces.graphs import with_operations
from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES, idle_rows, launch_rows
from gpu_report.traces.kernels import COPIES, KERNELS, copy_rows, kernel_rows
from gpu_report.traces.memory import (
    ALLOCATIONS,
    MEMORY,
    allocation_rows,
    memory_rows,
)
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS, category_rows, operation_rows
from gpu_report.traces.phases import PHASES, phase_rows
from gpu_report.traces.quality import (
    AS_TIMED,
    QUALITY,
    WORK_ON_DEVICE,
    invalidated,
    quality_rows,
    row_of,
)
from gpu_report.traces.ranges import MODULES, RANGES, module_rows, range_rows
from gpu_report.traces.ranks import COLLECTIVES, RANKS, Exchange, exchange_of, tabulate_ranks
from gpu_report.traces.reading import read_trace
from gpu_report.traces.shapes import SHAPES, shape_rows
from gpu_report.traces.steps import DEVICES, STEPS, device_rows, step_rows
from gpu_report.traces.timed import TimedStep, of_timed_steps
from gpu_report.traces.timeline import TIMELINE, timeline_rows
from gpu_report.traces.trace import HOST, Trace

TraceTables = Mapping[Table, Sequence[Row]]
"""The rows of each of TRACE_TABLES; a missing number is None as made, and NaN as read."""

MADE_BY: Final[dict[Table, Callable[[Trace, HostCalls, DeviceWork], Iterable[Row]]]] = {
    OPERATIONS: operation_rows,
    KERNELS: kernel_rows,
    CATEGORY_TIMES: category_rows,
    STEPS: step_rows,
    DEVICES: device_rows,
    IDLE: idle_rows,
    LAUNCHES: launch_rows,
    PHASES: phase_rows,
    RANGES: range_rows,
    MODULES: module_rows,
    SHAPES: shape_rows,
    TIMELINE: timeline_rows,
    COPIES: copy_rows,
    MEMORY: memory_rows,
    ALLOCATIONS: allocation_rows,
    QUALITY: quality_rows,
}
"""The order of each table's rows is described at the function that makes them."""

TRACE_TABLES: Final = (*MADE_BY, RANKS, COLLECTIVES, ADVICE, UNANSWERED)
"""A table's name is the name of its file."""

EMPTY_TABLES: Final[TraceTables] = dict.fromkeys(TRACE_TABLES, ())
"""Of a variant that has no trace."""

ADDED_LATER: Final = frozenset({ALLOCATIONS, DEVICES, RANKS, COLLECTIVES, RANGES, MODULES, SHAPES})
"""Tables that older published bundles do not hold: without their file they have no rows."""

_RICH: Final = frozenset({MEMORY, ALLOCATIONS, MODULES, SHAPES})
"""Tables of what a light trace does not record; nor does it record the stacks for these columns of
KERNELS.
"""
_STACKS: Final = ("module", "source")
_OF_RICH: Final = re.compile(
    rf"({'|'.join(table.name for table in _RICH)})\b|{KERNELS.name}\.({'|'.join(_STACKS)})\b"
)
"""What QUALITY calls the numbers that the rich trace decides."""


def tabulate_trace(
    trace: Trace,
    *,
    known: Attributed | None = None,
    rich: Trace | None = None,
    others: Sequence[Exchange] = (),
    checks: Sequence[Row] = (),
    timed: TimedStep | None = None,
) -> TraceTables:
    """The tables over the profiled steps.

    `known` is what `attribute` makes of the trace, where the caller needs it too. `rich` is a trace
    of the same training with memory and stacks, where `trace` is without. `others` is what
    the other ranks exchanged. `checks` are further rows of QUALITY, which the trace alone does not
    show. The advice is about steps as long as `timed` says, else about the profiled ones.
    """
    light = rich_attributed = known or attribute(trace)
    if rich is not None:
        rich_attributed = attribute(rich)
        light = with_operations(light, rich_attributed)
    rows = {
        table: [*make(*(rich_attributed if table in _RICH else light))]
        for table, make in MADE_BY.items()
    }
    if rich is not None:
        stacks = {
            (row["name"], row["category"]): {column: row[column] for column in _STACKS}
            for row in kernel_rows(*rich_attributed)
        }
        rows[KERNELS] = [
            {**row, **stacks.get((row["name"], row["category"]), {})} for row in rows[KERNELS]
        ]
        rows[QUALITY] = [
            *(
                {**row, "spoils": ", ".join(filterfalse(_OF_RICH.match, invalidated(row)))}
                for row in rows[QUALITY]
            ),
            *_failed_in_another(
                quality_rows(*rich_attributed), "rich profile", concerns=_OF_RICH.match
            ),
        ]
    rows[QUALITY] += checks
    for each in others:
        rows[QUALITY] += _failed_in_another(
            each.checks,
            f"rank {each.rank}",
            concerns={RANKS.name, COLLECTIVES.name}.__contains__,
        )
    rows |= tabulate_ranks([exchange_of(*light), *others])
    applying, unanswered = weigh(of_timed_steps(rows, timed) if timed else rows, trace)
    return {**rows, ADVICE: [row for _, row in applying], UNANSWERED: unanswered}


def _failed_in_another(
    checks: Sequence[Row], which: str, *, concerns: Callable[[str], object]
) -> list[Row]:
    """The checks that another trace of the same training failed; each invalidates here only the
    names that `concerns` accepts.
    """
    return [
        {**row, "check": f"{row['check']}, {which}", "spoils": ", ".join(names)}
        for row in checks
        if not row["passed"] and (names := [*filter(concerns, invalidated(row))])
    ]


def tabulate_trace_of(record: Record, folder: Path, rich_folder: Path) -> TraceTables:
    """The rows of the tables of the traces that a record names; a variant that was not profiled has
    none.

    A record without a rich trace has one that serves for both.

    Raises:
        TraceError: the trace is missing or damaged, or holds no step.
    """
    if record.profile is None:
        return EMPTY_TABLES
    rich_file = record.profile.rich_trace_file
    try:
        trace = _read(folder / record.profile.trace_file)
        return tabulate_trace(
            trace,
            rich=_read(rich_folder / rich_file) if rich_file else None,
            others=[read_exchange(folder / each.trace_file) for each in record.profile.other_ranks],
            checks=[
                slowness_of_profiled_steps(record.profile_overhead),
                *lost_device(Variant.from_slug(record.variant).device_type, trace),
            ],
            timed=TimedStep.of(record),
        )
    except TraceError as error:
        raise TraceError(
            f"{error}; measure the configuration again with: gpu-report run {record.variant}"
        ) from error


def read_exchange(path: Path) -> Exchange:
    """What the training of a trace exchanged with its other ranks.

    Raises:
        TraceError: the trace is missing or damaged, or holds no step.
    """
    attributed = attribute(_read(path))
    return msgspec.structs.replace(exchange_of(*attributed), checks=quality_rows(*attributed))


def _read(path: Path) -> Trace:
    trace = read_trace(path)
    if not trace.has_steps:
        raise TraceError(f"trace {path}: it holds no ProfilerStep, so no step was profiled")
    return trace


def slowness_of_profiled_steps(overhead: float) -> Row:
    """A row of QUALITY: a step of the light profile takes about as long as one of the median timed
    epoch.

    `overhead` is the one over the other, NaN where no step was timed.

    What differs is time of the host, so that a failure invalidates what separates the host's part
    from the device's.
    """
    is_known = not math.isnan(overhead)
    return row_of(
        AS_TIMED,
        overhead if is_known else 0.0,
        MOST_SLOWED,
        passed=not is_known or is_as_timed(overhead),
        text=f"a profiled step took {overhead:.2f} times a timed one"
        if is_known
        else "no step was timed",
        invalidates=(
            "idle",
            "launches",
            *(
                f"steps.{column}"
                for column in (
                    "runtime_ms",
                    "loader_ms",
                    "operator_ms",
                    "other_ms",
                    "host_busy_ms",
                    "device_idle_share",
                )
            ),
        ),
    )


def lost_device(device: str, trace: Trace) -> list[Row]:
    """A row of QUALITY where the training was on an accelerator: a trace without one lost all of
    its events.

    The vendor's library, which may be refused, records kernels and driver calls; then the trace has
    neither.
    """
    if device == HOST:
        return []
    return [
        row_of(
            "work on the accelerator",
            len(trace.work),
            1,
            passed=trace.device is not None,
            text=f"{len(trace.work)} kernels, copies and fills on {device} are in the trace; at "
            "least one was expected",
            invalidates=WORK_ON_DEVICE,
        )
    ]


def file_name(table: Table) -> str:
    """The file of a table inside a trace's folder of tables."""
    return f"{table.name}.csv"


def as_csv(tables: TraceTables) -> dict[str, str]:
    """File name to CSV text.

    Raises:
        TableError: a row is not as its table declares.
    """
    return {file_name(table): table_as_csv(table, tables[table]) for table in TRACE_TABLES}


def table_as_csv(table: Table, rows: Iterable[Row]) -> str:
    """The text of one file, its fractions with six digits, of a number above 1000 those down to the
    third decimal: of milliseconds the microsecond. More would only make bundles larger.

    Raises:
        TableError: as for `as_csv`.
    """
    return table.rows_to_csv(
        {
            name: _rounded(value) if isinstance(value, float) and not value.is_integer() else value
            for name, value in row.items()
        }
        for row in rows
    )


def _rounded(value: float) -> float:
    return round(value, 3) if abs(value) > 1000 else float(f"{value:.6g}")


def table_files(folder: Path) -> dict[Table, Path]:
    """The files of the tables in a folder; one that was added later may not be there, and then is
    left out.
    """
    return {
        table: folder / file_name(table)
        for table in TRACE_TABLES
        if table not in ADDED_LATER or (folder / file_name(table)).exists()
    }


def read_trace_tables(folder: Path) -> TraceTables:
    """Read the tables from the files that `table_files` names.

    Raises:
        TableError: a file is missing or does not hold its columns.
    """
    return {
        **EMPTY_TABLES,
        **{table: table.read_rows(file) for table, file in table_files(folder).items()},
    }
