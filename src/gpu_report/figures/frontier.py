"""The batch frontier: how the device's memory fills with the batch, up to what no longer fits, and what speed it buys.

experiment table -> rows of two panels (memory, throughput) -> lines (device), crosses where the memory ran out
"""

from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.alt_text import extremes_of
from gpu_report.figures.curves import add_legend, draw_lines, scale_measured_values
from gpu_report.figures.declaration import Shown, VariantFigure, groups_where, high_panels, panel_groups
from gpu_report.glossary import MEMORY, THROUGHPUT
from gpu_report.number_format import memory

_PANEL_HEIGHT_IN: Final = 2.0
_LEGEND_HEIGHT_IN: Final = 0.3
_MIB_PER_GIB: Final = 1024
_SHARE_OF_MEMORY: Final = 0.5
"""A batch that takes more than that of a device's memory is near enough to the frontier for a figure about it."""


def reaches_frontier(group: pd.DataFrame) -> bool:
    """Whether some batch of the group did not fit, or took over half of the device's memory."""
    out_of_memory = (group["status"] == "oom").any()
    return bool(out_of_memory or (group["memory_peak_mib"] > _SHARE_OF_MEMORY * group["device_memory_mib"]).any())


def _at_the_frontier(shown: Shown) -> pd.DataFrame:
    return groups_where(reaches_frontier, shown.rows)


def frontier_figure(shown: Shown) -> Figure:
    """Draw memory and throughput along the batch size."""
    rows, axis = shown.rows, shown.subject.axis
    panels, devices = list(rows.groupby("panel", sort=False)), list(dict.fromkeys(rows["device"]))
    figure = style.new_figure(height_in=len(panels) * _PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    grid = figure.subplots(len(panels), 2, squeeze=False)
    for pair, (title, panel) in zip(grid, panels, strict=True):
        left, right = pair
        style.set_panel_title(left, str(title), columns=2)
        memory_gib = MEMORY.intervals(panel)[["value", "low", "high"]] / _MIB_PER_GIB
        sizes_gib = panel["device_memory_mib"].dropna() / _MIB_PER_GIB
        _draw_numbers(left, panel, memory_gib, [*sizes_gib], axis=axis, devices=devices)
        for device, size_mib in sorted(set(zip(panel["device"], panel["device_memory_mib"], strict=True))):
            if pd.notna(size_mib):
                _draw_size(left, size_mib, name=f"memory of {labels.device_label(device)}")
        left.set_ylabel("Peak memory (GiB)")
        _draw_numbers(right, panel, THROUGHPUT.intervals(panel), [], axis=axis, devices=devices)
        right.set_ylabel(THROUGHPUT.axis_label)
        for axes in pair:
            _draw_crosses(axes, panel[panel["status"] == "oom"], axis=axis)
            scale_measured_values(axes, panel[axis], columns=2)
            axes.set_xlabel(labels.axis_label(axis))
    add_legend(figure, devices if len(devices) > 1 else [], marks=rows.loc[rows[MEMORY.column].notna(), "marks"])
    return figure


def _draw_numbers(
    axes: Axes, panel: pd.DataFrame, numbers: pd.DataFrame, beside: list[float], *, axis: str, devices: list[str]
) -> None:
    drawn = [*numbers["low"].dropna(), *numbers["high"].dropna(), *beside]
    style.set_scale(axes, "y", drawn)
    _make_room_for_crosses(axes, drawn)
    draw_lines(axes, panel.assign(**numbers), axis=axis, devices=devices)


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
    text = f"{name}, {memory(size_mib, unit='GiB').plain()}"
    place = (0, size_mib / _MIB_PER_GIB)
    style.note(axes, text, place, of=("axes fraction", "data"), offset=(3, -3), va="top", color=style.INK)


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
    place = (float(missing[axis].min()), 0.96)
    look = {"ha": "right", "va": "center", "color": style.VERMILLION}
    style.note(axes, labels.STATUS_WORDS["oom"], place, of=axes.get_xaxis_transform(), offset=(-6, 0), **look)


FRONTIER: Final = VariantFigure(
    name="frontier",
    title="The batch frontier",
    caption=(
        "Peak memory and throughput by {axis}, up to the memory that the device has; a cross stands for a batch that "
        "did not fit. Points are means over processes, bars their 95 % intervals, of three the range."
    ),
    along=("batch_size",),
    rows=_at_the_frontier,
    draw=frontier_figure,
    layout=high_panels(3, panel_groups),
    told=(extremes_of(THROUGHPUT), extremes_of(MEMORY)),
)
