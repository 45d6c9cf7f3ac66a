"""What the machine's devices do: how fast data goes to a device and back, and what its driver
reported over a training.

transfers, peaks -> rows of two panels (direction) of each device -> lines (memory), a line at the
peak
telemetry, variants -> columns (variant), rows (quantity) -> a line per process
"""

from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from gpu_report.figures import labels, style
from gpu_report.figures.alt_text import range_in
from gpu_report.figures.curves import draw_intervals
from gpu_report.figures.declaration import MachineFigure
from gpu_report.glossary import METRICS, device_words
from gpu_report.printing.number_format import quantity
from gpu_report.printing.number_format import size as size_in_words
from gpu_report.study.variant import AXIS_FIELDS
from gpu_report.tables.bundle import Tables

_DIRECTION_HEIGHT_IN: Final = 1.95
_LEGEND_HEIGHT_IN: Final = 0.3
_BYTES_PER_GB: Final = 1e9
_MOST_TICKS: Final = 6
_LOOKS: Final = {"pageable": (style.ORANGE, "o"), "pinned": (style.BLUE, "s")}
_QUANTITY_HEIGHT_IN: Final = 0.9
_MOST_VARIANTS: Final = 3
_QUANTITIES: Final = {
    "power_w": "Power (W)",
    "utilisation_percent": "GPU utilization\n(NVML, %)",
    "sm_clock_mhz": "Clock (MHz)",
}
"""Column -> label of what is drawn, as far as the driver reported it."""


def transfers_figure(tables: Tables) -> Figure:
    """Draw bandwidth against copy size, a row of panels per device, a column per direction."""
    transfers, peaks = tables.transfers, tables.peaks
    devices = list(dict.fromkeys(transfers["device"]))
    directions = list(dict.fromkeys(transfers["direction"]))
    figure = style.new_figure(height_in=len(devices) * _DIRECTION_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    grid = figure.subplots(len(devices), len(directions), squeeze=False, sharey="row")
    for row, device in zip(grid, devices, strict=True):
        own = transfers[transfers["device"] == device]
        of_directions = peaks[
            (peaks["device"] == device) & peaks["ceiling"].isin(directions)
        ].dropna(subset=["value"])
        ceilings = dict(
            zip(of_directions["ceiling"], of_directions["value"] / _BYTES_PER_GB, strict=True)
        )
        values = [*own["bandwidth_gb_per_s"].dropna(), *ceilings.values()]
        for axes, direction in zip(row, directions, strict=True):
            style.set_panel_title(
                axes, f"{device_words(device)}, {direction}", columns=len(directions)
            )
            style.set_scale(axes, "y", values)
            _draw_direction(axes, own[own["direction"] == direction])
            if direction in ceilings:
                peak = quantity(ceilings[direction], "GB/s").plain()
                style.level(axes, ceilings[direction], f"peak, {peak}", at_left=True, zorder=1)
        row[0].set_ylabel("Bandwidth (GB/s)")
    for axes in grid[-1]:
        axes.set_xlabel("Size of the copy")
    handles = [
        Line2D([], [], color=color, marker=marker, label=f"{memory} host memory")
        for memory, (color, marker) in _LOOKS.items()
        if (transfers["memory"] == memory).any()
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), borderaxespad=0.2)
    return figure


def _draw_direction(axes: Axes, rows: pd.DataFrame) -> None:
    axes.set_xscale("log", base=2)
    for memory, line in rows.sort_values("bytes").groupby("memory"):
        color, marker = _LOOKS[str(memory)]
        numbers = METRICS["bandwidth_gb_per_s"].intervals(line)
        draw_intervals(axes, line["bytes"], numbers, color=color, marker=marker, elinewidth=0.8)
    sizes = sorted(set(rows["bytes"]))
    step = -(-len(sizes) // _MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(sizes[::step]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_in_words(size).plain()))


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
    sentence=range_in("transfers", "bandwidth_gb_per_s", what="Bandwidths", unit="GB/s"),
    tables=("transfers", "peaks"),
)


def telemetry_figure(tables: Tables) -> Figure:
    """Draw, of each of a few workloads, the variant that took most power; a line is a process."""
    telemetry, variants = tables.telemetry, labels.with_titles(tables.variants, tables.variants)
    polled = variants[variants["variant"].isin(telemetry["variant"])]
    by_power = polled.sort_values("power_w", ascending=False, kind="stable").drop_duplicates(
        "workload"
    )
    chosen = labels.with_labels(by_power.head(_MOST_VARIANTS), without=AXIS_FIELDS["optimization"])
    quantities = {
        name: label for name, label in _QUANTITIES.items() if telemetry[name].notna().any()
    }
    figure = style.new_figure(height_in=len(quantities) * _QUANTITY_HEIGHT_IN + 0.7)
    grid = figure.subplots(len(quantities), len(chosen), squeeze=False, sharey="row", sharex="col")
    for column, (_, variant) in zip(grid.T, chosen.iterrows(), strict=True):
        own = telemetry[telemetry["variant"] == variant["variant"]]
        optimization = labels.field_label("short_optimization", variant["optimization"])
        title = labels.joined(variant["heading"], variant["precision"], optimization)
        style.set_panel_title(column[0], title, columns=max(2, len(chosen)))
        for axes, name in zip(column, quantities, strict=True):
            for _, process in own.groupby("repetition"):
                axes.plot(
                    process["moment_s"], process[name], color=style.BLUE, linewidth=0.8, alpha=0.7
                )
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        column[-1].set_xlabel("Time (s)")
    for row, (name, label) in zip(grid, quantities.items(), strict=True):
        row[0].set_ylabel(label)
        highest = telemetry.loc[telemetry["variant"].isin(chosen["variant"]), name].max()
        row[0].set_ylim(0, 1.1 * highest if highest > 0 else 1)
        row[0].yaxis.set_major_locator(MaxNLocator(nbins=4))
    return figure


TELEMETRY: Final = MachineFigure(
    name="telemetry",
    title="The GPU while it trains",
    caption=(
        "Lines show what the driver reported during the timed epochs, one line for each process. "
        "Of at most three workloads the configuration that took most power is shown."
    ),
    has_data=lambda tables: bool(tables.telemetry[list(_QUANTITIES)].notna().any(axis=None)),
    draw=telemetry_figure,
    sentence=range_in("telemetry", "power_w", what="Powers", unit="W"),
    tables=("telemetry",),
)
