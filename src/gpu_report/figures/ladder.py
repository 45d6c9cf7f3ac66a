"""What each rung of a ladder of optimizations brings, alone and on top of those below it.

experiment table -> groups (what the variants share) -> a line per rung: two points, alone and climbed
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures import labels, style
from gpu_report.figures.curves import hollow_handles
from gpu_report.figures.metrics import SPEEDUP
from gpu_report.figures.rows import Entry, RowFigure, lay_out_rows
from gpu_report.figures.rungs import Rung, rungs_of
from gpu_report.number_format import count

_ALONE: Final[dict[str, Any]] = {"color": style.VERMILLION, "marker": "D"}
_CLIMBED: Final[dict[str, Any]] = {"color": style.BLUE, "marker": "s"}
_OFFSET: Final = 0.16
"""How far, in lines, the point of a rung alone is above its row's middle, and the climbed one below."""
_COLUMNS_PT: Final = (8, 64, 116)
_COLUMN_HEADINGS: Final = ("alone", "climbed", "pays after")


def is_ladder(group: pd.DataFrame) -> bool:
    """Whether the optimizations of a group's variants make a ladder."""
    return bool(rungs_of(list(group["optimization"])))


def draw_ladder(frame: pd.DataFrame) -> Figure:
    """Draw the speedup over the plain loop of every rung; the table has the column `heading` of `with_row_labels`."""
    numbers = SPEEDUP.intervals(frame)
    frame = frame.assign(**numbers)
    groups = [group for _, group in frame.groupby("heading", sort=False)]
    rungs = {group["heading"].iloc[0]: rungs_of(list(group["optimization"])) for group in groups}
    entries = [Entry(heading=heading, label=rung.title) for heading, found in rungs.items() for rung in found]
    layout = lay_out_rows(entries, legend_rows=1)
    drawn = numbers.dropna()
    style.set_scale(layout.axes, "x", [1.0, *drawn["low"], *drawn["high"]])
    layout.axes.axvline(1, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    positions = iter(layout.positions)
    for group in groups:
        own = rungs[group["heading"].iloc[0]]
        rows = dict(zip(group["optimization"], (row for _, row in group.iterrows()), strict=True))
        _draw_group(layout.axes, rows, own, [next(positions) for _ in own])
    layout.axes.set_xlabel("Speedup over the plain loop")
    _head_columns(layout, pays=bool(frame["break_even_steps"].notna().any()))
    _explain(layout.figure, frame.loc[frame["value"].notna(), "marks"])
    return layout.figure


def _draw_group(axes: Axes, rows: "Mapping[str, pd.Series[Any]]", rungs: list[Rung], positions: list[float]) -> None:
    climbed: list[tuple[float, float]] = []
    for rung, position in zip(rungs, positions, strict=True):
        if rung.alone in rows:
            _draw_point(axes, rows[rung.alone], position - _OFFSET, _ALONE)
            _write(axes, 0, position, rows[rung.alone])
        if rung.climbed in rows:
            row = rows[rung.climbed]
            _draw_point(axes, row, position + _OFFSET, _CLIMBED)
            _write(axes, 1, position, row)
            _write_pay_off(axes, position, row)
            climbed.append((row["value"], position + _OFFSET))
    values, heights = zip(*climbed, strict=True) if climbed else ((), ())
    axes.plot(values, heights, color=_CLIMBED["color"], linewidth=0.8, zorder=1.5)


def _draw_point(axes: Axes, row: "pd.Series[Any]", position: float, look: dict[str, Any]) -> None:
    if pd.isna(row["value"]):
        return
    axes.errorbar(
        row["value"],
        position,
        xerr=[[row["value"] - row["low"]], [row["high"] - row["value"]]],
        markersize=3.8,
        elinewidth=0.8,
        markerfacecolor="white" if labels.doubts([row["marks"]]) else look["color"],
        **look,
    )


def _write(axes: Axes, column: int, position: float, row: "pd.Series[Any]") -> None:
    missing = pd.isna(row["value"])
    text = labels.status_text(row) if missing else SPEEDUP.written(row["speedup"]).plain(unit=False)
    _write_cell(axes, column, position, text, color=style.QUIET if missing else style.INK)


def _write_pay_off(axes: Axes, position: float, row: "pd.Series[Any]") -> None:
    if pd.notna(row["break_even_steps"]):
        _write_cell(axes, 2, position, f"{count(math.ceil(row['break_even_steps'])).plain()} steps", color=style.INK)


def _write_cell(axes: Axes, column: int, position: float, text: str, *, color: str) -> None:
    axes.annotate(
        text,
        (1, position),
        xycoords=axes.get_yaxis_transform(),
        xytext=(_COLUMNS_PT[column], 0),
        textcoords="offset points",
        va="center",
        fontsize=style.SMALL_FONT_SIZE_PT,
        color=color,
        annotation_clip=False,
    )


def _head_columns(layout: RowFigure, *, pays: bool) -> None:
    for column, heading in enumerate(_COLUMN_HEADINGS[: 3 if pays else 2]):
        layout.axes.annotate(
            heading,
            (1, 1),
            xycoords="axes fraction",
            xytext=(_COLUMNS_PT[column], 3),
            textcoords="offset points",
            fontsize=style.SMALL_FONT_SIZE_PT,
            color=style.QUIET,
        )


def _explain(figure: Figure, marks: "pd.Series[str]") -> None:
    handles = [
        Line2D([], [], linestyle="none", label="alone", **_ALONE),
        Line2D([], [], label="climbed: with the rungs above that it leaves work to do", **_CLIMBED),
        *hollow_handles(marks),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, borderaxespad=0.2)
