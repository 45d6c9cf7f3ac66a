"""What the machine's devices do: how fast data goes to a device and back, what the link between
devices carries, and what the driver reported over a training.

transfers, peaks -> rows of two panels (direction) of each device -> lines (memory), a line at the
peak
links -> a panel per number of devices -> a line per operation, an upright line per size of a bucket
telemetry, variants -> columns (variant), rows (quantity) -> a line per process
"""

import math
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from gpu_report.figures import labels, style
from gpu_report.figures.curves import (
    draw_intervals,
    draw_line,
    hollow_handles,
    scale_measured_values,
)
from gpu_report.figures.declaration import (
    MachineFigure,
    Shown,
    VariantFigure,
    extremes_of,
    high_panels,
    range_in,
)
from gpu_report.glossary import EXPOSED, METRICS, device_words
from gpu_report.printing.number_format import counted, quantity
from gpu_report.printing.number_format import size as size_in_words
from gpu_report.study.variant import AXIS_FIELDS
from gpu_report.tables.bundle import Tables
from gpu_report.tables.scaling import sets_bucket_alone

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
            rows = own[own["direction"] == direction]
            axes.set_xscale("log", base=2)
            for memory, line in rows.sort_values("bytes").groupby("memory"):
                color, marker = _LOOKS[str(memory)]
                numbers = METRICS["bandwidth_gb_per_s"].intervals(line)
                draw_intervals(
                    axes, line["bytes"], numbers, color=color, marker=marker, elinewidth=0.8
                )
            sizes = sorted(set(rows["bytes"]))
            step = -(-len(sizes) // _MOST_TICKS)
            axes.xaxis.set_major_locator(FixedLocator(sizes[::step]))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(
                FuncFormatter(lambda size, _: size_in_words(size).plain())
            )
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


_EXPOSED_HEIGHT_IN: Final = 1.9
_PANELS: Final = 2
_FEWEST_POINTS: Final = 2
_LOOK: Final = (style.BLUE, "s")
_TRACE: Final[dict[str, Any]] = {"color": style.VERMILLION, "marker": "x", "linestyle": "none"}
_NOT_OF_A_PANEL: Final = ("workers", "accumulation", "options", "optimization")
_HEIGHT_IN: Final = 1.8
_METRIC: Final = METRICS["bus_bandwidth_gb_per_s"]
_LOOKS_OF_OPERATIONS: Final = {
    "all-reduce": (style.BLUE, "o"),
    "all-gather": (style.ORANGE, "s"),
    "reduce-scatter": (style.GREEN, "^"),
    "point-to-point": (style.VERMILLION, "D"),
}
_FIRST_BUCKET: Final = 2**20
_BUCKET: Final = 25 * 2**20
"""Of DistributedDataParallel unless asked otherwise:
https://docs.pytorch.org/docs/stable/notes/ddp.html
"""


def links_figure(tables: Tables) -> Figure:
    """Draw bus bandwidth against payload, a panel per number of devices."""
    panels = sorted(set(tables.links["devices"]))
    figure = style.new_figure(height_in=_HEIGHT_IN)
    row = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, devices in zip(row, panels, strict=True):
        draw_link(axes, tables.links[tables.links["devices"] == devices], columns=len(panels))
    handles = link_handles(tables.links)
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), borderaxespad=0.2)
    return figure


def link_handles(links: pd.DataFrame) -> list[Line2D]:
    """What each line is, for a legend."""
    return [
        Line2D([], [], color=color, marker=marker, label=operation)
        for operation, (color, marker) in _LOOKS_OF_OPERATIONS.items()
        if (links["operation"] == operation).any()
    ]


