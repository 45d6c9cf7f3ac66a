"""The charts of the summary side by side: CPU against GPU, the optimization ladder, and the
roofline of the device.

tables -> a panel for each that has data -> Figure
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gpu_report.figures import labels, style
from gpu_report.figures.declaration import MachineFigure
from gpu_report.figures.ladder import draw_ladder, is_ladder, ladder_handles
from gpu_report.figures.roofline import draw_roofline, roofline_handles
from gpu_report.figures.rows import draw_rows
from gpu_report.glossary import SPEEDUP, capitalized, device_words
from gpu_report.tables.bundle import Tables

_LEGEND_COLUMNS: Final = 6


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One chart; `width` is its share of the page beside those of the others."""

    title: str
    shows: str
    """What the caption says of it."""
    width: float
    draw: Callable[[Axes], None]
    handles: Sequence[Line2D | Patch]


def draw_overview(tables: Tables) -> Figure:
    """Draw the charts that have data, with one legend below."""
    panels = _panels(tables)
    handles = [
        handle for panel in panels for handle in panel.handles if str(handle.get_label()).strip()
    ]
    legend_rows = -(-len(handles) // _LEGEND_COLUMNS)
    figure = style.new_figure(height_in=2.0 + 0.18 * legend_rows)
    grid = figure.subplots(
        1, len(panels), squeeze=False, width_ratios=[panel.width for panel in panels]
    )
    for axes, panel in zip(grid.flat, panels, strict=True):
        panel.draw(axes)
        axes.set_title(panel.title, fontsize=style.SMALL_FONT_SIZE_PT)
        axes.tick_params(labelsize=style.TINY_FONT_SIZE_PT)
        axes.xaxis.label.set_size(style.TINY_FONT_SIZE_PT)
        axes.yaxis.label.set_size(style.TINY_FONT_SIZE_PT)
    if handles:
        figure.legend(
            handles=handles,
            loc="outside lower left",
            ncols=_LEGEND_COLUMNS,
            fontsize=style.TINY_FONT_SIZE_PT,
        )
    return figure


def _panels(tables: Tables) -> list[_Panel]:
    found = (_devices(tables), _ladder(tables), _roofline(tables))
    return [panel for panel in found if panel is not None]


def _devices(tables: Tables) -> _Panel | None:
    """The speedup over the CPU of each model, of the first experiment that compares devices."""
    compared = (
        frame[(frame["device"] != "cpu") & ~frame["is_baseline"] & frame[SPEEDUP.column].notna()]
        for frame in tables.experiments.values()
        if frame["device"].eq("cpu").any() and not frame["begins_anew"].any()
    )
    on_gpu = next((rows for rows in compared if not rows.empty), None)
    if on_gpu is None:
        return None
    rows = labels.with_titles(on_gpu, tables.variants)
    names = [
        labels.shortened(labels.workload_label(row), most_chars=22) for _, row in rows.iterrows()
    ]
    rows = rows.assign(heading="", label=names)
    metric = replace(SPEEDUP.named(baseline="CPU"), reference_label="")
    return _Panel(
        title="GPU against CPU\n",
        shows="speedups over the CPU",
        width=1,
        draw=lambda axes: draw_rows(axes, rows, metric=metric, numbers=""),
        handles=(),
    )


def _ladder(tables: Tables) -> _Panel | None:
    """The first optimization ladder."""
    groups = (
        group
        for frame in tables.experiments.values()
        for _, group in frame.groupby("group", sort=False)
    )
    ladder = next(
        (rows for rows in groups if is_ladder(rows) and rows[SPEEDUP.column].notna().any()), None
    )
    if ladder is None:
        return None
    rows = labels.with_row_labels(labels.with_titles(ladder, tables.variants), axis="optimization")
    rows = rows.assign(heading="")
    individual, cumulative, without = ladder_handles()
    cumulative.set_label("cumulative")
    return _Panel(
        title=f"Optimization ladder\n{labels.workload_label(rows.iloc[0])}, from "
        f"{rows.loc[rows['is_baseline'], 'precision'].iloc[0]}",
        shows="speedups over the eager baseline",
        width=1.15,
        draw=lambda axes: draw_ladder(axes, rows, with_numbers=False),
        handles=[individual, cumulative, without],
    )


def _roofline(tables: Tables) -> _Panel | None:
    """That of the GPU, of the CPU where there is none."""
    devices = sorted(dict.fromkeys(tables.efficiency["device"]), key=lambda device: device == "cpu")
    if not devices:
        return None
    efficiency = tables.efficiency[tables.efficiency["device"] == devices[0]]
    peaks = tables.peaks[tables.peaks["device"] == devices[0]]

    def draw(axes: Axes) -> None:
        draw_roofline(axes, efficiency, peaks, with_numbers=False)
        axes.set_xlabel("Intensity (FLOP per byte)")
        axes.set_ylabel("Achieved per device (FLOP/s)")

    return _Panel(
        title=f"Roofline\n{device_words(devices[0])}",
        shows="achieved rates below the measured roofs",
        width=1.15,
        draw=draw,
        handles=roofline_handles(tables, efficiency),
    )


def _caption(tables: Tables) -> str:
    *first, last = (panel.shows for panel in _panels(tables))
    shown = f"{', '.join(first)} and {last}" if first else last
    return f"{capitalized(shown)}. Bars show {{intervals}}."


OVERVIEW: Final = MachineFigure(
    name="overview",
    title="The study at a glance",
    caption=_caption,
    has_data=lambda tables: bool(_panels(tables)),
    draw=draw_overview,
    sentence=lambda shown: (
        f"Panels: {'; '.join(' '.join(panel.title.split()) for panel in _panels(shown.tables))}."
    ),
    tables=("variants", "efficiency", "peaks"),
)
