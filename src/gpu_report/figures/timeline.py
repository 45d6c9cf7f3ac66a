"""One step of each variant along time: the loop's phases, the host's threads and the device's
streams side by side.

timelines -> panels (variant) -> lanes -> stretches, colored by what went on and as high as they
were busy
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpu_report.figures import labels, style
from gpu_report.figures.declaration import Shown, VariantFigure, high_panels, range_in, row_groups
from gpu_report.figures.stacked_bars import (
    CATEGORY_COLORS,
    LEGEND_COLUMNS,
    PHASE_COLORS,
    REST,
    add_patch_legend,
    profiled_rows,
    write_in_bar,
)
from gpu_report.printing.number_format import duration
from gpu_report.traces.quality import NOT_RELIABLE
from gpu_report.traces.timeline import HOST_LANE, PHASE_LANE

MOST_PANELS: Final = 2
"""As many as one figure holds; more would take the chapter a second page."""

_Look = Mapping[str, Any]
_SOLID: Final[_Look] = {"edgecolor": "none", "linewidth": 0}
_HATCHED: Final[_Look] = {"facecolor": style.OTHERS, "edgecolor": style.QUIET, "linewidth": 0.3}
_UNKNOWN: Final = "kind not known"
_LOOKS: Final[Mapping[str, _Look]] = {
    **{category: {**_SOLID, "facecolor": color} for category, color in CATEGORY_COLORS.items()},
    "data loading": {**_HATCHED, "hatch": "....."},
    REST: {**_HATCHED, "hatch": "/////"},
    _UNKNOWN: {**_SOLID, "facecolor": style.QUIET},
}

_PHASE_LOOKS: Final[Mapping[str, _Look]] = {
    phase: {"facecolor": color, "edgecolor": style.QUIET, "linewidth": 0.4}
    for phase, color in PHASE_COLORS.items()
}

_LANE_HEIGHT_IN: Final = 0.22
_PANEL_EXTRA_IN: Final = 0.5
_LEGEND_ROW_IN: Final = 0.2
_FULL_HEIGHT: Final = 0.8
_LEAST_HEIGHT: Final = 0.08
"""Of a lane's height: what was busy at all stays visible."""

_LEAST_CHARACTER_SHARE: Final = 0.0105
"""Of a panel's width, for each letter of a phase's name in its bar."""


def _first_timelines(shown: Shown) -> pd.DataFrame:
    """The first variants of the figure of steps that have a timeline."""
    rows = profiled_rows(shown)
    return rows[rows["variant"].isin(shown.tables.timelines["variant"])].head(MOST_PANELS)


def timelines_figure(shown: Shown) -> Figure:
    """Draw a panel for each variant."""
    frame, timelines = shown.rows, shown.tables.timelines
    is_phase = timelines["lane"] == PHASE_LANE
    names = timelines["category"].where(is_phase, timelines["category"].map(_category_shown))
    timelines = timelines.assign(shown_as=names)[timelines["variant"].isin(frame["variant"])]
    looks = {
        name: look
        for name, look in _LOOKS.items()
        if name in set(timelines.loc[~is_phase, "shown_as"])
    }
    phases = {
        name: look
        for name, look in _PHASE_LOOKS.items()
        if name in set(timelines.loc[is_phase, "shown_as"])
    }
    stretches = {
        str(variant): timelines[timelines["variant"] == variant] for variant in frame["variant"]
    }
    lanes = [_lanes(row, stretches[row["variant"]]) for _, row in frame.iterrows()]
    heights = [len(lane_names) * _LANE_HEIGHT_IN + _PANEL_EXTRA_IN for lane_names in lanes]
    legend_rows = 4 + math.ceil(len(looks) / LEGEND_COLUMNS)
    figure = style.new_figure(height_in=sum(heights) + legend_rows * _LEGEND_ROW_IN)
    panels = figure.subplots(len(frame), squeeze=False, height_ratios=heights)[:, 0]
    for axes, lane_names, (_, row) in zip(panels, lanes, frame.iterrows(), strict=True):
        own = stretches[row["variant"]]
        _draw_panel(axes, lane_names, own)
        took = duration(float(own["wall_ms"].iloc[0]) / 1e3).plain()
        axes.set_title(f"{labels.joined(row['heading'], row['label'])}: a step of {took}")
    panels[-1].set_xlabel("Time since the step began (ms)")
    add_patch_legend(figure, phases, title="Phases of the step", loc="outside upper left")
    add_patch_legend(figure, looks, title="Work on threads and streams", loc="outside lower left")
    return figure


