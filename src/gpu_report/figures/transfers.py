"""How fast data goes to the device and back, by the size of the copy and the kind of host memory.

transfers, peaks -> rows of two panels (direction) of each device -> lines (memory), a line at the peak
"""

from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from gpu_report.figures import labels, style
from gpu_report.number_format import quantity
from gpu_report.number_format import size as size_in_words

_PANEL_HEIGHT_IN: Final = 1.95
_LEGEND_HEIGHT_IN: Final = 0.3
_BYTES_PER_GB: Final = 1e9
_MOST_TICKS: Final = 6
_LOOKS: Final = {"pageable": (style.ORANGE, "o"), "pinned": (style.BLUE, "s")}
_MEANINGS: Final = {"pageable": "pageable host memory", "pinned": "pinned host memory"}


def draw_transfers(transfers: pd.DataFrame, peaks: pd.DataFrame) -> Figure:
    """Draw bandwidth against copy size, a row of panels per device, a column per direction."""
    devices = list(dict.fromkeys(transfers["device"]))
    directions = list(dict.fromkeys(transfers["direction"]))
    figure = style.new_figure(height_in=len(devices) * _PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    grid = figure.subplots(len(devices), len(directions), squeeze=False, sharey="row")
    for row, device in zip(grid, devices, strict=True):
        own = transfers[transfers["device"] == device]
        ceilings = _peaks_of(peaks[peaks["device"] == device], directions)
        values = [*own["bandwidth_gb_per_s"].dropna(), *ceilings.values()]
        for axes, direction in zip(row, directions, strict=True):
            style.set_panel_title(axes, f"{labels.device_label(device)}, {direction}", columns=len(directions))
            style.set_scale(axes, "y", values)
            _draw_direction(axes, own[own["direction"] == direction])
            if direction in ceilings:
                _draw_peak(axes, ceilings[direction])
        row[0].set_ylabel("Bandwidth (GB/s)")
    for axes in grid[-1]:
        axes.set_xlabel("Size of the copy")
    _add_legend(figure, [memory for memory in _LOOKS if (transfers["memory"] == memory).any()])
    return figure


def _peaks_of(peaks: pd.DataFrame, directions: list[str]) -> dict[str, float]:
    chosen = peaks[peaks["ceiling"].isin(directions)].dropna(subset=["value"])
    return dict(zip(chosen["ceiling"], chosen["value"] / _BYTES_PER_GB, strict=True))


def _draw_direction(axes: Axes, rows: pd.DataFrame) -> None:
    axes.set_xscale("log", base=2)
    for memory, line in rows.sort_values("bytes").groupby("memory"):
        color, marker = _LOOKS[str(memory)]
        value = line["bandwidth_gb_per_s"]
        low, high = line["bandwidth_gb_per_s_low"].fillna(value), line["bandwidth_gb_per_s_high"].fillna(value)
        axes.errorbar(
            line["bytes"], value, yerr=[value - low, high - value], color=color, marker=marker, elinewidth=0.8
        )
    sizes = sorted(set(rows["bytes"]))
    step = -(-len(sizes) // _MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(sizes[::step]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_in_words(size).plain()))


def _draw_peak(axes: Axes, peak: float) -> None:
    axes.axhline(peak, color=style.INK, linestyle="--", linewidth=0.8, zorder=1)
    axes.annotate(
        f"peak, {quantity(peak, 'GB/s').plain()}",
        (0, peak),
        xycoords=("axes fraction", "data"),
        xytext=(3, -3),
        textcoords="offset points",
        va="top",
        fontsize=style.TINY_FONT_SIZE_PT,
    )


def _add_legend(figure: Figure, memories: list[str]) -> None:
    handles = [
        Line2D([], [], color=_LOOKS[memory][0], marker=_LOOKS[memory][1], label=_MEANINGS[memory])
        for memory in memories
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), borderaxespad=0.2)
