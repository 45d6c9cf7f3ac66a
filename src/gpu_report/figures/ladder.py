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
from gpu_report.figures.rows import Entry, new_rows, place_rows
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


def ladder_figure(frame: pd.DataFrame) -> Figure:
    """Draw each step's speedup over the eager baseline; the table has the column `heading` of `with_row_labels`."""
    figure, axes = new_rows(_entries(_steps_by_heading(frame)), legend_rows=1)
    draw_ladder(axes, frame)
    figure.legend(
        handles=[*ladder_handles(), *hollow_handles(frame.loc[frame[SPEEDUP.column].notna(), "marks"])],
        loc="outside upper left",
        ncols=3,
        borderaxespad=0.2,
    )
    return figure


def draw_ladder(axes: Axes, frame: pd.DataFrame, *, with_numbers: bool = True) -> None:
    """Draw the steps of each heading's ladder on the axes, as in `ladder_figure` but without a legend.

    `with_numbers` writes the speedups and the break-even steps in columns at the right.
    """
    numbers = SPEEDUP.intervals(frame)
    frame = frame.assign(**numbers)
    steps = _steps_by_heading(frame)
    positions = iter(place_rows(axes, _entries(steps)))
    drawn = numbers.dropna()
    style.set_scale(axes, "x", [1.0, *drawn["low"], *drawn["high"]])
    axes.axvline(1, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    for heading, group in frame.groupby("heading", sort=False):
        rows = dict(zip(group["optimization"], (row for _, row in group.iterrows()), strict=True))
        own = steps[str(heading)]
        _draw_group(axes, rows, own, [next(positions) for _ in own], with_numbers=with_numbers)
    axes.set_xlabel("Speedup over the eager baseline")
    if with_numbers:
        _head_columns(axes, pays=bool(frame["break_even_steps"].notna().any()))


def ladder_handles() -> list[Line2D]:
    """What the two points of a step are, for a legend."""
    return [
        Line2D([], [], linestyle="none", label="individual", **_INDIVIDUAL),
        Line2D([], [], label="cumulative: with the steps above that it does not make redundant", **_CUMULATIVE),
    ]


def _steps_by_heading(frame: pd.DataFrame) -> dict[str, list[LadderStep]]:
    return {
        str(heading): ladder_steps_of(list(group["optimization"]))
        for heading, group in frame.groupby("heading", sort=False)
    }


def _entries(steps: Mapping[str, list[LadderStep]]) -> list[Entry]:
    return [Entry(heading=heading, label=step.title) for heading, found in steps.items() for step in found]


def _draw_group(
    axes: Axes,
    rows: "Mapping[str, pd.Series[Any]]",
    steps: list[LadderStep],
    positions: list[float],
    *,
    with_numbers: bool,
) -> None:
    cumulative: list[tuple[float, float]] = []
    for step, position in zip(steps, positions, strict=True):
        if step.individual in rows:
            _draw_point(axes, rows[step.individual], position - _OFFSET, _INDIVIDUAL)
            if with_numbers:
                _write(axes, 0, position, rows[step.individual])
        if step.cumulative in rows:
            row = rows[step.cumulative]
            _draw_point(axes, row, position + _OFFSET, _CUMULATIVE)
            if with_numbers:
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


def _head_columns(axes: Axes, *, pays: bool) -> None:
    for column, heading in enumerate(_COLUMN_HEADINGS[: 3 if pays else 2]):
        axes.annotate(
            heading,
            (1, 1),
            xycoords="axes fraction",
            xytext=(_COLUMNS_PT[column], 3),
            textcoords="offset points",
            fontsize=style.SMALL_FONT_SIZE_PT,
            color=style.QUIET,
        )
