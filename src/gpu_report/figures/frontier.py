"""The batch frontier: how the device's memory fills with the batch, up to what no longer fits, and what speed it buys.

experiment table -> rows of two panels (memory, throughput) -> lines (device), crosses where the memory ran out
"""

from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.curves import add_legend, draw_line, scale_measured_values
from gpu_report.glossary import MEMORY, THROUGHPUT
from gpu_report.number_format import memory

_PANEL_HEIGHT_IN: Final = 2.0
_LEGEND_HEIGHT_IN: Final = 0.3
_MIB_PER_GIB: Final = 1024
SHARE_OF_MEMORY: Final = 0.5
"""A batch that takes more than that of a device's memory is near enough to the frontier for a figure about it."""


def reaches_frontier(group: pd.DataFrame) -> bool:
    """Whether some batch of the group did not fit, or took over half of the device's memory."""
    out_of_memory = (group["status"] == "oom").any()
    return bool(out_of_memory or (group["memory_peak_mib"] > SHARE_OF_MEMORY * group["device_memory_mib"]).any())


def draw_frontier(frame: pd.DataFrame, *, axis: str) -> Figure:
    """Draw memory and throughput against the batch size; the table has the column `panel` of `with_panels`."""
    panels = list(frame.groupby("panel", sort=False))
    devices = list(dict.fromkeys(frame["device"]))
    figure = style.new_figure(height_in=len(panels) * _PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    grid = figure.subplots(len(panels), 2, squeeze=False)
    for (left, right), (title, panel) in zip(grid, panels, strict=True):
        style.set_panel_title(left, str(title), columns=2)
        _draw_memory(left, panel, axis=axis, devices=devices)
        _draw_throughput(right, panel, axis=axis, devices=devices)
        values = sorted(set(panel[axis].astype(float)))
        for axes in (left, right):
            _draw_crosses(axes, panel[panel["status"] == "oom"], axis=axis)
            scale_measured_values(axes, values, columns=2)
            axes.set_xlabel(labels.AXIS_LABELS.get(axis, axis))
    add_legend(figure, devices if len(devices) > 1 else [], marks=frame.loc[frame["memory_peak_mib"].notna(), "marks"])
    return figure


def _draw_memory(axes: Axes, panel: pd.DataFrame, *, axis: str, devices: list[str]) -> None:
    numbers = MEMORY.intervals(panel)[["value", "low", "high"]] / _MIB_PER_GIB
    sizes = panel["device_memory_mib"].dropna() / _MIB_PER_GIB
    drawn = [*numbers["low"].dropna(), *numbers["high"].dropna(), *sizes]
    style.set_scale(axes, "y", drawn)
    _make_room_for_crosses(axes, drawn)
    for device, rows in panel.assign(**numbers).groupby("device", sort=False):
        draw_line(axes, rows.sort_values(axis), axis=axis, look=style.device_look(str(device), devices))
    for device, size in sorted(set(zip(panel["device"], panel["device_memory_mib"], strict=True))):
        if pd.notna(size):
            _draw_size(axes, size, name=f"memory of {labels.device_label(device)}")
    axes.set_ylabel("Peak memory (GiB)")


def _make_room_for_crosses(axes: Axes, drawn: list[float]) -> None:
    """The topmost eighth stays free."""
    if not drawn:
        return
    bottom, top = axes.get_ylim()
    if axes.get_yscale() == "log":
        low, high = min(drawn) / 1.4, max(drawn)
        axes.set_ylim(low, max(top, low * (high / low) ** (8 / 7)))
    else:
        axes.set_ylim(bottom, max(top, bottom + (max(drawn) - bottom) * 8 / 7))


def _draw_size(axes: Axes, size_mib: float, *, name: str) -> None:
    axes.axhline(size_mib / _MIB_PER_GIB, color=style.INK, linestyle="--", linewidth=0.8)
    axes.annotate(
        f"{name}, {memory(size_mib, unit='GiB').plain()}",
        (0, size_mib / _MIB_PER_GIB),
        xycoords=("axes fraction", "data"),
        xytext=(3, -3),
        textcoords="offset points",
        va="top",
        fontsize=style.TINY_FONT_SIZE_PT,
        color=style.INK,
    )


def _draw_throughput(axes: Axes, panel: pd.DataFrame, *, axis: str, devices: list[str]) -> None:
    numbers = THROUGHPUT.intervals(panel)
    drawn = [*numbers["low"].dropna(), *numbers["high"].dropna()]
    style.set_scale(axes, "y", drawn)
    _make_room_for_crosses(axes, drawn)
    for device, rows in panel.assign(**numbers).groupby("device", sort=False):
        draw_line(axes, rows.sort_values(axis), axis=axis, look=style.device_look(str(device), devices))
    axes.set_ylabel(THROUGHPUT.axis_label)


def _draw_crosses(axes: Axes, missing: pd.DataFrame, *, axis: str) -> None:
    """A cross at the top for every batch that did not fit, named at the first."""
    if missing.empty:
        return
    axes.plot(
        missing[axis],
        [0.96] * len(missing),
        transform=axes.get_xaxis_transform(),
        marker="X",
        linestyle="none",
        color=style.VERMILLION,
        markersize=6,
        clip_on=False,
    )
    axes.annotate(
        labels.STATUS_WORDS["oom"],
        (float(missing[axis].min()), 0.96),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-6, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=style.TINY_FONT_SIZE_PT,
        color=style.VERMILLION,
    )
