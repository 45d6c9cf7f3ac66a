"""From which batch size on the accelerator wins: its speedup over the baseline against the batch size.

experiment table, crossovers -> panels (what the variants share) -> lines (device), the crossover shaded
"""

import math
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.curves import add_legend, draw_gaps, draw_line, scale_measured_values
from gpu_report.glossary import SPEEDUP
from gpu_report.number_format import quantity

_PANEL_HEIGHT_IN: Final = 2.0
_LEGEND_HEIGHT_IN: Final = 0.3
_MOST_COLUMNS: Final = 2
_VERDICTS: Final = {
    "accelerator always": "faster at every size",
    "cpu always": "slower at every size",
    "unclear": "no clear crossover",
}


def draw_crossover(frame: pd.DataFrame, crossovers: pd.DataFrame, *, baseline: str) -> Figure:
    """Draw the speedup of the accelerators; the table has `panel` of `with_panels` along the batch size."""
    panels = list(frame.groupby("panel", sort=False))
    columns = min(len(panels), _MOST_COLUMNS)
    devices = list(dict.fromkeys(frame["device"]))
    rows = math.ceil(len(panels) / columns)
    figure = style.new_figure(height_in=rows * _PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    for position, (title, panel) in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, columns, position)
        style.set_panel_title(axes, str(title), columns=columns)
        _draw_panel(axes, panel, crossovers, devices=devices, baseline=baseline)
        scale_measured_values(axes, sorted(set(panel["batch_size"].astype(float))), columns=columns)
    figure.supxlabel(labels.AXIS_LABELS["batch_size"], fontsize=style.FONT_SIZE_PT)
    figure.supylabel(SPEEDUP.named(baseline=baseline).axis_label, fontsize=style.FONT_SIZE_PT)
    add_legend(figure, devices if len(devices) > 1 else [], marks=frame.loc[frame["speedup"].notna(), "marks"])
    return figure


def _draw_panel(
    axes: Axes, panel: pd.DataFrame, crossovers: pd.DataFrame, *, devices: list[str], baseline: str
) -> None:
    numbers = SPEEDUP.intervals(panel)
    style.set_scale(axes, "y", [1.0, *numbers["low"].dropna(), *numbers["high"].dropna()])
    axes.axhline(1, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    _write(axes, (1, 1), f"as fast as {baseline}", place="right")
    for device, rows in panel.assign(**numbers).groupby("device", sort=False):
        look = style.device_look(str(device), ["cpu", *devices])
        draw_line(axes, rows.sort_values("batch_size"), axis="batch_size", look=look)
        found = crossovers[(crossovers["device"] == device) & (crossovers["workload"] == rows["workload"].iloc[0])]
        for _, crossover in found[[_belongs(row, panel) for _, row in found.iterrows()]].iterrows():
            _shade(axes, crossover, color=look[0])
    draw_gaps(axes, panel[numbers["value"].isna()], axis="batch_size", name_device=True)


def _belongs(crossover: "pd.Series[Any]", panel: pd.DataFrame) -> bool:
    """Whether a crossover is of this panel: the panel's groups hold its words, and the words of a device or batch."""
    return all(set(str(crossover["group"]).split()) <= set(group.split()) for group in panel["group"])


def _shade(axes: Axes, crossover: "pd.Series[Any]", *, color: str) -> None:
    if crossover["verdict"] in _VERDICTS:
        _write(axes, (0.02, 0.97), _VERDICTS[crossover["verdict"]], place="corner")
        return
    value, low, high = (crossover[f"batch_size{end}"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return
    if pd.notna(low) and pd.notna(high):
        axes.axvspan(low, high, color=color, alpha=0.2, linewidth=0)
    axes.axvline(value, color=color, linestyle=":", linewidth=1.0)
    _write(axes, (0.02, 0.97), f"crosses at {quantity(value, low=low, high=high).plain()}", place="corner")


def _write(axes: Axes, point: tuple[float, float], text: str, *, place: str) -> None:
    corner = place == "corner"
    axes.annotate(
        text,
        point,
        xycoords="axes fraction" if corner else ("axes fraction", "data"),
        xytext=(0, 0) if corner else (-2, 2),
        textcoords="offset points",
        ha="left" if corner else "right",
        va="top" if corner else "bottom",
        fontsize=style.TINY_FONT_SIZE_PT,
        color=style.INK if corner else style.QUIET,
    )