def draw_link(axes: Axes, rows: pd.DataFrame, *, columns: int) -> None:
    """The rows of one number of devices in one of `columns` panels."""
    style.set_panel_title(axes, counted(int(rows["devices"].iloc[0]), "device"), columns=columns)
    axes.set_xscale("log", base=2)
    for operation, line in rows.groupby("operation"):
        color, marker = _LOOKS_OF_OPERATIONS[str(operation)]
        numbers = _METRIC.intervals(line)
        draw_intervals(axes, line["bytes"], numbers, color=color, marker=marker, elinewidth=0.8)
    # Of three devices a payload is a few bytes less than the power of two.
    sizes = sorted({2 ** round(math.log2(size)) for size in rows["bytes"]})
    axes.xaxis.set_major_locator(FixedLocator(sizes[:: -(-len(sizes) // _MOST_TICKS)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_in_words(size).plain()))
    _mark(axes, _FIRST_BUCKET, (-2, -2), 1, ha="right", va="top")
    _mark(axes, _BUCKET, (2, 2), 0, ha="left", va="bottom")
    axes.set_xlabel("Payload")
    axes.set_ylabel(_METRIC.axis_label)
    axes.set_ylim(bottom=0)


def _mark(axes: Axes, size: int, offset: tuple[float, float], height: float, **look: str) -> None:
    """An upright line at a payload with its size beside it, where the curves leave room."""
    axes.axvline(size, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    words = size_in_words(size).plain()
    style.note(
        axes,
        words,
        (size, height),
        of=("data", "axes fraction"),
        offset=offset,
        rotation=90,
        **look,
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
    sentence=range_in("links", "bus_bandwidth_gb_per_s", what="Bus bandwidths", unit="GB/s"),
    tables=("links",),
)


def _buckets(shown: Shown) -> pd.DataFrame:
    """The variants that set buckets alone, of the groups in which two sizes at least were
    measured.
    """
    rows = shown.rows.merge(
        shown.tables.communication.drop(columns=["workload", "device"]), on="variant"
    )
    alone = rows["options"].map(sets_bucket_alone).astype(bool) & (rows["accumulation"] == 1)
    alike = rows["bound"].isin(rows.loc[rows["is_baseline"], "bound"])
    rows = rows[alone & alike].dropna(subset=EXPOSED.column)
    places = (
        rows.groupby("group")["bucket_mib"].transform("nunique")
        if len(rows)
        else pd.Series(dtype="int64")
    )
    return rows[places >= _FEWEST_POINTS]


def _with_panels(rows: pd.DataFrame, _: str) -> pd.DataFrame:
    """A panel for what its rows share besides the setting."""
    labelled = labels.with_labels(rows, without=_NOT_OF_A_PANEL)
    labelled = labelled.assign(panel=labels.full_names(labelled))
    return labels.sorted_by(labelled.assign(group_on_page=labelled["panel"]), "panel")


def exposed_figure(shown: Shown) -> Figure:
    """Draw exposed communication along the size of the buckets, with what the trace says of it, and
    the link.
    """
    panels = list(shown.rows.groupby("panel", sort=False))
    links = shown.tables.links[shown.tables.links["devices"] == shown.rows["devices"].max()]
    columns = len(panels) + bool(len(links))
    figure = style.new_figure(height_in=_EXPOSED_HEIGHT_IN)
    row_of_axes = figure.subplots(1, columns, squeeze=False)[0]
    for axes, (title, rows) in zip(row_of_axes, panels, strict=False):
        style.set_panel_title(axes, str(title), columns=columns)
        panel = rows.sort_values("bucket_mib").assign(**EXPOSED.intervals(rows))
        draw_line(axes, panel, axis="bucket_mib", look=_LOOK)
        style.level(axes, 0, EXPOSED.reference_label, at_left=False, zorder=1)
        in_trace = panel.dropna(subset="exposed_in_trace_ms")
        axes.plot(in_trace["bucket_mib"], in_trace["exposed_in_trace_ms"], **_TRACE)
        scale_measured_values(axes, panel["bucket_mib"], columns=columns)
        axes.set_xlabel("Bucket size (MiB)")
    row_of_axes[0].set_ylabel("Exposed (ms)")
    handles = [Line2D([], [], color=_LOOK[0], marker=_LOOK[1], label="measured")]
    if shown.rows["exposed_in_trace_ms"].notna().any():
        handles.append(Line2D([], [], label="in the trace", **_TRACE))
    handles += hollow_handles(shown.rows["marks"])
    if len(links):
        draw_link(row_of_axes[-1], links, columns=columns)
        handles += link_handles(links)
    figure.legend(handles=handles, loc="outside upper left", ncols=6, borderaxespad=0.2)
    return figure


EXPOSED_COMMUNICATION: Final = VariantFigure(
    name="exposed",
    title="Exposed communication by bucket size",
    caption="Exposed communication in a step by bucket size (25 MiB by default), with {intervals}.",
    caption_on_gpus="In the trace: a collective and no other kernel runs. Right: bus bandwidth of "
    "the link by payload; dashed lines: DDP's first bucket and its other buckets by default.",
    along=("optimization",),
    rows=_buckets,
    draw=exposed_figure,
    layout=high_panels(_PANELS, _with_panels),
    sentences=(extremes_of(EXPOSED),),
    tables=("communication", "links"),
)
