"""What each step of an optimization ladder brings, individually and cumulatively.

experiment table -> groups (what the variants share) -> a line per step: two points, individual and cumulative
"""

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures import labels, style
from gpu_report.figures.curves import hollow_handles
from gpu_report.figures.ladder_steps import LadderStep, ladder_steps_of
from gpu_report.figures.rows import Entry, RowFigure, lay_out_rows
from gpu_report.glossary import SPEEDUP
from gpu_report.number_format import count

_INDIVIDUAL: Final[dict[str, Any]] = {"color": style.VERMILLION, "marker": "D"}
_CUMULATIVE: Final[dict[str, Any]] = {"color": style.BLUE, "marker": "s"}
_OFFSET: Final = 0.16
"""How far, in lines, the individual point is above its row's middle, and the cumulative one below."""
_COLUMNS_PT: Final = (8, 64, 116)
_COLUMN_HEADINGS: Final = ("individual", "cumulative", "break-even")


def is_ladder(group: pd.DataFrame) -> bool:
    """Whether the optimizations of a group's variants make a ladder."""
    return bool(ladder_steps_of(list(group["optimization"])))


def draw_ladder(frame: pd.DataFrame) -> Figure:
    """Draw each step's speedup over the eager baseline; the table has the column `heading` of `with_row_labels`."""
    numbers = SPEEDUP.intervals(frame)
    frame = frame.assign(**numbers)
    groups = [group for _, group in frame.groupby("heading", sort=False)]
    steps = {group["heading"].iloc[0]: ladder_steps_of(list(group["optimization"])) for group in groups}
    entries = [Entry(heading=heading, label=step.title) for heading, found in steps.items() for step in found]
    layout = lay_out_rows(entries, legend_rows=1)
    drawn = numbers.dropna()
    style.set_scale(layout.axes, "x", [1.0, *drawn["low"], *drawn["high"]])
    layout.axes.axvline(1, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    positions = iter(layout.positions)
    for group in groups:
        own = steps[group["heading"].iloc[0]]
        rows = dict(zip(group["optimization"], (row for _, row in group.iterrows()), strict=True))
        _draw_group(layout.axes, rows, own, [next(positions) for _ in own])
    layout.axes.set_xlabel("Speedup over the eager baseline")
    _head_columns(layout, pays=bool(frame["break_even_steps"].notna().any()))
    _explain(layout.figure, frame.loc[frame["value"].notna(), "marks"])
    return layout.figure


def _draw_group(
    axes: Axes, rows: "Mapping[str, pd.Series[Any]]", steps: list[LadderStep], positions: list[float]
) -> None:
    cumulative: list[tuple[float, float]] = []
    for step, position in zip(steps, positions, strict=True):
        if step.individual in rows:
            _draw_point(axes, rows[step.individual], position - _OFFSET, _INDIVIDUAL)
            _write(axes, 0, position, rows[step.individual])
        if step.cumulative in rows:
            row = rows[step.cumulative]
            _draw_point(axes, row, position + _OFFSET, _CUMULATIVE)
            _write(axes, 1, position, row)
            _write_pay_off(axes, position, row)
            cumulative.append((row["value"], position + _OFFSET))
    values, heights = zip(*cumulative, strict=True) if cumulative else ((), ())
    axes.plot(values, heights, color=_CUMULATIVE["color"], linewidth=0.8, zorder=1.5)


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
    text = labels.status_text(row) if missing else SPEEDUP.show(row["speedup"]).plain(unit=False)
    _write_cell(axes, column, position, text, color=style.QUIET if missing else style.INK)


def _write_pay_off(axes: Axes, position: float, row: "pd.Series[Any]") -> None:
    if pd.notna(row["break_even_steps"]):
        _write_cell(axes, 2, position, f"{count(row['break_even_steps']).plain()} steps", color=style.INK)


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
        Line2D([], [], linestyle="none", label="individual", **_INDIVIDUAL),
        Line2D([], [], label="cumulative: with the steps above that it does not make redundant", **_CUMULATIVE),
        *hollow_handles(marks),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, borderaxespad=0.2)
