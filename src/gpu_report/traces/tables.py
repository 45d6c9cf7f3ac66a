"""The tables made of one trace, as rows and as CSV files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpu_report.columns import Table
from gpu_report.traces.schema import (
    ADVICE,
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
    UNANSWERED,
)
from gpu_report.traces.timeline_schema import TIMELINE

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class TraceTables:
    """The rows of each table of one trace, as read: a missing number is NaN."""

    operations: list[Row]
    shapes: list[Row]
    kernels: list[Row]
    categories: list[Row]
    steps: list[Row]
    idle: list[Row]
    launches: list[Row]
    phases: list[Row]
    timeline: list[Row]
    copies: list[Row]
    memory: list[Row]
    allocations: list[Row]
    alive_at_peak: list[Row]
    quality: list[Row]
    advice: list[Row]
    unanswered: list[Row]


TRACE_TABLES: Final = (
    OPERATIONS,
    SHAPES,
    KERNELS,
    CATEGORY_TIMES,
    STEPS,
    IDLE,
    LAUNCHES,
    PHASES,
    TIMELINE,
    COPIES,
    MEMORY,
    ALLOCATIONS,
    ALIVE,
    QUALITY,
    ADVICE,
    UNANSWERED,
)
"""In the order of TraceTables; a table's name is the name of its field and of its file."""

ADDED_LATER: Final = frozenset({ALLOCATIONS})
"""Tables that bundles packed before version 3 of the protocol do not hold: without their file they have no rows."""

TraceRows = Mapping[Table, Sequence[Mapping[str, Any]]]
"""The rows of each of TRACE_TABLES as they are made."""


def file_name(table: Table) -> str:
    """The file of a table inside a trace's folder of tables."""
    return f"{table.name}.csv"


def as_csv(rows: TraceRows) -> dict[str, str]:
    """File name to CSV text.

    Raises:
        TableError: a row is not as its table declares.
    """
    return {file_name(table): table.rows_to_csv(rows[table]) for table in TRACE_TABLES}


def as_tables(rows: TraceRows) -> TraceTables:
    """The rows as they are read back.

    Raises:
        TableError: a row is not as its table declares.
    """
    return TraceTables(**{table.name: table.checked(rows[table]) for table in TRACE_TABLES})


def empty_trace_rows() -> TraceRows:
    """What the tables of a variant that has no trace hold: no row."""
    return {table: [] for table in TRACE_TABLES}


def table_files(folder: Path) -> dict[Table, Path]:
    """The files of the tables in a folder; one that was added later may not be there, and then is left out."""
    files = {table: folder / file_name(table) for table in TRACE_TABLES}
    return {table: file for table, file in files.items() if table not in ADDED_LATER or file.exists()}


def read_trace_tables(folder: Path) -> TraceTables:
    """Read the tables from the files that `table_files` names.

    Raises:
        TableError: a file is missing or does not hold its columns.
    """
    rows = {table.name: table.read_rows(file) for table, file in table_files(folder).items()}
    return TraceTables(**{table.name: rows.get(table.name, []) for table in TRACE_TABLES})
