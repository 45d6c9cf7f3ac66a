"""What a pass of a workload's own loop takes: beside its floor by loop, and by the number of points.

experiment table, own_loops -> rows (loop), the floor as a stroke; panels (device) -> lines (loop) along the points
"""

import math
from itertools import cycle
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gpu_report.figures import labels, style
from gpu_report.figures.curves import draw_gaps, draw_line, hollow_handles
from gpu_report.figures.rows import draw_points, lay_out_rows, row_entry
from gpu_report.glossary import PASS
from gpu_report.tables.bundle import Tables

_OF_LOOPS: Final = ("pass_us", "pass_us_low", "pass_us_high", "pass_us_count", "floor_us", "reading_us", "points")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_PANEL_HEIGHT_IN: Final = 2.3
_ROOM: Final = 2.0
"""Above and below the measured values, as a factor."""
_LEGEND_ROW_IN: Final = 0.2
_LEGEND_COLUMNS: Final = 3
_FLOOR: Final[dict[str, Any]] = {"linestyle": "none", "marker": "|", "markersize": 9, "color": style.VERMILLION}
_READING: Final[dict[str, Any]] = {"color": style.QUIET, "linestyle": "--", "linewidth": 0.8}


def with_passes(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The variants with what the table of loops says of a pass; without any of them there, no rows."""
    found = tables.own_loops.loc[tables.own_loops["variant"].isin(rows["variant"]), ["variant", *_OF_LOOPS]]
    return rows.iloc[:0] if found.empty else rows.merge(found, on="variant", how="left")


def draw_floors(frame: pd.DataFrame) -> Figure:
    """Draw the time of a pass of every loop and its floor; the columns `heading` and `label` are those of the rows."""
    numbers = PASS.intervals(frame)
    entries = [row_entry(row) for _, row in pd.concat([frame, numbers], axis="columns").iterrows()]
    layout = lay_out_rows(entries, text_heading=PASS.text_heading(frame), legend_rows=1)
    drawn = numbers.dropna()
    style.set_scale(layout.axes, "x", [*drawn["low"], *drawn["high"], *frame["floor_us"].dropna()])
    layout.axes.plot(frame["floor_us"], layout.positions, markeredgewidth=1.6, **_FLOOR)
    draw_points(layout.axes, frame.assign(**numbers), layout.positions)
    layout.axes.set_xlabel(PASS.axis_label)
    handles = [
        Line2D([], [], linestyle="none", marker="s", color=style.INK, label="a pass"),
        *_known(frame["floor_us"], Line2D([], [], markeredgewidth=1.6, label="its floor", **_FLOOR)),
        *hollow_handles(frame.loc[numbers["value"].notna(), "marks"]),
    ]
    layout.figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), borderaxespad=0.2)
    return layout.figure


def draw_passes(frame: pd.DataFrame) -> Figure:
    """Draw the time of a pass along the points, a panel for each device and a line for each loop."""
    frame = frame.assign(**PASS.intervals(frame))
    devices, loops = (list(dict.fromkeys(frame[column])) for column in ("device", "optimization"))
    looks = dict(zip(loops, zip(cycle(style.PALETTE), cycle(_MARKERS), strict=False), strict=False))
    reading = Line2D([], [], label="reading the points once", **_READING)
    doubted = hollow_handles(frame.loc[frame["value"].notna(), "marks"])
    handles = [*_handles(looks), *_known(frame["reading_us"], reading), *doubted]
    legend_rows = math.ceil(len(handles) / _LEGEND_COLUMNS)
    figure = style.new_figure(height_in=_PANEL_HEIGHT_IN + legend_rows * _LEGEND_ROW_IN)
    grid = figure.subplots(1, len(devices), squeeze=False, sharex=True, sharey=True)
    for axes, device in zip(grid.flat, devices, strict=True):
        style.set_panel_title(axes, labels.device_label(device), columns=len(devices))
        _draw_panel(axes, frame[frame["device"] == device], looks)
    _scale(grid.flat[0], frame)
    grid.flat[0].set_ylabel(PASS.axis_label)
    figure.supxlabel("Points", fontsize=style.FONT_SIZE_PT)
    figure.legend(handles=handles, loc="outside upper left", ncols=_LEGEND_COLUMNS, borderaxespad=0.2)
    return figure


def _draw_panel(axes: Axes, panel: pd.DataFrame, looks: dict[str, tuple[str, str]]) -> None:
    for loop, rows in panel.dropna(subset="value").groupby("optimization", sort=False):
        draw_line(axes, rows.sort_values("points"), axis="points", look=looks[str(loop)])
    draw_gaps(axes, panel[panel["value"].isna()], axis="batch_size", name_device=False)
    once = panel.dropna(subset="reading_us").drop_duplicates("points").sort_values("points")
    axes.plot(once["points"], once["reading_us"], zorder=1, **_READING)


def _scale(axes: Axes, frame: pd.DataFrame) -> None:
    """Both axes logarithmic, for the measured values; where the line of the reading is below them, it is cut off."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(frame["low"].min() / _ROOM, frame["high"].max() * _ROOM)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=12))
        axis.set_major_formatter(FuncFormatter(style.tick_text))
        axis.set_minor_formatter(NullFormatter())


def _handles(looks: dict[str, tuple[str, str]]) -> list[Line2D]:
    return [
        Line2D([], [], color=color, marker=marker, label=labels.optimization_label(loop))
        for loop, (color, marker) in looks.items()
    ]


def _known(values: "pd.Series[float]", handle: Line2D) -> list[Line2D]:
    return [handle] if values.notna().any() else []
