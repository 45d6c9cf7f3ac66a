"""Commands about traces of PyTorch's profiler, of any origin: look, compare two, explain the
tables.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table as TextTable
from rich.text import Text

from gpu_report.errors import GpuReportError
from gpu_report.printing.number_format import duration, ratio
from gpu_report.printing.terminal import new_console
from gpu_report.storage.columns import Table
from gpu_report.storage.files import write_text_atomically
from gpu_report.traces.analysis import (
    CATEGORY,
    KERNEL,
    OPERATION,
    PART,
    STEP,
    TRACE_CHANGES,
    analyse_two,
    change_rows,
    csv_files,
)
from gpu_report.traces.card import card, fitted, one_line, rate, steps_of, text_table
from gpu_report.traces.quality import NOT_RELIABLE
from gpu_report.traces.tables import TRACE_TABLES, file_name
from gpu_report.user_training.trace import trace as read

_SHOWN: Final = {STEP: 1, PART: 8, CATEGORY: 10, OPERATION: 15, KERNEL: 10}
_COLUMNS: Final = ("", "on", "A", "B", "B - A", "B / A", "calls A", "calls B")
_TITLES: Final = {
    STEP: "Step time",
    PART: "Parts of the step (each moment counts once), the largest change first",
    CATEGORY: "Categories, the largest change first",
    OPERATION: "Operations, the largest change first",
    KERNEL: "Kernels, copies and memsets, the largest change first",
}


def trace(arguments: Namespace) -> None:
    """Print what a trace shows, and write its tables and its page; of a folder the first rank
    whole, the others in brief.
    """
    found = read(arguments.path, uncaptured=arguments.uncaptured)
    console = new_console()
    console.print(card(found.ranks))
    if arguments.out is not None:
        _write(csv_files(found.ranks), arguments.out, console)
    if arguments.html is not None:
        found.to_html(arguments.html)


def trace_diff(arguments: Namespace) -> None:
    """Print what changed from one trace to another, per step, and write it as a table.

    Raises:
        TraceError: a trace cannot be read, or one alone has marked steps.
    """
    a, b = analyse_two(arguments.a, arguments.b)
    rows, console = change_rows(a.rows, b.rows), new_console()
    for letter, each in (("A", a), ("B", b)):
        console.print(f"{letter}  {one_line(each.path)}", soft_wrap=True)
        console.print(
            f"   {steps_of(each)}, {each.device_name or each.device or 'no work on an accelerator'}"
        )
        failed = (
            f"{NOT_RELIABLE}: {row['text']}" if row["spoils"] else row["text"]
            for row in each.gate.failed
        )
        for text in dict.fromkeys(failed):
            console.print(Text(f"   {text}", style="yellow"))
    _show_changes(rows, console)
    if arguments.out is not None:
        text = TRACE_CHANGES.rows_to_csv(rows)
        _write({Path(file_name(TRACE_CHANGES)): text}, arguments.out, console)


def _show_changes(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    for level, most in _SHOWN.items():
        of_level = [row for row in rows if row["level"] == level]
        if not of_level:
            continue
        known = [row for row in of_level if row["change_ms"] is not None]
        console.print()
        console.print(Text(_TITLES[level], style="bold"))
        cells = [
            (
                fitted(row["name"]),
                row["device"],
                *(
                    duration(row[column] / 1e3, unit="ms").plain()
                    for column in ("a_ms", "b_ms", "change_ms")
                ),
                "" if row["ratio"] is None else ratio(row["ratio"]).plain(),
                *(rate(row[column]) for column in ("a_calls", "b_calls")),
            )
            for row in [row for row in known if row["change_ms"]][:most]
        ]
        console.print(text_table(*_COLUMNS, rows=cells))
        if len(known) < len(of_level):
            console.print(
                Text(f"{len(of_level) - len(known)} not compared: {NOT_RELIABLE}", style="yellow")
            )


def every_table() -> dict[str, Table]:
    """Every table by name, a trace's first; a table of the study that shares its name with one of a
    trace is `study.<name>`.
    """
    from gpu_report.answers.finding import FINDINGS
    from gpu_report.tables import STUDY_TABLES
    from gpu_report.tables.experiments import EXPERIMENT
    from gpu_report.tables.variants import COMPARISON
    from gpu_report.tables.verdicts import VERDICTS

    of_traces = {table.name: table for table in (*TRACE_TABLES, TRACE_CHANGES)}
    return of_traces | {
        f"study.{table.name}" if table.name in of_traces else table.name: table
        for table in (*STUDY_TABLES, EXPERIMENT, COMPARISON, VERDICTS, FINDINGS)
    }


def columns(arguments: Namespace) -> None:
    """Print every column of a table with unit and meaning, or every table with its columns.

    Raises:
        GpuReportError: there is no such table.
    """
    tables = every_table()
    if arguments.table and arguments.table not in tables:
        raise GpuReportError(
            f"there is no table {arguments.table!r}; the tables are {', '.join(tables)}; the table "
            "of every experiment, such as batch_size.csv, has the columns of experiment"
        )
    console = new_console()
    for name in [arguments.table] if arguments.table else tables:
        console.print(Text(name, style="bold"), Text(tables[name].meaning), sep="\n")
        described = TextTable(
            "column", "unit", "meaning", box=None, pad_edge=False, padding=(0, 2, 0, 0)
        )
        for column in tables[name].columns:
            described.add_row(column.name, column.unit, Text(column.meaning))
        console.print(described, "")


def _write(texts: Mapping[Path, str], folder: Path, console: Console) -> None:
    for path, text in texts.items():
        write_text_atomically(folder / path, text)
    console.print(f"\n{len(texts)} CSV files in {folder}", soft_wrap=True)
