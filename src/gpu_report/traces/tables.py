"""Every table of a trace with the function that makes it, and the tables of one trace as rows and as CSV files.

light trace -> times, kernels, idleness; rich trace -> shapes, memory, source lines; a trace alone serves for both

To add a table, declare it beside the function that makes it and list both here.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gpu_report.columns import Table
from gpu_report.traces.advice import ADVICE, UNANSWERED, advise
from gpu_report.traces.attribution import DeviceWork, HostCalls, attribute_device, attribute_host
from gpu_report.traces.copies import COPIES, copy_rows
from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES, idle_rows, launch_rows
from gpu_report.traces.kernels import KERNELS, kernel_rows
from gpu_report.traces.memory import ALIVE, ALLOCATIONS, MEMORY, alive_rows, allocation_rows, memory_rows
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS, category_rows, operation_rows
from gpu_report.traces.phases import PHASES, phase_rows
from gpu_report.traces.quality import ON_DEVICE, QUALITY, quality_rows, spoiled
from gpu_report.traces.shapes import SHAPES, shape_rows
from gpu_report.traces.steps import STEPS, step_rows
from gpu_report.traces.timeline import TIMELINE, timeline_rows
from gpu_report.traces.trace import Trace

TraceTables = Mapping[Table, Sequence[Row]]
"""The rows of each of TRACE_TABLES; a missing number is None as made, and NaN as read."""

MADE_BY: Final[dict[Table, Callable[[Trace, HostCalls, DeviceWork], Sequence[Row]]]] = {
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
"""The order of each table's rows is described at the function that makes them."""

TRACE_TABLES: Final = (*MADE_BY, ADVICE, UNANSWERED)
"""A table's name is the name of its file."""

EMPTY_TABLES: Final[TraceTables] = dict.fromkeys(TRACE_TABLES, ())
"""Of a variant that has no trace."""

ADDED_LATER: Final = frozenset({ALLOCATIONS})
"""Tables that bundles packed before version 3 of the protocol do not hold: without their file they have no rows."""

_RICH: Final = frozenset({SHAPES, MEMORY, ALLOCATIONS, ALIVE})
"""Tables of what a light trace does not record; nor does it record the stacks for these columns of KERNELS."""
_STACKS: Final = ("module", "source")


def tabulate_trace(trace: Trace, *, rich: Trace | None = None, checks: Sequence[Row] = ()) -> TraceTables:
    """The tables over the profiled steps.

    `rich` is a trace of the same training with shapes, memory and stacks, where `trace` is without. `checks` are
    further rows of QUALITY, which the trace alone does not show.
    """
    attributed = _attributed(trace)
    rich_attributed = attributed if rich is None else _attributed(rich)
    rows = {table: [*make(*(rich_attributed if table in _RICH else attributed))] for table, make in MADE_BY.items()}
    if rich is not None:
        rows[KERNELS] = _with_stacks(rows[KERNELS], kernel_rows(*rich_attributed))
        rows[QUALITY] = [*_light_checks(rows[QUALITY]), *_rich_checks(quality_rows(*rich_attributed))]
    rows[QUALITY] += checks
    return {**rows, **advise(rows, trace)}


def _attributed(trace: Trace) -> tuple[Trace, HostCalls, DeviceWork]:
    calls = attribute_host(trace)
    return trace, calls, attribute_device(trace, calls)


def _with_stacks(kernels: Sequence[Row], rich: Sequence[Row]) -> list[Row]:
    """The kernels with the columns from the stacks of those of the same name and category in the rich trace."""
    stacks = {(row["name"], row["category"]): {column: row[column] for column in _STACKS} for row in rich}
    return [{**row, **stacks.get((row["name"], row["category"]), {})} for row in kernels]


def _light_checks(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "spoils": ", ".join(name for name in spoiled(row) if not _is_rich(name))} for row in rows]


def _rich_checks(rows: Sequence[Row]) -> list[Row]:
    """The failed checks of the rich trace, which spoil what it decides and nothing else."""
    failed = [(row, [name for name in spoiled(row) if _is_rich(name)]) for row in rows if not row["passed"]]
    return [
        {**row, "check": f"{row['check']}, rich profile", "spoils": ", ".join(names)} for row, names in failed if names
    ]


def _is_rich(name: str) -> bool:
    table, _, column = name.removesuffix(ON_DEVICE).partition(".")
    return table in {one.name for one in _RICH} or (table == KERNELS.name and column in _STACKS)


def file_name(table: Table) -> str:
    """The file of a table inside a trace's folder of tables."""
    return f"{table.name}.csv"


def as_csv(tables: TraceTables) -> dict[str, str]:
    """File name to CSV text.

    Raises:
        TableError: a row is not as its table declares.
    """
    return {file_name(table): table.rows_to_csv(tables[table]) for table in TRACE_TABLES}


def table_files(folder: Path) -> dict[Table, Path]:
    """The files of the tables in a folder; one that was added later may not be there, and then is left out."""
    files = {table: folder / file_name(table) for table in TRACE_TABLES}
    return {table: file for table, file in files.items() if table not in ADDED_LATER or file.exists()}


def read_trace_tables(folder: Path) -> TraceTables:
    """Read the tables from the files that `table_files` names.

    Raises:
        TableError: a file is missing or does not hold its columns.
    """
    return {**EMPTY_TABLES, **{table: table.read_rows(file) for table, file in table_files(folder).items()}}
