"""How fast the variants of an experiment train: throughput, speedup, and where a speedup crosses from slow to fast.

experiment table -> rows (variant), or panels (what the variants share) of lines (device) along an axis of numbers
"""

import math
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.alt_text import extremes_of
from gpu_report.figures.curves import add_legend, draw_gaps, draw_lines, scale_measured_values
from gpu_report.figures.declaration import Layout, PageLimits, Shown, VariantFigure, high_panels, panel_groups
from gpu_report.figures.frontier import reaches_frontier
from gpu_report.figures.rows import rows_figure
from gpu_report.glossary import AXES, SPEEDUP, THROUGHPUT
from gpu_report.number_format import quantity

_SINGLE_PANEL_HEIGHT_IN: Final = 1.95
_PANEL_HEIGHT_IN: Final = 1.6
_LEGEND_HEIGHT_IN: Final = 0.35
_CROSSOVER_HEIGHT_IN: Final = 2.0
_CROSSOVER_LEGEND_IN: Final = 0.3
_NUMBERS: Final = ("batch_size", "accumulation", "workers", "epochs", "steps_per_epoch", "seed")
"""Axes along which a line means something."""
_VERDICTS: Final = {
    "accelerator always": "faster at every size",
    "cpu always": "slower at every size",
    "unclear": "no clear crossover",
}


def repeats_crossover(shown: Shown) -> bool:
    """Whether it is a series of batch sizes, and another experiment compares the devices as well."""
    series = set(shown.tables.crossovers["experiment"])
    others = [frame for name, frame in shown.tables.experiments.items() if name not in series]
    elsewhere = any((frame.groupby("group")["device"].nunique() > 1).any() for frame in others)
    return shown.subject.name in series and elsewhere


def _repeats_frontier(shown: Shown) -> bool:
    """Whether the figure of the batch frontier shows all its variants already."""
    groups = shown.rows.groupby("group")
    return shown.subject.axis == "batch_size" and all(reaches_frontier(group) for _, group in groups)


def _repeats_speedup(shown: Shown) -> bool:
    """Whether the figure of the speedup between devices is drawn, which is that of their throughputs."""
    return shown.subject.axis == "device" and not _compared(shown).empty


def _compared(shown: Shown) -> pd.DataFrame:
    """Variants with a baseline to compare them with, and those that failed."""
    others = shown.rows[~shown.rows["is_baseline"]]
    compared = others[others[SPEEDUP.column].notna() | (others["status"] != "ok")]
    return compared if compared[SPEEDUP.column].notna().any() else compared.iloc[:0]


def _measured(shown: Shown) -> pd.DataFrame:
    return shown.rows if shown.rows[THROUGHPUT.column].notna().any() else shown.rows.iloc[:0]


def curves_figure(shown: Shown) -> Figure:
    """Draw throughput along an axis of numbers, a panel for each group; hollow markers are doubted numbers."""
    rows, axis = shown.rows, shown.subject.axis
    panels, devices = list(rows.groupby("panel", sort=False)), list(dict.fromkeys(rows["device"]))
    columns = min(len(panels), 2) if len(panels) in (1, 2, 4) else 3 if len(panels) <= 9 else 4
    lines = math.ceil(len(panels) / columns)
    height_in = lines * _PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN if len(panels) > 1 else _SINGLE_PANEL_HEIGHT_IN
    figure = style.new_figure(height_in=height_in)
    grid = [figure.add_subplot(lines, columns, position) for position in range(1, len(panels) + 1)]
    for axes, (title, panel) in zip(grid, panels, strict=True):
        style.set_panel_title(axes, str(title), columns=columns)
        numbers = THROUGHPUT.intervals(panel)
        drawn = numbers.dropna()
        style.set_scale(axes, "y", [*drawn["low"], *drawn["high"]])
        draw_lines(axes, panel.assign(**numbers), axis=axis, devices=devices)
        draw_gaps(axes, panel[numbers["value"].isna()], axis=axis, name_device=len(devices) > 1)
        scale_measured_values(axes, panel[axis], columns=columns)
    figure.supxlabel(labels.axis_label(axis), fontsize=style.FONT_SIZE_PT)
    figure.supylabel(THROUGHPUT.axis_label, fontsize=style.FONT_SIZE_PT)
    marks = rows.loc[rows[THROUGHPUT.column].notna(), "marks"]
    add_legend(figure, devices if len(devices) > 1 else [], marks=marks)
    return figure


def _crossing(shown: Shown) -> pd.DataFrame:
    others = shown.rows[~shown.rows["is_baseline"]]
    known = shown.subject.name in set(shown.tables.crossovers["experiment"])
    return others if known and others[SPEEDUP.column].notna().any() else others.iloc[:0]


