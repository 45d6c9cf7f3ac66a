"""The roofline: how near every variant came to what its device can do, by how much it computes per
byte it moves.

efficiency, peaks -> panels (device) -> roofs (precision), points (variant: marker by workload,
color by precision)

The model is that of Williams, Waterman and Patterson (2009, doi:10.1145/1498765.1498785).
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gpu_report.figures import labels, style
from gpu_report.figures.curves import draw_intervals
from gpu_report.figures.declaration import MachineFigure, range_in
from gpu_report.glossary import METRICS, PRECISIONS, device_words
from gpu_report.printing.number_format import scaled
from gpu_report.tables.bundle import Tables
from gpu_report.words import shorten

_LEGEND_COLUMNS: Final = 4
PRECISION_COLORS: Final = dict(
    zip(PRECISIONS, (style.SKY, style.PURPLE, style.GREEN, style.BLUE), strict=True)
)
_POINT: Final[dict[str, Any]] = {
    "markersize": 5,
    "markeredgecolor": style.INK,
    "markeredgewidth": 0.4,
}
_NEARLY_THE_SAME: Final = 0.05
"""A roof that a later one covers is drawn broader, so that both are seen."""
_LABEL_HEIGHT: Final = 0.05
"""Of a roof's label, as a part of the panel."""
_ROOM: Final = 2.0
"""Around points and roofs, as a factor."""


def roofline_figure(tables: Tables) -> Figure:
    """Draw achieved FLOP/s over arithmetic intensity, a panel per device."""
    efficiency, peaks = tables.efficiency, tables.peaks
    devices = list(dict.fromkeys(efficiency["device"]))
    handles = roofline_handles(tables, efficiency)
    legend_rows = math.ceil(len(handles) / _LEGEND_COLUMNS)
    figure = style.new_figure(height_in=min(2.1 * len(devices), 7.5) + 0.2 * legend_rows)
    grid = figure.subplots(len(devices), 1, squeeze=False, sharex=True)
    span = _intensity_span(efficiency, peaks[peaks["device"].isin(devices)])
    for axes, device in zip(grid.flat, devices, strict=True):
        own, ceilings = efficiency[efficiency["device"] == device], peaks[peaks["device"] == device]
        style.set_panel_title(axes, device_words(device), columns=1)
        draw_roofline(axes, own, ceilings, span=span)
        axes.set_ylabel("Achieved per device (FLOP/s)")
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


def draw_roofline(
    axes: Axes, efficiency: pd.DataFrame, peaks: pd.DataFrame, *, span: tuple[float, float]
) -> None:
    """Draw the roofs and points of one device on the axes; both tables hold its rows alone.

    `span` is the lowest and the highest intensity of the axis.
    """
    axes.set_xscale("log")
    axes.set_yscale("log")
    lows = (
        efficiency["achieved_flops_per_s_low"].fillna(efficiency["achieved_flops_per_s"]).dropna()
    )
    rates = [*lows, *efficiency["achieved_flops_per_s"].dropna(), *_products(peaks).values()]
    axes.set_xlim(*span)
    axes.set_ylim(min(rates) / _ROOM, max(rates) * _ROOM**2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=8))
        axis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(style.tick_text))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda rate, _: scaled(rate, "", most_decimals=0).plain())
    )
    _draw_roofs(axes, peaks, _precisions(efficiency))
    markers = style.workload_markers(efficiency["workload"])
    efficiency = efficiency.dropna(subset=["intensity", "achieved_flops_per_s"])
    for (workload, precision), alike in efficiency.groupby(["workload", "precision"], sort=False):
        look = {
            "color": PRECISION_COLORS.get(str(precision), style.QUIET),
            "marker": markers[str(workload)],
            **_POINT,
        }
        numbers = METRICS["achieved_flops_per_s"].intervals(alike)
        draw_intervals(axes, alike["intensity"], numbers, linestyle="none", elinewidth=0.8, **look)


