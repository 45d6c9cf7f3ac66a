"""What `gpu-report trace` prints of a folder of ranks first: each rank's step, who waits, and the
collectives.

AnalysedTrace of each rank -> rows of RANKS and COLLECTIVES -> medians over the steps -> tables and
a sentence
"""

import math
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table as TextTable
from rich.text import Text

from gpu_report.commands.trace_summary import text_table
from gpu_report.printing.number_format import Quantity, counted, duration, quantity, share, size
from gpu_report.traces.analysis import AnalysedTrace
from gpu_report.traces.grouping import Row
from gpu_report.traces.quality import NOT_RELIABLE
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

_MOST_SHOWN = 12


def rank_summary(analysed: Sequence[AnalysedTrace]) -> RenderableType | None:
    """None where the ranks exchanged nothing, or a trace does not name its rank."""
    rows = [row for each in analysed for row in each.rows[RANKS]]
    if not rows:
        return None
    if any(each.gate.reasons(table) for each in analysed for table in (RANKS, COLLECTIVES)):
        return Text(f"what the ranks exchanged: {NOT_RELIABLE}", style="yellow")
    return Group(
        Text("A step of each rank (medians)", style="bold"),
        _ranks(rows),
        Text(_who_waits(rows)),
        "",
        Text("Collectives of a step (medians), on the rank that waited least", style="bold"),
        Text("begin counts from the end of the backward pass", style="dim"),
        *_collectives([row for each in analysed for row in each.rows[COLLECTIVES]]),
    )


def _ranks(rows: Sequence[Row]) -> TextTable:
    table = text_table(
        "", "step time", "compute", "communication", "hidden", "exposed", "waits for others"
    )
    for row in median_ranks(rows):
        times = (
            row[f"{name}_ms"] for name in ("wall", "compute", "communication", "hidden", "exposed")
        )
        table.add_row(
            f"rank{row['rank']}", *map(_milliseconds, times), _cell(row["wait_share"], share)
        )
    return table


def _who_waits(rows: Sequence[Row]) -> str:
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


def _collectives(rows: Sequence[Row]) -> list[RenderableType]:
    """A column without any number is left out: older versions of PyTorch, and gloo, do not write
    the bytes.
    """
    found = median_collectives(rows)
    longest = sorted(found, key=lambda row: -row["longest_ms"])[:_MOST_SHOWN]
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
    table = text_table(*known)
    for cells in zip(*known.values(), strict=True):
        table.add_row(*cells)
    left_out = len(found) - len(shown)
    return [table, *([Text(f"and {left_out} shorter ones", style="dim")] if left_out else [])]


def _milliseconds(time_ms: float) -> str:
    return _cell(time_ms, lambda time_ms: duration(time_ms / 1e3))


def _cell(value: float | None, show: Callable[[float], Quantity]) -> str:
    """Empty where the number is missing."""
    return "" if value is None or math.isnan(value) else show(value).plain()
