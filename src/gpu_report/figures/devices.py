"""How fast data goes: between host and device, and between devices.

transfers, peaks -> rows of two panels (direction) of each device -> lines (memory), a line at the
peak
links -> a panel per number of devices -> a line per operation, an upright line per size of a bucket
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from gpu_report.figures import style
from gpu_report.figures.curves import draw_intervals
from gpu_report.figures.declaration import MachineFigure, range_in
from gpu_report.glossary import METRICS, Metric, device_words
from gpu_report.printing.number_format import counted, quantity
from gpu_report.printing.number_format import size as size_in_words
from gpu_report.tables.bundle import Tables

_Looks = Mapping[str, Mapping[str, Any]]
_MEMORY: Final[_Looks] = {
    "pageable": {"color": style.ORANGE, "marker": "o", "label": "pageable host memory"},
    "pinned": {"color": style.BLUE, "marker": "s", "label": "pinned host memory"},
}
_OPERATIONS: Final[_Looks] = {
    "all-reduce": {"color": style.BLUE, "marker": "o", "label": "all-reduce"},
    "all-gather": {"color": style.ORANGE, "marker": "s", "label": "all-gather"},
    "reduce-scatter": {"color": style.GREEN, "marker": "^", "label": "reduce-scatter"},
    "point-to-point": {"color": style.VERMILLION, "marker": "D", "label": "point-to-point"},
}
_MOST_TICKS: Final = 6
_FIRST_BUCKET: Final = 2**20
_BUCKET: Final = 25 * 2**20
"""Of DistributedDataParallel unless asked otherwise:
https://docs.pytorch.org/docs/stable/notes/ddp.html
"""


def transfers_figure(tables: Tables) -> Figure:
    """Draw bandwidth against copy size, a row of panels per device, a column per direction."""
    transfers, metric = tables.transfers, METRICS["bandwidth_gb_per_s"]
    devices = list(dict.fromkeys(transfers["device"]))
    directions = list(dict.fromkeys(transfers["direction"]))
    peaks = tables.peaks[tables.peaks["ceiling"].isin(directions)].dropna(subset="value")
    figure = style.new_figure(height_in=1.95 * len(devices) + 0.3)
    grid = figure.subplots(len(devices), len(directions), squeeze=False, sharey="row")
    for row, device in zip(grid, devices, strict=True):
        own = transfers[transfers["device"] == device]
        ceilings = peaks[peaks["device"] == device].set_index("ceiling")["value"] / 1e9
        for axes, direction in zip(row, directions, strict=True):
            title = f"{device_words(device)}, {direction}"
            style.set_panel_title(axes, title, columns=len(directions))
            style.set_scale(axes, "y", [*own[metric.column].dropna(), *ceilings])
            rows = own[own["direction"] == direction]
            _draw_bandwidth(axes, rows, metric, by="memory", looks=_MEMORY)
            if direction in ceilings:
                peak = quantity(ceilings[direction], "GB/s").plain()
                style.level(axes, ceilings[direction], f"peak, {peak}", at_left=True, zorder=1)
        row[0].set_ylabel("Bandwidth (GB/s)")
    for axes in grid[-1]:
        axes.set_xlabel("Size of the copy")
    _add_legend(figure, transfers["memory"], _MEMORY)
    return figure


def links_figure(tables: Tables) -> Figure:
    """Draw bus bandwidth against payload, a panel per number of devices."""
    links, metric = tables.links, METRICS["bus_bandwidth_gb_per_s"]
    panels = [rows for _, rows in links.groupby("devices")]
    figure = style.new_figure(height_in=1.8)
    row = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, rows in zip(row, panels, strict=True):
        title = counted(int(rows["devices"].iloc[0]), "device")
        style.set_panel_title(axes, title, columns=len(panels))
        _draw_bandwidth(axes, rows, metric, by="operation", looks=_OPERATIONS)
        _mark(axes, _FIRST_BUCKET, (-2, -2), 1, ha="right", va="top")
        _mark(axes, _BUCKET, (2, 2), 0, ha="left", va="bottom")
        axes.set_xlabel("Payload")
        axes.set_ylabel(metric.axis_label)
        axes.set_ylim(bottom=0)
    _add_legend(figure, links["operation"], _OPERATIONS)
    return figure


def _draw_bandwidth(
    axes: Axes, rows: pd.DataFrame, metric: Metric, *, by: str, looks: _Looks
) -> None:
    """A line for each value of a column, over the size of what is sent."""
    axes.set_xscale("log", base=2)
    for name, line in rows.sort_values("bytes").groupby(by):
        numbers = metric.intervals(line)
        draw_intervals(axes, line["bytes"], numbers, elinewidth=0.8, **looks[str(name)])
    # Of three devices a payload is a few bytes less than the power of two.
    sizes = sorted({2 ** round(math.log2(size)) for size in rows["bytes"]})
    axes.xaxis.set_major_locator(FixedLocator(sizes[:: math.ceil(len(sizes) / _MOST_TICKS)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_in_words(size).plain()))


def _add_legend(figure: Figure, shown: "pd.Series[str]", looks: _Looks) -> None:
    """Say what each line is, of those that are shown."""
    handles = [Line2D([], [], **look) for name, look in looks.items() if (shown == name).any()]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), borderaxespad=0.2)


def _mark(axes: Axes, size: int, offset: tuple[float, float], height: float, **look: str) -> None:
    """An upright line at a payload with its size beside it, where the curves leave room."""
    axes.axvline(size, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    words, of = size_in_words(size).plain(), ("data", "axes fraction")
    style.note(axes, words, (size, height), of=of, offset=offset, rotation=90, **look)


TRANSFER: Final = MachineFigure(
    name="transfer",
    title="Copies between host and device",
    caption=(
        "Points show the bandwidth of copies between host and device by their size, as means over "
        "processes, and bars show 95 % intervals. Copies use pageable or pinned host memory, and "
        "the host waits for each. The dashed line is the peak of that direction."
    ),
    has_data=lambda tables: not tables.transfers.empty,
    draw=transfers_figure,
    sentence=partial(range_in, "transfers", "bandwidth_gb_per_s", what="Bandwidths", unit="GB/s"),
    tables=("transfers", "peaks"),
)


def _caption(tables: Tables) -> str:
    first = tables.links.iloc[0]
    multicast = f", NVLink SHARP {first['multicast']}" if first["multicast"] else ""
    return (
        "Points show the bus bandwidth of operations between devices by payload, as means over "
        "launches, and bars show 95 % intervals. Bus bandwidth is what a device sends in one "
        f"direction, by the formulas of nccl-tests (backend {first['backend']}{multicast}). "
        "Dashed lines mark the sizes of the first bucket and of the others in which "
        "DistributedDataParallel exchanges gradients by default."
    )


LINKS: Final = MachineFigure(
    name="links",
    title="The link between devices",
    caption=_caption,
    has_data=lambda tables: not tables.links.empty,
    draw=links_figure,
    sentence=partial(
        range_in, "links", "bus_bandwidth_gb_per_s", what="Bus bandwidths", unit="GB/s"
    ),
    tables=("links",),
)