def crossover_figure(shown: Shown) -> Figure:
    """Draw the speedup of the accelerators along the batch size, and where it crosses 1."""
    rows, baseline = shown.rows, shown.subject.baseline
    crossovers = shown.tables.crossovers[shown.tables.crossovers["experiment"] == shown.subject.name]
    panels, devices = list(rows.groupby("panel", sort=False)), list(dict.fromkeys(rows["device"]))
    columns = min(len(panels), 2)
    lines = math.ceil(len(panels) / columns)
    figure = style.new_figure(height_in=lines * _CROSSOVER_HEIGHT_IN + _CROSSOVER_LEGEND_IN)
    for position, (title, panel) in enumerate(panels, start=1):
        axes = figure.add_subplot(lines, columns, position)
        style.set_panel_title(axes, str(title), columns=columns)
        numbers = SPEEDUP.intervals(panel)
        style.set_scale(axes, "y", [1.0, *numbers["low"].dropna(), *numbers["high"].dropna()])
        axes.axhline(1, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
        style.note(
            axes,
            f"as fast as {baseline}",
            (1, 1),
            of=("axes fraction", "data"),
            offset=(-2, 2),
            ha="right",
            va="bottom",
        )
        draw_lines(axes, panel.assign(**numbers), axis="batch_size", devices=["cpu", *devices])
        for device, own in panel.groupby("device", sort=False):
            color, _ = style.device_look(str(device), ["cpu", *devices])
            found = crossovers[(crossovers["device"] == device) & (crossovers["workload"] == own["workload"].iloc[0])]
            for _, crossover in found[[_belongs(row, panel) for _, row in found.iterrows()]].iterrows():
                _shade(axes, crossover, color=color)
        draw_gaps(axes, panel[numbers["value"].isna()], axis="batch_size", name_device=True)
        scale_measured_values(axes, panel["batch_size"], columns=columns)
    figure.supxlabel(labels.axis_label("batch_size"), fontsize=style.FONT_SIZE_PT)
    figure.supylabel(SPEEDUP.named(baseline=baseline).axis_label, fontsize=style.FONT_SIZE_PT)
    marks = rows.loc[rows[SPEEDUP.column].notna(), "marks"]
    add_legend(figure, devices if len(devices) > 1 else [], marks=marks)
    return figure


def _belongs(crossover: "pd.Series[Any]", panel: pd.DataFrame) -> bool:
    """Whether a crossover is of this panel: the panel's groups hold its words, and the words of a device or batch."""
    return all(set(str(crossover["group"]).split()) <= set(group.split()) for group in panel["group"])


def _shade(axes: Axes, crossover: "pd.Series[Any]", *, color: str) -> None:
    value, low, high = (crossover[f"batch_size{end}"] for end in ("", "_low", "_high"))
    text = _VERDICTS.get(crossover["verdict"], "")
    if not text:
        if pd.isna(value):
            return
        if pd.notna(low) and pd.notna(high):
            axes.axvspan(low, high, color=color, alpha=0.2, linewidth=0)
        axes.axvline(value, color=color, linestyle=":", linewidth=1.0)
        text = f"crosses at {quantity(value, low=low, high=high).plain()}"
    style.note(axes, text, (0.02, 0.97), color=style.INK, ha="left", va="top", bbox=style.BLANK)


_HOW_TO_READ: Final = "Points are means, bars 95 % intervals (of three processes ranges); hollow ones are doubted."
_THROUGHPUT: Final[dict[str, Any]] = {
    "name": "throughput",
    "title": "Throughput by {axis}",
    "caption": f"Training throughput by {{axis}}, over the timed epochs; more is better. {_HOW_TO_READ}",
    "rows": _measured,
    "told": (extremes_of(THROUGHPUT),),
    "unless": (repeats_crossover, _repeats_frontier, _repeats_speedup),
}

SPEEDUP_ROWS: Final = VariantFigure(
    name="speedup",
    title="Speedup by {axis}",
    caption=(f"Speedup over {{baseline}}, by throughput; right of the dashed line is what is faster. {_HOW_TO_READ}"),
    along=("device", "precision"),
    rows=_compared,
    draw=lambda shown: rows_figure(shown.rows, metric=SPEEDUP.named(**shown.subject.words)),
    told=(extremes_of(SPEEDUP),),
    unless=(repeats_crossover,),
)
THROUGHPUT_ROWS: Final = VariantFigure(
    along=frozenset(AXES) - {"optimization", "precision", "workload", *_NUMBERS},
    draw=lambda shown: rows_figure(shown.rows, metric=THROUGHPUT),
    **_THROUGHPUT,
)
THROUGHPUT_CURVES: Final = VariantFigure(
    along=_NUMBERS,
    draw=curves_figure,
    layout=Layout(label=panel_groups, limits=PageLimits(groups=16, lines=1000)),
    **_THROUGHPUT,
)
CROSSOVER: Final = VariantFigure(
    name="crossover",
    title="Crossover of the devices",
    caption=(
        "Speedup over {baseline} against the batch size: above the dashed line the accelerator is faster. The dotted "
        "line marks where both are equally fast, the shade its 95 % interval."
    ),
    along=("device",),
    rows=_crossing,
    draw=crossover_figure,
    layout=high_panels(6, lambda rows, _: panel_groups(rows, "batch_size")),
    told=(extremes_of(SPEEDUP, along="batch_size"),),
    tables=("crossovers",),
)
