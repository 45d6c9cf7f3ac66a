"""The kinds of figures that show what the profiled steps consist of, on the first variant of each workload and device.

study, tables -> kind -> rows (one per variant) -> Figure
"""

from collections.abc import Mapping
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import labels
from gpu_report.figures.alt_text import largest_columns, largest_parts, range_in
from gpu_report.figures.idle import draw_idle, first_on_accelerators
from gpu_report.figures.kind import ROWS, Kind, Subject, row_groups
from gpu_report.figures.operations import category_colors
from gpu_report.figures.pages import PageLimits
from gpu_report.figures.step_shares import draw_step_shares, profiled_rows
from gpu_report.figures.timeline import draw_timelines, shown_in_timelines
from gpu_report.tables.bundle import Tables
from gpu_report.tables.trace_schema import STEP_PARTS

_TIMELINES: Final = PageLimits(groups=2, lines=1000)


def _profiled(rows: pd.DataFrame, _: Subject, tables: Tables) -> pd.DataFrame:
    return profiled_rows(rows, tables)


def _on_accelerators(rows: pd.DataFrame, _: Subject, tables: Tables) -> pd.DataFrame:
    """None where no gap of any of them can be shown."""
    rows = first_on_accelerators(rows, tables)
    return rows if rows["variant"].isin(tables.idle_causes["variant"]).any() else rows.iloc[:0]


def _one_list(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """A row per variant with all its names beside it, since most workloads have one and would take two lines."""
    labelled = row_groups(rows, axis)
    names = [labels.joined(*parts) for parts in zip(labelled["heading"], labelled["label"], strict=True)]
    return labelled.assign(label=names, heading="")


def _draw_timelines(rows: pd.DataFrame, _: Subject, tables: Tables) -> Figure:
    return draw_timelines(rows, tables.timelines, colors=category_colors(tables.category_shares))


TRACE_KINDS: Final[Mapping[str, Kind]] = {
    "steps": Kind(
        title="What a step consists of",
        caption=(
            "What the wall time of the profiled steps went into: each moment counts once, for the first part in this "
            "order that goes on in it; numbers in the bars are per cent."
        ),
        caption_on_accelerators=(
            "Right of an accelerator's bar stand its kernel-active time as a share, and that in which it "
            "waited for the next launch."
        ),
        suits=lambda axis: not axis,
        rows=_profiled,
        draw=lambda rows, _, tables: draw_step_shares(rows, tables.step_shares),
        groups=_one_list,
        limits=lambda _, __: ROWS,
        told=(largest_columns("step_shares", {f"{part}_share": part for part in STEP_PARTS}),),
    ),
    "timeline": Kind(
        title="One step along time",
        caption=(
            "The profiled step of median wall time of some variants: the phases of the loop, and the busiest threads "
            "of the host, by the innermost call that ran there. A bar is as high as the share of its time in which "
            "anything ran."
        ),
        caption_on_accelerators="Below stand the accelerator's busiest streams, by the work that ran there.",
        suits=lambda axis: not axis,
        rows=lambda rows, _, tables: shown_in_timelines(rows, tables),
        draw=_draw_timelines,
        groups=lambda rows, axis: row_groups(rows, axis).assign(group_on_page=lambda labelled: labelled["variant"]),
        limits=lambda _, __: _TIMELINES,
        told=(range_in("timelines", "wall_ms", what="The steps", unit="ms"),),
    ),
    "idle": Kind(
        title="Why the accelerator was idle",
        caption=(
            "The share of the steps' wall time in which the accelerator did nothing, by what ended each gap; what is "
            "left to the whole it was busy. At the right stand the sum and the longest gap."
        ),
        suits=lambda axis: not axis,
        rows=_on_accelerators,
        draw=lambda rows, _, tables: draw_idle(rows, tables.idle_causes, tables.step_shares),
        groups=_one_list,
        limits=lambda _, __: ROWS,
        told=(largest_parts("idle_causes", "cause"),),
    ),
}
"""By the word that ends the figure's name."""
