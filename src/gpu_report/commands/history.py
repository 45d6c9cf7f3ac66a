"""The command that shows how fast a machine trained over time, from one bundle per session."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_report.bundles.results import records_in, results_at
from gpu_report.bundles.shown_machines import BUNDLE_SUFFIX
from gpu_report.errors import BundleError
from gpu_report.glossary import STATUS_WORDS, THROUGHPUT, Row, machine_words
from gpu_report.printing.number_format import Quantity, change, counted
from gpu_report.printing.terminal import new_console, say
from gpu_report.storage.files import write_bytes_atomically, write_text_atomically
from gpu_report.tables.change_points import AT_NO_SESSION, TOO_FEW
from gpu_report.tables.history import HISTORY, Session, session_of, tabulate_history
from gpu_report.tables.marks import INVALIDATES_TIMES, SEPARATOR, marks_in

_WIDEST: Final = 120
_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_BARS: Final = 20
_LEAST_RELATIVE_HEIGHT: Final = 0.1
"""Of a sparkline: what varies less is drawn flatter, so that chance does not fill it."""

Rows = Sequence[Row]


def show_history(arguments: Namespace) -> None:
    """Print a table per machine: a line and the change points of each configuration; write all as
    table and figure.

    A bundle that cannot be read is named; the others are shown all the same, and then the command
    fails.

    Raises:
        BundleError: there is no bundle, none has a configuration that is asked for, or one could
            not be read.
    """
    sessions, unread = _read(arguments.folder)
    known, asked = {each.variant for each in sessions}, arguments.configurations
    unknown = [name for name in asked if name not in known]
    if unknown and known:
        raise BundleError(
            f"{arguments.folder}: no bundle has configuration {unknown[0]!r}; the names are "
            f"{', '.join(sorted(known))}"
        )
    rows = tabulate_history(each for each in sessions if not asked or each.variant in asked)
    console = new_console()
    console.width = min(console.width, _WIDEST) if console.is_terminal else _WIDEST
    for machine, of_machine in groupby(rows, key=lambda row: row["machine"]):
        console.print(Text(f"{machine_words(machine)} ({machine})", style="bold"))
        shown = list(of_machine)
        console.print(_lines(shown, name_width=console.width // 3))
        if any(row["verdict"] == TOO_FEW for row in shown):
            console.print(
                f"too few: a change point needs at least {shown[0]['sessions_needed']} sessions"
            )
        console.print()
    if rows and arguments.out is not None:
        _write(rows, arguments.out)
    if unread:
        raise BundleError(
            f"the history does not include {counted(unread, 'bundle')} that could not be read, "
            "named above"
        )


def _read(folder: Path) -> tuple[list[Session], int]:
    """The sessions in all bundles that can be read, and how many cannot."""
    bundles = sorted(path for path in folder.rglob(f"*{BUNDLE_SUFFIX}") if path.is_file())
    if not bundles:
        raise BundleError(
            f"{folder} contains no bundles; expected files *{BUNDLE_SUFFIX} from gpu-report pack "
            "--out"
        )
    sessions: list[Session] = []
    unread = 0
    for bundle in bundles:
        try:
            with results_at(bundle) as results:
                sessions += [session_of(record) for record in records_in(results).values()]
        except BundleError as error:
            unread += 1
            say(f"left out: {error}", to_stderr=True)
    return sessions, unread


def _lines(rows: Rows, *, name_width: int) -> Table:
    """A line for each series of a configuration, and below its name what happened when."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("configuration", overflow="fold", min_width=name_width)
    table.add_column("sessions", justify="right", no_wrap=True)
    for header in ("first", "last, samples/s"):
        table.add_column(header, justify="right")
    table.add_column("recent sessions", no_wrap=True)
    for (variant, _), group in groupby(rows, key=lambda row: (row["variant"], row["series"])):
        series = list(group)
        used = [row for row in series if row["is_used"]]
        ends = (_short(THROUGHPUT.quantity(used[position])) if used else "" for position in (0, -1))
        name = Group(
            Text(variant), *(Padding(Text(event), (0, 0, 0, 2)) for event in _events(series))
        )
        sessions = f"{len(used)}, too few" if series[0]["verdict"] == TOO_FEW else str(len(used))
        table.add_row(name, sessions, *ends, _sparkline(series[-_MOST_BARS:]))
    return table


def _events(series: Rows) -> Iterator[str]:
    for position, row in enumerate(series):
        date, differences = row["measured_at"][:10], row["differences"].replace(SEPARATOR, ", ")
        if position == 0 and differences:
            yield f"{date}: new series, {differences}"
        if row["is_change_point"]:
            bounds = {bound: row[f"change_ratio_{bound}"] for bound in ("low", "high")}
            changed = _short(change(row["change_ratio"], **bounds))
            yield f"{date}: {changed} %" + (f", {differences}" if differences else "")
        elif not row["is_used"]:
            reasons = [mark for mark in marks_in(row["marks"]) if mark in INVALIDATES_TIMES]
            yield f"{date}: not used, {STATUS_WORDS.get(row['status']) or ', '.join(reasons)}"
    if series[0]["verdict"] == AT_NO_SESSION:
        yield AT_NO_SESSION


def _short(number: Quantity) -> str:
    value = number.plain(interval=False, unit=False)
    return f"{value} ± {number.either_side}" if number.either_side else number.plain(unit=False)


def _sparkline(rows: Rows) -> str:
    values = [row["throughput_per_s"] for row in rows if row["is_used"]]
    if not values:
        return ""
    middle = (max(values) + min(values)) / 2
    height = max(max(values) - min(values), _LEAST_RELATIVE_HEIGHT * middle)
    low, top = middle - height / 2, len(_BARS) - 1
    return "".join(
        _BARS[round(top * (row["throughput_per_s"] - low) / height)] if row["is_used"] else "·"
        for row in rows
    )


def _write(rows: Rows, folder: Path) -> None:
    from gpu_report.figures.history import history_figure
    from gpu_report.figures.style import figure_bytes

    figure = history_figure(HISTORY.from_rows(rows))
    write_text_atomically(folder / "history.csv", HISTORY.rows_to_csv(rows))
    write_bytes_atomically(folder / "history.pdf", figure_bytes(figure.draw()))
    say(f"{folder}: history.csv, history.pdf")
