"""Throughput against memory: what each optimization takes from one and gives to the other.

experiment table -> panels (what the variants share) -> points (optimization)
"""

from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures import labels, style
from gpu_report.glossary import MEMORY, THROUGHPUT

_PANEL_HEIGHT_IN: Final = 2.0
_LEGEND_ROW_IN: Final = 0.17
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p", "d")
_GIB: Final = 1024


def draw_trade_off(frame: pd.DataFrame) -> Figure:
    """Draw every variant by its peak memory and throughput; the columns `heading` and `label` are those of the rows."""
    panels = [panel for _, panel in frame.groupby("heading", sort=False)]
    rows = max(len(panel) for panel in panels)
    figure = style.new_figure(height_in=len(panels) * max(_PANEL_HEIGHT_IN, rows * _LEGEND_ROW_IN + 0.6))
    grid = figure.subplots(len(panels), 1, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=True):
        style.set_panel_title(axes, panel["heading"].iloc[0], columns=1)
        _draw_panel(axes, panel)
        axes.set_ylabel(THROUGHPUT.axis_label)
    grid.flat[-1].set_xlabel(MEMORY.axis_label.replace("MiB", "GiB"))
    return figure


def _draw_panel(axes: Axes, panel: pd.DataFrame) -> None:
    memory, speed = MEMORY.intervals(panel)[["value", "low", "high"]] / _GIB, THROUGHPUT.intervals(panel)
    style.set_scale(axes, "x", [*memory["low"].dropna(), *memory["high"].dropna()])
    style.set_scale(axes, "y", [*speed["low"].dropna(), *speed["high"].dropna()])
    handles = []
    for position in range(len(panel)):
        row = panel.iloc[position]
        look: dict[str, Any] = {
            "color": style.PALETTE[position % len(style.PALETTE)],
            "marker": _MARKERS[position % len(_MARKERS)],
            "markeredgecolor": style.INK,
            "markeredgewidth": 0.5,
            "markersize": 6,
            "linestyle": "none",
        }
        if row["is_baseline"]:
            _draw_cross_hair(axes, memory.iloc[position], speed.iloc[position])
        if labels.doubts([row["marks"]]):
            look["markerfacecolor"] = "white"
        handles.append(_draw_point(axes, row, memory.iloc[position], speed.iloc[position], look))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0)


def _draw_cross_hair(axes: Axes, memory: "pd.Series[float]", speed: "pd.Series[float]") -> None:
    for draw_line, value in ((axes.axvline, memory["value"]), (axes.axhline, speed["value"])):
        if pd.notna(value):
            draw_line(value, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)


def _draw_point(
    axes: Axes, row: "pd.Series[Any]", memory: "pd.Series[float]", speed: "pd.Series[Any]", look: dict[str, Any]
) -> Line2D:
    if not np.isfinite([memory["value"], speed["value"]]).all():
        gap: dict[str, Any] = {"color": style.QUIET, "marker": "x", "linestyle": "none"}
        return Line2D([], [], label=f"{row['label']}: {labels.status_text(row)}", **gap)
    axes.errorbar(
        memory["value"],
        speed["value"],
        xerr=[[memory["value"] - memory["low"]], [memory["high"] - memory["value"]]],
        yerr=[[speed["value"] - speed["low"]], [speed["high"] - speed["value"]]],
        elinewidth=0.8,
        **look,
    )
    return Line2D([], [], label=row["label"], **look)