def _intensity_span(efficiency: pd.DataFrame, peaks: pd.DataFrame) -> tuple[float, float]:
    """From left of the points to right of the ridges, where a device's roofs become level."""
    ridges: list[float] = []
    for _, own in peaks.groupby("device"):
        ridges += [roof / rate for roof in _products(own).values() for rate in _copy_rates(own)]
    intensities = [*efficiency["intensity"].dropna(), *ridges]
    return min(intensities) / _ROOM, max(intensities) * _ROOM**2


def _precisions(efficiency: pd.DataFrame) -> list[str]:
    return [precision for precision in PRECISIONS if (efficiency["precision"] == precision).any()]


def _products(peaks: pd.DataFrame) -> dict[str, float]:
    """The rate of matrix products by precision, of one device."""
    chosen = peaks[peaks["ceiling"] == "matrix product"].dropna(subset=["value"])
    return dict(zip(chosen["precision"], chosen["value"].astype(float), strict=True))


def _copy_rates(peaks: pd.DataFrame) -> list[float]:
    """The rate of a copy inside the device, if it is known."""
    return [float(rate) for rate in peaks.loc[peaks["ceiling"] == "device copy", "value"].dropna()]


def _draw_roofs(axes: Axes, peaks: pd.DataFrame, precisions: Sequence[str]) -> None:
    """The slope of the copy rate up to the highest peak, and each precision's peak from there on,
    with their rates.
    """
    low, high = axes.get_xlim()
    products = {name: peak for name, peak in _products(peaks).items() if name in precisions}
    for copy_rate in _copy_rates(peaks):
        ridge = max(products.values(), default=copy_rate * high) / copy_rate
        axes.plot(
            [low, ridge], [low * copy_rate, ridge * copy_rate], color=style.INK, linewidth=1.0
        )
        slope = f"slope: device copy, {scaled(copy_rate, 'B/s').plain()}"
        style.note(axes, slope, (0.01, 0.98), va="top", color=style.INK)
    for number, (precision, peak) in enumerate(products.items(), start=1):
        start = max([low, *(peak / copy_rate for copy_rate in _copy_rates(peaks))])
        is_covered = any(
            abs(later / peak - 1) < _NEARLY_THE_SAME for later in list(products.values())[number:]
        )
        width = 3.0 if is_covered else 1.0
        axes.plot(
            [start, high],
            [peak, peak],
            color=PRECISION_COLORS.get(precision, style.QUIET),
            linewidth=width,
        )
    bottom, top = axes.get_ylim()
    lowest_free = 0.0
    for precision, peak in sorted(products.items(), key=lambda item: item[1]):
        # Moved up where the rates would lie on each other.
        height = max(lowest_free, math.log(peak / bottom) / math.log(top / bottom))
        lowest_free = height + _LABEL_HEIGHT
        text = f"{precision}, {scaled(peak, 'FLOP/s').plain()}"
        style.note(axes, text, (1.01, height), va="center", color=style.INK)


def roofline_handles(tables: Tables, efficiency: pd.DataFrame) -> list[Line2D | Patch]:
    """What markers and colours are, for a legend; in rows of its columns, shapes first."""
    titles = labels.workload_titles(tables.variants)
    markers: list[Line2D | Patch] = [
        Line2D(
            [],
            [],
            linestyle="none",
            color="white",
            label=shorten(labels.printable(titles.get(workload, workload)), 28),
            marker=marker,
            **_POINT,
        )
        for workload, marker in style.workload_markers(efficiency["workload"]).items()
    ]
    colors = [
        Patch(color=PRECISION_COLORS[precision], label=precision)
        for precision in _precisions(efficiency)
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


ROOFLINE: Final = MachineFigure(
    name="roofline",
    title="Roofline",
    caption=(
        "Floating-point operations per second that each configuration achieved on each device, "
        "against its arithmetic intensity, below the roofs that the calibration measured: matrix "
        "products in each precision, and the rate of a copy inside the device's memory. Shapes "
        "are workloads, colors are precisions; points that look the same differ in size, batch or "
        "optimizations. Bars show {intervals}."
    ),
    has_data=lambda tables: not tables.efficiency.empty,
    draw=roofline_figure,
    sentence=partial(
        range_in, "efficiency", "achieved_flops_per_s", what="Rates", unit="TFLOP/s", factor=1e-12
    ),
    tables=("efficiency", "peaks"),
)
