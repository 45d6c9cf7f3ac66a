"""DistributedDataParallel's settings: exposed communication by bucket size, beside what the link
carries by payload.

experiment table, communication -> panels (what variants share) -> a line along the size of buckets;
links -> a panel
"""

from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures import labels, style
from gpu_report.figures.alt_text import extremes_of
from gpu_report.figures.curves import draw_line, hollow_handles, scale_measured_values
from gpu_report.figures.declaration import Shown, VariantFigure, high_panels
from gpu_report.figures.links import draw_link, link_handles
from gpu_report.glossary import EXPOSED
from gpu_report.tables.communication import sets_bucket_alone

_HEIGHT_IN: Final = 1.9
_PANELS: Final = 2
_FEWEST_POINTS: Final = 2
_LOOK: Final = (style.BLUE, "s")
_TRACE: Final[dict[str, Any]] = {"color": style.VERMILLION, "marker": "x", "linestyle": "none"}
_NOT_OF_A_PANEL: Final = ("workers", "accumulation", "options", "optimization")


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
    figure = style.new_figure(height_in=_HEIGHT_IN)
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
