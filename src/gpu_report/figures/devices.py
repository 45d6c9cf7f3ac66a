"""What the machine's devices reach: how fast data goes between host and device and between devices,
and in the roofline, how near every variant came to what its device can do, by how much it computes
per byte it moves.

transfers, peaks -> rows of two panels (direction) of each device -> lines (memory), a line at the
peak
links -> a panel per number of devices -> a line per operation, an upright line per size of a bucket
efficiency, peaks -> panels (device) -> roofs (precision), points (variant: marker by workload,
color by precision)

The roofline is the model of Williams, Waterman and Patterson (2009, doi:10.1145/1498765.1498785).
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gpu_report.figures import labels, palette, style
from gpu_report.figures.declaration import machine_figure, range_in
from gpu_report.figures.points import draw_intervals, panels_figure
from gpu_report.glossary import METRICS, PRECISIONS, Metric, device_words
from gpu_report.printing.number_format import counted, quantity, scaled, size
from gpu_report.tables.bundle import Tables
from gpu_report.words import shorten

_Looks = Mapping[str, Mapping[str, Any]]
_MEMORY: Final[_Looks] = {
    "pageable": {"color": palette.ORANGE, "marker": "o", "label": "pageable host memory"},
    "pinned": {"color": palette.BLUE, "marker": "s", "label": "pinned host memory"},
}
_OPERATIONS: Final[_Looks] = {
    "all-reduce": {"color": palette.BLUE, "marker": "o", "label": "all-reduce"},
    # Reduce-scatter is as fast and would hide a narrower line.
    "all-gather": {
        "color": palette.ORANGE,
        "marker": "s",
        "label": "all-gather",
        "linewidth": 3,
        "markersize": 7,
    },
    "reduce-scatter": {"color": palette.GREEN, "marker": "^", "label": "reduce-scatter"},
    "point-to-point": {"color": palette.VERMILLION, "marker": "D", "label": "point-to-point"},
}
_FIRST_BUCKET: Final = 2**20
_BUCKET: Final = 25 * 2**20
"""Of DistributedDataParallel unless asked otherwise:
https://docs.pytorch.org/docs/stable/notes/ddp.html
"""


def transfers_figure(tables: Tables) -> Figure:
    """Draw bandwidth against copy size, a row of panels per device, a column per direction."""
    metric = METRICS["bandwidth_gb_per_s"]
    transfers = tables.transfers.dropna(subset=metric.column)
    directions = transfers["direction"].unique()

    def draw(axes: Axes, panel: pd.DataFrame) -> None:
        device, direction = panel["device"].iloc[0], panel["direction"].iloc[0]
        ceilings = tables.peaks[tables.peaks["device"] == device].set_index("ceiling")["value"]
        peaks = ceilings[ceilings.index.isin(directions)].dropna() / 1e9
        own = transfers.loc[transfers["device"] == device, metric.column]
        style.set_scale(axes, "y", [*own, *peaks])
        if direction in peaks:
            peak = quantity(peaks[direction], "GB/s").plain()
            style.level(axes, peaks[direction], f"peak, {peak}", at_left=True, zorder=1)

    return _bandwidths_figure(
        transfers.assign(
            panel=transfers["device"].map(device_words) + ", " + transfers["direction"]
        ),
        metric,
        axis="size of the copy",
        by="memory",
        looks=_MEMORY,
        columns=len(directions),
        height_in=1.95 * transfers["device"].nunique() + 0.3,
        draw=draw,
    )


def links_figure(tables: Tables) -> Figure:
    """Draw bus bandwidth against payload, a panel per number of devices."""
    metric = METRICS["bus_bandwidth_gb_per_s"]
    links = tables.links.dropna(subset=metric.column).sort_values(["devices", "operation"])
    all_rates = [*links[metric.column], *links["data_sheet_gb_per_s"].dropna()]

    def draw(axes: Axes, panel: pd.DataFrame) -> None:
        _mark_payload(axes, _FIRST_BUCKET, (-2, 2), ha="right")
        _mark_payload(axes, _BUCKET, (2, 2), ha="left")
        style.set_scale(axes, "y", all_rates)
        if (sheet := panel["data_sheet_gb_per_s"].max()) > 0:
            peak = quantity(sheet, "GB/s").plain()
            style.level(axes, sheet, f"data sheet, {peak}", at_left=True, zorder=1)

    return _bandwidths_figure(
        links.assign(panel=[counted(devices, "device") for devices in links["devices"]]),
        metric,
        axis="payload",
        by="operation",
        looks=_OPERATIONS,
        columns=links["devices"].nunique(),
        height_in=2.0,
        draw=draw,
    )


def _bandwidths_figure(rows: pd.DataFrame, metric: Metric, *, axis: str, **how: Any) -> Figure:
    """Draw a bandwidth by the column `bytes`; `axis` is how the axis is called."""
    by_size = rows.rename(columns={"bytes": axis}).assign(marks="")
    return panels_figure(by_size, metric, axis=axis, tick_text=_size_text, shares_y=True, **how)


def _size_text(payload: float, _position: int | None = None) -> str:
    """Of three devices a payload is a few bytes less than the power of two."""
    return size(2 ** round(math.log2(payload))).plain()


def _mark_payload(axes: Axes, payload: int, offset: tuple[float, float], *, ha: str) -> None:
    axes.axvline(payload, color=palette.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    words, of = size(payload).plain(), ("data", "axes fraction")
    style.note(axes, words, (payload, 0), of=of, offset=offset, rotation=90, ha=ha, va="bottom")


TRANSFER: Final = partial(
    machine_figure,
    name="transfer",
    title="Copies between host and device",
    caption=(
        "Points show the bandwidth of copies between host and device by their size, as means over "
        "processes, and bars show 95 % intervals. Copies use pageable or pinned host memory, and "
        "the host waits for each. The dashed line is the peak of that direction."
    ),
    draw=transfers_figure,
    sentence=partial(range_in, "transfers", "bandwidth_gb_per_s", what="Bandwidths", unit="GB/s"),
    tables=("transfers", "peaks"),
)


LINKS: Final = partial(
    machine_figure,
    name="links",
    title="The link between devices",
    caption=(
        "Points show the bus bandwidth of operations between devices by payload, as means over "
        "launches, and bars show 95 % intervals. Bus bandwidth is what a device sends in one "
        "direction, by the formulas of nccl-tests. Vertical dashed lines mark "
        "DistributedDataParallel's default sizes of the first gradient bucket and of the others; a "
        "horizontal line is the data-sheet bandwidth of NVLink in one direction."
    ),
    draw=links_figure,
    sentence=partial(
        range_in, "links", "bus_bandwidth_gb_per_s", what="Bus bandwidths", unit="GB/s"
    ),
    tables=("links",),
)


_LEGEND_COLUMNS: Final = 4
_POINT: Final[dict[str, Any]] = {
    "markersize": 6,
    "markeredgecolor": "white",  # so that overlapping points of one color remain apart
    "markeredgewidth": 0.5,
}
_NEARLY_THE_SAME: Final = 0.05
"""A roof that a later one covers is drawn broader, so that both are seen."""
_LABEL_HEIGHT: Final = 0.085  # of a roof's label, as a part of the panel
_ROOM: Final = 2.0  # around points and roofs, as a factor


def roofline_figure(tables: Tables) -> Figure:
    """Draw achieved FLOP/s over arithmetic intensity, a panel per device."""
    efficiency, metric = tables.efficiency, METRICS["achieved_flops_per_s"]
    roofs = {device: _roofs(tables, device) for device in dict.fromkeys(efficiency["device"])}
    handles = _roofline_handles(tables)
    legend_rows = math.ceil(len(handles) / _LEGEND_COLUMNS)
    figure = style.new_figure(height_in=min(2.6 * len(roofs), 7.5) + 0.2 * legend_rows)
    grid = figure.subplots(len(roofs), 1, squeeze=False, sharex=True)
    # From left of the points to right of the ridges, where a device's roofs become level.
    ridges = [peak / copy_rate for peaks, copy_rate in roofs.values() for peak in peaks.values()]
    span = min(efficiency["intensity"]) / _ROOM, max(*efficiency["intensity"], *ridges) * _ROOM
    markers = style.workload_markers(efficiency["workload"])
    for axes, (device, (peaks, copy_rate)) in zip(grid.flat, roofs.items(), strict=True):
        own = efficiency[efficiency["device"] == device]
        own = own.assign(**metric.intervals(own))
        rates = [*own["low"], *own["value"], *peaks.values()]
        style.set_panel_title(axes, device_words(device), columns=1)
        style.set_scale(axes, "x", [*span], span=0)
        axes.set(yscale="log", ylabel="Achieved per device (FLOP/s)")
        axes.set(xlim=span, ylim=(min(rates) / _ROOM, max(rates) * _ROOM**2))
        axes.yaxis.set_major_locator(LogLocator(numticks=8))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda rate, _: scaled(rate, "", most_decimals=0).plain())
        )
        _draw_roofs(axes, peaks, copy_rate)
        for (workload, precision), alike in own.groupby(["workload", "precision"], sort=False):
            draw_intervals(
                axes,
                alike["intensity"],
                alike,
                linestyle="none",
                color=palette.PRECISION_COLORS[str(precision)],
                marker=markers[str(workload)],
                **_POINT,
            )
    grid.flat[-1].set_xlabel(
        "Arithmetic intensity (FLOP per byte that the operators read and write)"
    )
    by_column = [
        handles[at]
        for column in range(_LEGEND_COLUMNS)
        for at in range(column, len(handles), _LEGEND_COLUMNS)
    ]
    figure.legend(
        handles=by_column, loc="outside upper left", ncols=_LEGEND_COLUMNS, borderaxespad=0.2
    )
    return figure


def _roofs(tables: Tables, device: str) -> tuple[dict[str, float], float]:
    """The peak of each precision that a device trained in, and the rate of a copy inside it: a
    calibration has both.
    """
    own = tables.peaks[tables.peaks["device"] == device]
    used = tables.efficiency.loc[tables.efficiency["device"] == device, "precision"]
    products = own[(own["ceiling"] == "matrix product") & own["precision"].isin(used)]
    (copy_rate,) = own.loc[own["ceiling"] == "device copy", "value"]
    return dict(zip(products["precision"], products["value"], strict=True)), copy_rate


def _draw_roofs(axes: Axes, peaks: Mapping[str, float], copy_rate: float) -> None:
    """The slope of the copy rate up to the highest peak, and each precision's peak from there on,
    with their rates.
    """
    low, high = axes.get_xlim()
    ridge = max(peaks.values()) / copy_rate
    axes.plot([low, ridge], [low * copy_rate, ridge * copy_rate], color=palette.INK, linewidth=1.0)
    style.note(
        axes,
        f"slope: device copy, {scaled(copy_rate, 'B/s').plain()}",
        (0.01, 0.98),
        va="top",
        color=palette.INK,
    )
    for number, (precision, peak) in enumerate(peaks.items(), start=1):
        is_covered = any(
            abs(later / peak - 1) < _NEARLY_THE_SAME for later in list(peaks.values())[number:]
        )
        axes.plot(
            [max(low, peak / copy_rate), high],
            [peak, peak],
            color=palette.PRECISION_COLORS[precision],
            linewidth=3.0 if is_covered else 1.0,
        )
    bottom, top = axes.get_ylim()
    lowest_free = 0.0
    for precision, peak in sorted(peaks.items(), key=lambda item: item[1]):
        # Moved up where the rates would lie on each other.
        height = max(lowest_free, math.log(peak / bottom) / math.log(top / bottom))
        lowest_free = height + _LABEL_HEIGHT
        style.note(
            axes,
            f"{precision}, {scaled(peak, 'FLOP/s').plain()}",
            (1.01, height),
            va="center",
            color=palette.INK,
        )


def _roofline_handles(tables: Tables) -> list[Line2D | Patch]:
    """What markers and colours are, for a legend; in rows of its columns, shapes first."""
    efficiency, named = tables.efficiency, labels.with_titles(tables.variants, tables.variants)
    titles = dict(zip(named["workload"], named["workload_title"], strict=True))
    markers: list[Line2D | Patch] = [
        Line2D(
            [],
            [],
            linestyle="none",
            color=palette.QUIET,
            label=shorten(labels.printable(titles.get(workload, workload)), 28),
            marker=marker,
            **_POINT,
        )
        for workload, marker in style.workload_markers(efficiency["workload"]).items()
    ]
    colors = [
        Patch(color=palette.PRECISION_COLORS[precision], label=precision)
        for precision in PRECISIONS
        if (efficiency["precision"] == precision).any()
    ]
    return [*_filled(markers), *_filled(colors)]


def _filled(handles: Sequence[Line2D | Patch]) -> list[Line2D | Patch]:
    """With empty entries up to whole rows of the legend, which is read by row though it is filled
    by column.
    """
    return [
        *handles,
        *(
            Line2D([], [], linestyle="none", label=" ")
            for _ in range(-len(handles) % _LEGEND_COLUMNS)
        ),
    ]


ROOFLINE: Final = partial(
    machine_figure,
    name="roofline",
    title="Roofline",
    caption=(
        "Floating-point operations per second that each configuration achieved on each device, "
        "against its arithmetic intensity, below the roofs that the calibration measured: matrix "
        "products in each precision, and the rate of a copy inside the device's memory. Shapes "
        "are workloads, colors are precisions; points that look the same differ in size, batch or "
        "optimizations. Bars show 95 % intervals."
    ),
    draw=roofline_figure,
    sentence=partial(
        range_in, "efficiency", "achieved_flops_per_s", what="Rates", unit="TFLOP/s", factor=1e-12
    ),
    tables=("efficiency", "peaks"),
)
