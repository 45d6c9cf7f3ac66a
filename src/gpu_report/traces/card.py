"""What `gpu-report trace` and a printed `gpu_report.trace` show: of one trace what it is, where its
steps' time went, and what to make of it; of a folder of ranks first each rank's step, who waits,
and the collectives.

AnalysedTrace -> sections (heading, table or sentences) -> the terminal, as wide as it is
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table as TextTable
from rich.text import Text

from gpu_report.glossary import Row
from gpu_report.printing.number_format import (
    Quantity,
    count,
    counted,
    duration,
    quantity,
    share,
    size,
)
from gpu_report.printing.terminal import clean
from gpu_report.storage.columns import Table
from gpu_report.traces.advice import ADVICE, UNANSWERED
from gpu_report.traces.analysis import AnalysedTrace, labels
from gpu_report.traces.grouping import BYTES_PER_MIB
from gpu_report.traces.idle import IDLE
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.memory import MEMORY
from gpu_report.traces.operations import OPERATIONS
from gpu_report.traces.quality import NOT_RELIABLE, QUALITY
from gpu_report.traces.ranges import RANGES
from gpu_report.traces.ranks import (
    COLLECTIVES,
    LEAST_STEPS,
    RANKS,
    SLOW_FROM,
    median_collectives,
    median_ranks,
    most_awaited,
    slow_rank,
)
from gpu_report.traces.steps import DEVICES, PARTS_OF_STEP, STEPS
from gpu_report.traces.trace import HOST

TOP: Final = 8
_TEXTS: Final = (
    "",
    "range",
    "operation",
    "kernel",
    "most of it in",
    "category",
    "library",
    "tensor",
    "on",
    "collective",
    "configuration",
    "claim",
    "verdict",
)
_GIVING_WAY: Final = ("", "range", "operation", "kernel", "most of it in", "configuration", "claim")
_NOISE: Final = re.compile(
    r"^void |cutlass::Kernel2<|cudnn::engines_precompiled::|at::(native|cuda)::|(\(anonymous "
    r"namespace\)|<unnamed>)::"
)


def card(analysed: Sequence[AnalysedTrace]) -> RenderableType:
    """All of what is printed: of several ranks first what they exchange, then the first rank whole,
    the others in brief.
    """
    parts: list[RenderableType] = []
    if len(analysed) > 1 and (exchanged := rank_summary(analysed)) is not None:
        parts.append(exchanged)
    for label, each in zip(labels(analysed), analysed, strict=True):
        if len(analysed) > 1:
            parts.append(Rule(one_line(label), style="dim"))
        parts.append(summary(each, whole=each is analysed[0]))
    return Group(*parts)


def one_line(name: Path | str) -> str:
    """A name as it can be printed on one line."""
    return clean(str(name), keep="")


def heading(analysed: AnalysedTrace) -> list[Text]:
    """The lines that say what a trace is, and how long a step took."""
    device = (
        f"{analysed.device_name} ({analysed.device})" if analysed.device_name else analysed.device
    )
    parts = [steps_of(analysed), device or "no work on an accelerator"]
    if analysed.rank is not None:
        parts.append(f"rank {analysed.rank} of {analysed.exchange.ranks or '?'}")
    return [
        Text(one_line(analysed.path), style="bold"),
        Text(", ".join(parts)),
        _step_time(analysed),
    ]


def summary(analysed: AnalysedTrace, *, whole: bool = True) -> RenderableType:
    """The summary of one trace, or where it is not to be the whole, its heading, quality and
    advice.
    """
    lines = [
        Text.assemble(("failed ", "bold red"), f"{row['check']}: {row['text']}")
        for row in analysed.gate.failed
    ]
    sections = [
        *(_sections(analysed) if whole else ()),
        (
            _titled(
                "Quality", *(lines or [Text(f"all {len(analysed.rows[QUALITY])} checks passed")])
            )
        ),
        _advice(analysed),
    ]
    return Group(
        Group(*heading(analysed)),
        *(Padding(section, (1, 0, 0, 0)) for section in sections),
    )


def _sections(analysed: AnalysedTrace) -> Iterator[RenderableType]:
    yield _breakdown(analysed)
    if analysed.device:
        yield _operations(
            analysed, analysed.device, f"Operations by time on {analysed.device}, per step"
        )
    yield _operations(analysed, HOST, "Operations by own time on the host, per step")
    if analysed.rows.get(KERNELS):
        cells = {
            "kernel": lambda row: fitted(_NOISE.sub("", row["name"])),
            "library": lambda row: row["library"],
            "tensor": lambda row: row["tensor_cores"],
        }
        yield _longest(
            analysed,
            KERNELS,
            "Kernels, copies and memsets, per step",
            cells,
            time="total_ms",
            part="share",
        )
    if analysed.rows.get(RANGES):
        cells = {"range": lambda row: fitted(row["name"])}
        on_device = "device" if analysed.device else "host"
        title = f"Your ranges by time on {analysed.device or 'the host'}, per step"
        time, part = f"{on_device}_ms", f"{on_device}_share"
        yield _longest(analysed, RANGES, title, cells, time=time, part=part, most=3)
    if analysed.rows.get(IDLE):
        yield _idle(analysed)
    if analysed.rows.get(MEMORY):
        rows = analysed.rows[MEMORY]
        peaks = [
            (device, *(_peak(rows, device, each) for each in ("allocated_mib", "reserved_mib")))
            for device in dict.fromkeys(row["device"] for row in rows)
        ]
        yield _titled(
            "Peak memory",
            text_table("", "given to tensors", "taken from the device", rows=peaks),
        )


def _why_not_shown(analysed: AnalysedTrace, table: Table, *columns: str, on: str = "") -> str:
    found = analysed.gate.reasons(table, *columns, on=on)
    return f"{NOT_RELIABLE}: {'; '.join(found)}" if found else ""


def steps_of(analysed: AnalysedTrace) -> str:
    """How many steps are in the trace, in words."""
    if not analysed.has_steps:
        return "no steps marked: the whole recording counts as one"
    return counted(len(analysed.exchange.steps), "step")


def _step_time(analysed: AnalysedTrace) -> Text:
    wall_of = {row["step"]: row["wall_ms"] for row in analysed.gate.rows(STEPS, "wall_ms")}
    walls = [wall_ms / 1e3 for wall_ms in wall_of.values()]
    if not walls:
        return Text(f"step time {_why_not_shown(analysed, STEPS, 'wall_ms')}")
    mean = sum(walls) / len(walls)
    text = f"step time {duration(mean).plain()}" + (
        f", {duration(min(walls)).plain()} to {duration(max(walls)).plain()}"
        if len(walls) > 1
        else ""
    )
    busy_ms: Counter[str] = Counter()
    rows = [row for row in analysed.gate.rows(DEVICES) if row["step"] in wall_of]
    for row in rows:
        busy_ms[row["device"]] += row["busy_ms"]
    wall_ms = sum(wall_of[step] for step in {row["step"] for row in rows})
    for device, time_ms in busy_ms.items():
        name, part = device if len(busy_ms) > 1 else analysed.device, time_ms / wall_ms
        text += f"; {name} busy {share(part).plain()}, idle {share(1 - part).plain()}"
    if not rows and analysed.device:
        text += (
            f"; {analysed.device} busy: "
            f"{_why_not_shown(analysed, DEVICES, 'busy_ms') or 'not recorded'}"
        )
    return Text(text)


def _breakdown(analysed: AnalysedTrace) -> RenderableType:
    rows = analysed.gate.rows(STEPS, "wall_ms", *PARTS_OF_STEP)
    title, refusal = (
        "Where a profiled step's time went (each moment counts once)",
        _why_not_shown(analysed, STEPS, "wall_ms", *PARTS_OF_STEP),
    )
    if not rows:
        return _refused(title, refusal)
    wall_ms = sum(row["wall_ms"] for row in rows)
    spent_ms = {meaning: _sum(rows, column) for column, meaning in PARTS_OF_STEP.items()}
    cells = [
        (
            meaning,
            _milliseconds(time_ms / len(rows)),
            share(time_ms / wall_ms).plain(),
            "█" * round(time_ms / wall_ms * 24),
        )
        for meaning, time_ms in spent_ms.items()
        if time_ms
    ]
    left_out = len(analysed.rows[STEPS]) - len(rows)
    note = [Text(f"{left_out} steps left out, {refusal}")] if left_out else []
    return _titled(title, text_table("", "a step", "share", "", rows=cells), *note)


def _operations(analysed: AnalysedTrace, device: str, title: str) -> RenderableType:
    cells = {"operation": lambda row: fitted(row["name"]), "category": lambda row: row["category"]}
    return _longest(
        analysed, OPERATIONS, title, cells, time="self_ms", part="self_share", on=device
    )


def _longest(
    analysed: AnalysedTrace,
    table: Table,
    title: str,
    cells: Mapping[str, Callable[[Row], Text | str]],
    *,
    time: str,
    part: str,
    on: str = "",
    most: int = TOP,
) -> RenderableType:
    """The first rows of a table in its order of time; `cells` identify a row; `time` and `part` are
    columns.
    """
    refusal = _why_not_shown(analysed, table, time, part, "calls", on=on)
    if refusal:
        return _refused(title, refusal)
    of_device = [row for row in analysed.rows[table] if not on or row["device"] == on]
    rows, steps = [row for row in of_device if row[time]], len(analysed.exchange.steps)
    shown_rows = [
        (
            *(cell(row) for cell in cells.values()),
            _milliseconds(row[time] / steps),
            _cell(row[part], share),
            rate(row["calls"] / steps),
        )
        for row in rows[:most]
    ]
    more = [Text(f"and {len(rows) - most} more", style="dim")] if len(rows) > most else []
    return _titled(title, text_table(*cells, "time", "share", "calls", rows=shown_rows), *more)


def _idle(analysed: AnalysedTrace) -> RenderableType:
    title, refusal = (
        "Why the accelerator was idle",
        _why_not_shown(analysed, IDLE, "cause", "total_ms", "share"),
    )
    if refusal:
        return _refused(title, refusal)
    rows = analysed.rows[IDLE]
    causes = {
        row["cause"]: [each for each in rows if each["cause"] == row["cause"]] for row in rows
    }
    cells = [
        (
            cause,
            fitted(max(members, key=lambda row: row["total_ms"])["operation"] or "(no operation)"),
            _milliseconds(_sum(members, "total_ms") / len(analysed.exchange.steps)),
            _cell(_sum(members, "share"), share),
            duration(max(row["longest_us"] for row in members) / 1e6).plain(),
        )
        for cause, members in sorted(
            causes.items(), key=lambda pair: (-_sum(pair[1], "total_ms"), pair[0])
        )
    ]
    return _titled(
        title,
        text_table("", "most of it in", "a step", "of the time", "longest", rows=cells),
    )


def _peak(rows: Sequence[Row], device: str, column: str) -> str:
    numbers = (row[column] for row in rows if row["device"] == device)
    known = [number for number in numbers if number is not None and number == number]
    return size(max(known) * BYTES_PER_MIB).plain() if known else "not recorded"


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


def text_table(*columns: str, rows: Iterable[Iterable[RenderableType]] = ()) -> TextTable:
    """Text is aligned left, numbers right; what `fitted` made is cut where the width is short."""
    table = TextTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column,
            justify="left" if column in _TEXTS else "right",
            no_wrap=column not in _GIVING_WAY,
        )
    for row in rows:
        table.add_row(*row)
    return table


def fitted(name: str) -> Text:
    """A name in one line, cut where the terminal is too narrow for it."""
    return Text(name, no_wrap=True, overflow="ellipsis")


def _titled(title: str, *content: RenderableType) -> RenderableType:
    return Group(Text(title, style="bold"), *content)


def _refused(title: str, refusal: str) -> RenderableType:
    return _titled(title, Text(refusal, style="yellow"))


def rate(calls: float) -> str:
    """Calls per step, which need be no whole number."""
    return count(calls).plain() if calls >= 100 or calls == int(calls) else f"{calls:.3g}"


def _sum(rows: Iterable[Row], column: str) -> float:
    return float(sum(row[column] or 0.0 for row in rows))


def rank_summary(analysed: Sequence[AnalysedTrace]) -> RenderableType | None:
    """None where the ranks exchanged nothing, or a trace does not name its rank."""
    rows = [row for each in analysed for row in each.rows[RANKS]]
    if not rows:
        return None
    if any(each.gate.reasons(table) for each in analysed for table in (RANKS, COLLECTIVES)):
        return Text(f"what the ranks exchanged: {NOT_RELIABLE}", style="yellow")
    # A column without any number is left out: older versions of PyTorch, and gloo, do not write the
    # bytes.
    found = median_collectives([row for each in analysed for row in each.rows[COLLECTIVES]])
    longest = sorted(found, key=lambda row: -row["longest_ms"])[:12]
    shown = [row for row in found if row in longest]
    columns = {
        "collective": [row["operation"] for row in shown],
        "size": [_cell(row["bytes"], size) for row in shown],
        "begin": [_milliseconds(row["begin_after_backward_ms"]) for row in shown],
        "transfer": [_milliseconds(row["transfer_ms"]) for row in shown],
        "bus bandwidth": [
            _cell(row["bus_bandwidth_gb_per_s"], lambda rate: quantity(rate, "GB/s"))
            for row in shown
        ],
        "exposed": [_milliseconds(row["exposed_ms"]) for row in shown],
        "with waits": [_milliseconds(row["longest_ms"]) for row in shown],
    }
    known = {name: cells for name, cells in columns.items() if any(cells)}
    times = ("wall_ms", "compute_ms", "communication_ms", "hidden_ms", "exposed_ms")
    of_ranks = [
        (
            f"rank{row['rank']}",
            *(_milliseconds(row[time]) for time in times),
            _cell(row["wait_share"], share),
        )
        for row in median_ranks(rows)
    ]
    left_out = len(found) - len(shown)
    return Group(
        Text("A step of each rank (medians)", style="bold"),
        text_table(
            "",
            "step time",
            "compute",
            "communication",
            "hidden",
            "exposed",
            "waits for others",
            rows=of_ranks,
        ),
        Text(_who_waits(rows)),
        "",
        Text("Collectives of a step (medians), on the rank that waited least", style="bold"),
        Text("begin counts from the end of the backward pass", style="dim"),
        text_table(*known, rows=zip(*known.values(), strict=True)),
        *([Text(f"and {left_out} shorter ones", style="dim")] if left_out else []),
    )


def _who_waits(rows: Sequence[dict[str, Any]]) -> str:
    found = most_awaited(rows)
    if found is None:
        return (
            "Who waits for whom is not known: the ranks' collectives do not match, or a rank has "
            "no trace."
        )
    (rank, waited), steps = found, len({row["step"] for row in rows})
    if steps < LEAST_STEPS:
        return (
            f"A slow rank can be named from {LEAST_STEPS} profiled steps on; this run has "
            f"{counted(steps, 'step')}."
        )
    slow = f"Rank {rank}" if rank == slow_rank(rows) else "No rank"
    return (
        f"{slow} is slow: in the median of {steps} steps the others wait {share(waited).plain()} "
        f"of the step longer than rank {rank} (the threshold is {share(SLOW_FROM).plain()})."
    )


def _milliseconds(time_ms: float) -> str:
    return _cell(time_ms, lambda time_ms: duration(time_ms / 1e3))


def _cell(value: float | None, show: Callable[[float], Quantity]) -> str:
    """Empty where the number is missing."""
    return "" if value is None or math.isnan(value) else show(value).plain()