def _lanes(row: "pd.Series[Any]", stretches: pd.DataFrame) -> list[str]:
    """The lanes from top to bottom; a GPU of which nothing can be shown has one all the same."""
    lanes = list(dict.fromkeys(stretches["lane"]))
    on_host = all(lane == PHASE_LANE or lane.startswith(HOST_LANE) for lane in lanes)
    return [*lanes, "streams"] if on_host and row["device"] != "cpu" else lanes


def _category_shown(category: str) -> str:
    return _UNKNOWN if not category else category if category in _LOOKS else REST


def _draw_panel(axes: Axes, lanes: list[str], stretches: pd.DataFrame) -> None:
    wall_ms = float(stretches["wall_ms"].iloc[0])
    for position, lane in enumerate(lanes):
        own = stretches[stretches["lane"] == lane]
        axes.axhline(position + _FULL_HEIGHT / 2, color=style.GRID, linewidth=0.5, zorder=1)
        if own.empty:
            axes.text(
                wall_ms / 2, position, NOT_RELIABLE, ha="center", va="center", color=style.QUIET
            )
        elif lane == PHASE_LANE:
            _draw_stretches(axes, position, own, _PHASE_LOOKS)
            _name_phases(axes, position, own, wall_ms)
        else:
            _draw_stretches(axes, position, own, _LOOKS)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_xlim(0, wall_ms)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(style.tick_text))
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _draw_stretches(
    axes: Axes, position: int, stretches: pd.DataFrame, looks: Mapping[str, _Look]
) -> None:
    for name, own in stretches.groupby("shown_as", sort=False):
        begin, end = own["begin_ms"].to_numpy(), own["end_ms"].to_numpy()
        bottom = np.full(len(own), position + _FULL_HEIGHT / 2)
        top = bottom - _FULL_HEIGHT * own["busy_share"].clip(lower=_LEAST_HEIGHT).to_numpy()
        corners = np.stack([begin, bottom, begin, top, end, top, end, bottom], axis=1).reshape(
            -1, 4, 2
        )
        # One thing to draw instead of one for each of hundreds of bars.
        axes.add_collection(PolyCollection(list(corners), **looks[str(name)]), autolim=False)


def _name_phases(axes: Axes, position: int, stretches: pd.DataFrame, wall_ms: float) -> None:
    """The name of each phase in its bar, where it fits."""
    for _, row in stretches.iterrows():
        phase = str(row["category"])
        if row["end_ms"] - row["begin_ms"] > len(phase) * _LEAST_CHARACTER_SHARE * wall_ms:
            middle = ((row["begin_ms"] + row["end_ms"]) / 2, position)
            write_in_bar(axes, middle, phase, color=PHASE_COLORS[phase])


TIMELINE: Final = VariantFigure(
    name="timeline",
    title="One step along time",
    caption=(
        "The profiled step of median wall time of some configurations: the phases of the loop, "
        "and the busiest threads of the host, by the innermost call that ran there. A bar is as "
        "high as the share of its time in which anything ran."
    ),
    caption_on_gpus="Below are the GPU's busiest streams, by the work that ran there.",
    rows=_first_timelines,
    draw=timelines_figure,
    layout=high_panels(
        MOST_PANELS,
        lambda rows, axis: row_groups(rows, axis).assign(
            group_on_page=lambda labelled: labelled["variant"]
        ),
    ),
    sentences=(range_in("timelines", "wall_ms", what="The steps", unit="ms"),),
    tables=("timelines",),
)
