"""Trainings that several devices share: exposed communication by bucket size, a pipeline by its micro-batches.

experiment table, communication or model_splits -> panels (what variants share) -> a line along bucket or micro-batches
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures import labels, style
from gpu_report.figures.alt_text import extremes_of
from gpu_report.figures.curves import draw_line, hollow_handles, scale_measured_values
from gpu_report.figures.declaration import Shown, VariantFigure, high_panels
from gpu_report.glossary import EXPOSED, OVER_ONE, Metric
from gpu_report.tables.communication import sets_bucket_alone

_PANEL_HEIGHT_IN: Final = 1.9
_LEGEND_HEIGHT_IN: Final = 0.3
_PANELS: Final = 2
_FEWEST_POINTS: Final = 2
_LOOK: Final = (style.BLUE, "s")
_TRACE: Final[dict[str, Any]] = {"color": style.VERMILLION, "marker": "x", "linestyle": "none"}
_FORMULA: Final[dict[str, Any]] = {"color": style.QUIET, "linestyle": ":", "linewidth": 1.0}


def _beside(shown: Shown, table: str) -> pd.DataFrame:
    """The variants that the other table has too, with its columns."""
    found: pd.DataFrame = getattr(shown.tables, table)
    return shown.rows.merge(found.drop(columns=["workload", "device"]), on="variant")


def _with_points(rows: pd.DataFrame, along: str, metric: Metric, *, by: Sequence[str]) -> pd.DataFrame:
    """The rows that have the number, of the groups in which it was measured at two places at least."""
    rows = rows.dropna(subset=metric.column)
    places = rows.groupby([*by])[along].transform("nunique") if len(rows) else pd.Series(dtype="int64")
    return rows[places >= _FEWEST_POINTS]


def _buckets(shown: Shown) -> pd.DataFrame:
    rows = _beside(shown, "communication")
    alone = rows["options"].map(sets_bucket_alone).astype(bool) & (rows["accumulation"] == 1)
    alike = rows["bound"].isin(rows.loc[rows["is_baseline"], "bound"])
    return _with_points(rows[alone & alike], "bucket_mib", EXPOSED, by=["group"])


def _pipelines(shown: Shown) -> pd.DataFrame:
    rows = _beside(shown, "model_splits")
    return _with_points(rows[rows["strategy"] == "pipeline"], "micro_batches", OVER_ONE, by=["plain"])


def _panels_without(*fields: str) -> Callable[[pd.DataFrame, str], pd.DataFrame]:
    """A panel for what its rows share besides these fields."""

    def label(rows: pd.DataFrame, _: str) -> pd.DataFrame:
        labelled = labels.with_labels(rows, without=fields)
        labelled = labelled.assign(panel=labels.full_names(labelled))
        return labels.sorted_by(labelled.assign(group_on_page=labelled["panel"]), "panel")

    return label


def _figure(
    shown: Shown, metric: Metric, *, along: str, name: str, draw: Callable[[Axes, pd.DataFrame], list[Line2D]]
) -> Figure:
    """Panels side by side; `draw` adds to each what its line is to be compared with, and says what that is."""
    panels = list(shown.rows.groupby("panel", sort=False))
    figure = style.new_figure(height_in=_PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    handles = [Line2D([], [], color=_LOOK[0], marker=_LOOK[1], label="measured")]
    for axes, (title, rows) in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels, strict=True):
        style.set_panel_title(axes, str(title), columns=len(panels))
        panel = rows.sort_values(along).assign(**metric.intervals(rows))
        draw_line(axes, panel, axis=along, look=_LOOK)
        beside = draw(axes, panel)
        handles += [each for each in beside if each.get_label() not in [known.get_label() for known in handles]]
        scale_measured_values(axes, panel[along], columns=len(panels))
    handles += hollow_handles(shown.rows["marks"])
    figure.supxlabel(name, fontsize=style.FONT_SIZE_PT)
    figure.supylabel(metric.axis_label, fontsize=style.FONT_SIZE_PT)
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), borderaxespad=0.2)
    return figure


def exposed_figure(shown: Shown) -> Figure:
    """Draw exposed communication along the size of the buckets, with what the trace says of it."""

    def draw(axes: Axes, panel: pd.DataFrame) -> list[Line2D]:
        style.level(axes, 0, EXPOSED.reference_label, at_left=False, zorder=1)
        in_trace = panel.dropna(subset="exposed_in_trace_ms")
        axes.plot(in_trace["bucket_mib"], in_trace["exposed_in_trace_ms"], **_TRACE)
        return [] if in_trace.empty else [Line2D([], [], label="in the trace of rank 0", **_TRACE)]

    return _figure(shown, EXPOSED, along="bucket_mib", name="Bucket size (MiB)", draw=draw)


def pipeline_figure(shown: Shown) -> Figure:
    """Draw the speedup of a pipeline along its micro-batches, with what its bubble alone would leave of it."""

    def draw(axes: Axes, panel: pd.DataFrame) -> list[Line2D]:
        style.level(axes, 1, OVER_ONE.reference_label, at_left=False, zorder=1)
        axes.plot(panel["micro_batches"], panel["devices"] * (1 - panel["bubble_share"]), zorder=1, **_FORMULA)
        axes.set_ylim(0, 1.08 * panel["devices"].max())
        return [Line2D([], [], label="with the bubble of the formula alone", **_FORMULA)]

    return _figure(shown, OVER_ONE, along="micro_batches", name="Micro-batches", draw=draw)


EXPOSED_COMMUNICATION: Final = VariantFigure(
    name="exposed",
    title="Exposed communication by bucket size",
    caption=(
        "Exposed communication in a step by the size of DistributedDataParallel's buckets, 25 MiB by default: the "
        "time of the step less that of the same training without communication, process by process. Points are means, "
        "bars 95 % intervals (of three processes ranges)."
    ),
    caption_on_gpus="A cross is the time in which a collective and no other kernel ran in the trace.",
    along=("optimization",),
    rows=_buckets,
    draw=exposed_figure,
    layout=high_panels(_PANELS, _panels_without("workers", "accumulation", "options", "optimization")),
    sentences=(extremes_of(EXPOSED),),
    tables=("communication",),
)
PIPELINE: Final = VariantFigure(
    name="pipeline",
    title="Speedup of a pipeline by micro-batches",
    caption=(
        "Throughput of a pipeline over that of one device with the same batch, by the number of micro-batches. Points "
        "are means, bars 95 % intervals (of three processes ranges). Dotted: the speedup of p devices that lose only "
        "the bubble, p m / (m + p - 1) of m micro-batches."
    ),
    along=("parallelism",),
    rows=_pipelines,
    draw=pipeline_figure,
    layout=high_panels(_PANELS, _panels_without("accumulation", "strategy", "devices", "parallelism")),
    sentences=(extremes_of(OVER_ONE, along="accumulation"),),
    tables=("model_splits",),
)
