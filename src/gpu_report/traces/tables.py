"""The tables made of one trace, as rows, as CSV files and as DataFrames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_report.columns import Table
from gpu_report.traces.schema import (
    ADVICE,
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
    UNANSWERED,
)
from gpu_report.traces.timeline_schema import TIMELINE

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class TraceTables:
    """The tables of one trace, as read."""

    operations: "pd.DataFrame"
    shapes: "pd.DataFrame"
    kernels: "pd.DataFrame"
    categories: "pd.DataFrame"
    steps: "pd.DataFrame"
    idle: "pd.DataFrame"
    launches: "pd.DataFrame"
    phases: "pd.DataFrame"
    timeline: "pd.DataFrame"
    copies: "pd.DataFrame"
    memory: "pd.DataFrame"
    alive_at_peak: "pd.DataFrame"
    quality: "pd.DataFrame"
    advice: "pd.DataFrame"
    unanswered: "pd.DataFrame"


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
    ALIVE,
    QUALITY,
    ADVICE,
    UNANSWERED,
)
"""In the order of TraceTables; a table's name is the name of its field and of its file."""

TraceRows = Mapping[Table, Sequence[Mapping[str, Any]]]
"""The rows of each of TRACE_TABLES as they are made, without pandas."""


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
    """The rows as DataFrames.

    Raises:
        TableError: a row is not as its table declares.
    """
    return TraceTables(**{table.name: table.from_rows(rows[table]) for table in TRACE_TABLES})


def empty_trace_rows() -> TraceRows:
    """What the tables of a variant that has no trace hold: no row."""
    return {table: [] for table in TRACE_TABLES}


def read_trace_tables(folder: Path) -> TraceTables:
    """Read the tables from the files that `as_csv` names.

    Raises:
        TableError: a file is missing or does not hold its columns.
    """
    return TraceTables(**{table.name: table.read_csv(folder / file_name(table)) for table in TRACE_TABLES})
