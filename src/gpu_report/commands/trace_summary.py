"""What `gpu-report trace` prints of one trace: what it is, where its steps' time went, and what to
make of it.

AnalysedTrace -> sections (heading, table or sentences) -> the terminal, as wide as it is
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as TextTable
from rich.text import Text

from gpu_report.glossary import Row
from gpu_report.printing.number_format import count, duration, share, size
from gpu_report.storage.columns import Table
from gpu_report.traces.advice import ADVICE, UNANSWERED
from gpu_report.traces.analysis import AnalysedTrace
from gpu_report.traces.idle import IDLE
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.memory import MEMORY
from gpu_report.traces.operations import OPERATIONS
from gpu_report.traces.quality import NOT_RELIABLE, QUALITY
from gpu_report.traces.steps import STEPS
from gpu_report.traces.trace import HOST

TOP: Final = 8
_SHARES: Final = {
    "kernel_ms": "kernels",
    "memcpy_ms": "copies on the accelerator",
    "memset_ms": "memsets on the accelerator",
    "communication_ms": "communication",
    "runtime_ms": "calls into the driver",
    "loader_ms": "waiting for the loader",
    "operator_ms": "operations on the host",
    "other_ms": "nothing recorded",
}
_TEXTS: Final = (
    "",
    "operation",
    "kernel",
    "most of it in",
    "category",
    "library",
    "tensor",
    "on",
    "collective",
)
_GIVING_WAY: Final = ("", "operation", "kernel", "most of it in")
_BAR: Final = 24
_NOISE: Final = re.compile(
    r"^void |cutlass::Kernel2<|cudnn::engines_precompiled::|at::(native|cuda)::|(\(anonymous "
    r"namespace\)|<unnamed>)::"
)


def summary(analysed: AnalysedTrace, title: str, *, whole: bool = True) -> RenderableType:
    """The summary of one trace, or where it is not to be the whole, its heading, quality and
    advice.
    """
    sections = [*(_sections(analysed) if whole else ()), _quality(analysed), _advice(analysed)]
    return Group(
        _heading(analysed, title), *(Padding(section, (1, 0, 0, 0)) for section in sections)
    )


def _sections(analysed: AnalysedTrace) -> Iterator[RenderableType]:
    yield _breakdown(analysed)
    if analysed.device:
        yield _operations(
            analysed, analysed.device, f"Operations by time on {analysed.device}, per step"
        )
    yield _operations(analysed, HOST, "Operations by own time on the host, per step")
    if analysed.rows.get(KERNELS):
        yield _kernels(analysed)
    if analysed.rows.get(IDLE):
        yield _idle(analysed)
    if analysed.rows.get(MEMORY):
        yield _peaks(analysed)


def _refusal(analysed: AnalysedTrace, table: Table, *columns: str, on: str = "") -> str:
    """Why the columns are not shown, empty where they are."""
    found = analysed.gate.reasons(table, *columns, on=on)
    return f"{NOT_RELIABLE}: {'; '.join(found)}" if found else ""


def _heading(analysed: AnalysedTrace, title: str) -> RenderableType:
    device = (
        f"{analysed.device_name} ({analysed.device})" if analysed.device_name else analysed.device
    )
    parts = [
        steps_of(analysed),
        device or "no work on an accelerator",
        *(
            [f"rank {analysed.rank} of {analysed.ranks or '?'}"]
            if analysed.rank is not None
            else []
        ),
    ]
    return Group(Text(title, style="bold"), Text(", ".join(parts)), _step_time(analysed))


def steps_of(analysed: AnalysedTrace) -> str:
    """How many steps are in the trace, in words."""
    if not analysed.has_steps:
        return "no steps marked: the whole recording counts as one"
    return "1 step" if analysed.step_count == 1 else f"{analysed.step_count} steps"


def _step_time(analysed: AnalysedTrace) -> Text:
    walls = [row["wall_ms"] / 1e3 for row in analysed.gate.rows(STEPS, "wall_ms")]
    if not walls:
        return Text(f"step time {_refusal(analysed, STEPS, 'wall_ms')}")
    mean = sum(walls) / len(walls)
    text = f"step time {duration(mean).plain()}" + (
        f", {duration(min(walls)).plain()} to {duration(max(walls)).plain()}"
        if len(walls) > 1
        else ""
    )
    reliable = analysed.gate.rows(STEPS, "wall_ms", "device_busy_ms")
    busy = [row for row in reliable if row["device_busy_ms"] is not None]
    if busy:
        part = sum(row["device_busy_ms"] for row in busy) / sum(row["wall_ms"] for row in busy)
        text += (
            f"; {analysed.device} kernel-active {share(part).plain()}, idle "
            f"{share(1 - part).plain()}"
        )
    elif analysed.device:
        text += (
            f"; {analysed.device} kernel-active: "
            f"{_refusal(analysed, STEPS, 'device_busy_ms') or 'not recorded'}"
        )
    return Text(text)


def _breakdown(analysed: AnalysedTrace) -> RenderableType:
    rows = analysed.gate.rows(STEPS, "wall_ms", *_SHARES)
    title, refusal = (
        "Where a step's time went (each moment counts once)",
        _refusal(analysed, STEPS, "wall_ms", *_SHARES),
    )
    if not rows:
        return _refused(title, refusal)
    wall_ms = sum(row["wall_ms"] for row in rows)
    table = text_table("", "a step", "share", "")
    for column, meaning in _SHARES.items():
        spent_ms = sum(row[column] or 0.0 for row in rows)
        if spent_ms:
            part = spent_ms / wall_ms
            cells = (
                _milliseconds(spent_ms / len(rows)),
                share(part).plain(),
                "█" * round(part * _BAR),
            )
            table.add_row(meaning, *cells)
    left_out = len(analysed.rows[STEPS]) - len(rows)
    note = [Text(f"{left_out} steps left out, {refusal}")] if left_out else []
    return _titled(title, table, *note)


def _operations(analysed: AnalysedTrace, device: str, title: str) -> RenderableType:
    cells = {"operation": lambda row: fitted(row["name"]), "category": lambda row: row["category"]}
    return _longest(
        analysed, OPERATIONS, title, cells, time="self_ms", part="self_share", on=device
    )


def _kernels(analysed: AnalysedTrace) -> RenderableType:
    cells = {
        "kernel": lambda row: fitted(_NOISE.sub("", row["name"])),
        "library": lambda row: row["library"],
        "tensor": lambda row: row["tensor_cores"],
    }
    title = "Kernels, copies and memsets, per step"
    return _longest(analysed, KERNELS, title, cells, time="total_ms", part="share")


def _longest(
    analysed: AnalysedTrace,
    table: Table,
    title: str,
    cells: Mapping[str, Callable[[Row], Text | str]],
    *,
    time: str,
    part: str,
    on: str = "",
) -> RenderableType:
    """The first rows of a table in its order of time; `cells` identify a row; `time` and `part` are
    columns.
    """
    refusal = _refusal(analysed, table, time, part, "calls", on=on)
    if refusal:
        return _refused(title, refusal)
    of_device = [row for row in analysed.rows[table] if not on or row["device"] == on]
    rows, steps = [row for row in of_device if row[time]], analysed.step_count
    shown = text_table(*cells, "time", "share", "calls")
    for row in rows[:TOP]:
        numbers = _milliseconds(row[time] / steps), _share(row[part]), rate(row["calls"] / steps)
        shown.add_row(*(cell(row) for cell in cells.values()), *numbers)
    more = [Text(f"and {len(rows) - TOP} more", style="dim")] if len(rows) > TOP else []
    return _titled(title, shown, *more)


def _idle(analysed: AnalysedTrace) -> RenderableType:
    title, refusal = (
        "Why the accelerator was idle",
        _refusal(analysed, IDLE, "cause", "total_ms", "share"),
    )
    if refusal:
        return _refused(title, refusal)
    rows = analysed.rows[IDLE]
    table = text_table("", "most of it in", "a step", "of the time", "longest")
    causes = {
        row["cause"]: [each for each in rows if each["cause"] == row["cause"]] for row in rows
    }
    for cause, members in sorted(
        causes.items(), key=lambda pair: (-_sum(pair[1], "total_ms"), pair[0])
    ):
        table.add_row(
            cause,
            fitted(max(members, key=lambda row: row["total_ms"])["operation"] or "(no operation)"),
            _milliseconds(_sum(members, "total_ms") / analysed.step_count),
            _share(_sum(members, "share")),
            duration(max(row["longest_us"] for row in members) / 1e6).plain(),
        )
    return _titled(title, table)


def _peaks(analysed: AnalysedTrace) -> RenderableType:
    table = text_table("", "given to tensors", "taken from the device")
    rows = analysed.rows[MEMORY]
    for device in dict.fromkeys(row["device"] for row in rows):
        peaks = [
            _peak(row[column] for row in rows if row["device"] == device)
            for column in _MEMORY_COLUMNS
        ]
        table.add_row(device, *peaks)
    return _titled("Peak memory", table)


_BYTES_PER_MIB: Final = 2**20
_MEMORY_COLUMNS: Final = ("allocated_mib", "reserved_mib")


def _peak(numbers: Iterable[float | None]) -> str:
    known = [number for number in numbers if number is not None and number == number]
    return size(max(known) * _BYTES_PER_MIB).plain() if known else "not recorded"


def _quality(analysed: AnalysedTrace) -> RenderableType:
    lines = [
        Text.assemble(("failed ", "bold red"), f"{row['check']}: {row['text']}")
        for row in analysed.gate.failed
    ]
    return _titled(
        "Quality", *(lines or [Text(f"all {len(analysed.rows[QUALITY])} checks passed")])
    )


def _advice(analysed: AnalysedTrace) -> RenderableType:
    rows = analysed.rows.get(ADVICE, ())
    if not rows:
        which = "rules that the trace can answer" if analysed.rows.get(UNANSWERED) else "rules"
        return _titled("Advice", Text(f"none of the {which} applies"))
    return _titled(
        "Advice, the most severe first",
        *(_one_advice(number, row) for number, row in enumerate(rows, start=1)),
    )


def _one_advice(number: int, row: Row) -> RenderableType:
    place = f" ({row['place']})" if row["place"] else ""
    grid = TextTable.grid(padding=(0, 1, 0, 0))
    finding = Text.assemble((row["rule"], "bold"), f": {row['finding']}{place}")
    grid.add_row(f"{number}.", Group(finding, Text(row["advice"], style="italic")))
    return grid


def text_table(*columns: str) -> TextTable:
    """Text is aligned left, numbers right; what `fitted` made is cut where the width is short."""
    table = TextTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column,
            justify="left" if column in _TEXTS else "right",
            no_wrap=column not in _GIVING_WAY,
        )
    return table


def fitted(name: str) -> Text:
    """A name in one line, cut where the terminal is too narrow for it."""
    return Text(name, no_wrap=True, overflow="ellipsis")


def _titled(title: str, *content: RenderableType) -> RenderableType:
    return Group(Text(title, style="bold"), *content)


def _refused(title: str, refusal: str) -> RenderableType:
    return _titled(title, Text(refusal, style="yellow"))


def _milliseconds(time_ms: float) -> str:
    return duration(time_ms / 1e3).plain()


def _share(fraction: float | None) -> str:
    return "" if fraction is None else share(fraction).plain()


def rate(calls: float) -> str:
    """Calls per step, which need be no whole number."""
    return count(calls).plain() if calls >= 100 or calls == int(calls) else f"{calls:.3g}"


def _sum(rows: Iterable[Row], column: str) -> float:
    return float(sum(row[column] or 0.0 for row in rows))
