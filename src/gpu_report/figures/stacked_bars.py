"""What the time of the profiled steps went into, and why the GPU was idle in it: one stacked bar
per variant.

trace tables -> rows (variant) -> segments (category of operations, phase, part of a step, or cause
of a gap)

A category, a phase, a part and a cause has the same color in every figure.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gpu_report.figures import labels, palette, style
from gpu_report.figures.declaration import (
    Shown,
    found_in,
    largest_parts,
    variant_figure,
    without_own_loops,
)
from gpu_report.figures.points import place_rows
from gpu_report.figures.speed import repeats_crossover
from gpu_report.glossary import american
from gpu_report.printing.number_format import duration, share
from gpu_report.tables.bundle import rows_of, shown_profiles
from gpu_report.tables.traces import STEP_PARTS
from gpu_report.traces.idle import OTHER_RANKS
from gpu_report.traces.quality import NOT_RELIABLE

PART_COLORS: Final[Mapping[str, str]] = dict(
    zip(
        STEP_PARTS,
        (
            *(palette.BLUE, palette.ORANGE, palette.YELLOW, palette.VERMILLION),
            *(palette.PURPLE, palette.GREEN, palette.SKY, palette.OTHERS),
        ),
        strict=True,
    )
)
"""Neighbours differ in grey too; parts are in the order in which a moment counts for them."""

CAUSE_COLORS: Final[Mapping[str, str]] = {
    "launch": palette.PURPLE,
    "host": palette.SKY,
    "loader": palette.GREEN,
    "synchronisation": palette.YELLOW,
    "allocator": palette.VERMILLION,
    OTHER_RANKS: palette.BLUE,
    "unknown": palette.OTHERS,
}
"""A cause that is a part of the step too has its colour; all differ in grey too."""

_PART_COLUMNS: Final = {f"{part}_share": part for part in STEP_PARTS}

_OF_STEP: Final = "Share of the step (%)"

REST: Final = "all others"
_HATCH: Final = "///"
_LEGEND_COLUMNS: Final = 6
_LABELLED: Final = 0.06
"""The smallest part of the axis that has room for its number."""


def stacked_bars_figure(
    shown: Shown,
    parts: pd.DataFrame,
    *,
    colors: Mapping[str, str],
    texts: Mapping[str, str] | None = None,
    text_heading: str = "",
    axis_label: str = "Share of the time of all operations on the device (%)",
    most: float = 100.0,
) -> Figure:
    """Draw `width` by `category` of each variant shown; one that was profiled and has no parts is
    not reliable.

    `texts` are written right of the bars, by variant. A color that is `none` is a hatch. The axis
    ends near the longest bar, at `most` at the latest.
    """
    texts = texts or {}
    has_parts = set(parts["variant"])
    # Also those whose trace is not reliable, which the other tables about traces leave out.
    profiled = set(shown.tables.step_shares["variant"])
    beside = []
    for row in rows_of(shown.rows):
        text = texts.get(row["variant"], "")
        if row["variant"] not in has_parts:
            text += ", " * bool(text) + (
                labels.status_text(row)
                if row["status"] != "ok"
                else NOT_RELIABLE
                if row["variant"] in profiled
                else "not profiled"
            )
        beside.append(text)
    drawn = parts[parts["variant"].isin(shown.rows["variant"])]
    occurring = set(drawn["category"])
    legend = {category: color for category, color in colors.items() if category in occurring}
    if not occurring <= set(legend):
        legend[REST] = palette.OTHERS
    figure, axes, positions = place_rows(
        shown.rows.assign(text=beside, missing=~shown.rows["variant"].isin(has_parts)),
        legend_rows=math.ceil(len(legend) / _LEGEND_COLUMNS),
        text_heading=text_heading,
    )
    longest = drawn.groupby("variant")["width"].sum().max() if len(drawn) else 0.0
    end = min(most, 1.05 * longest) or min(most, 100.0)
    for position, variant in zip(positions, shown.rows["variant"], strict=True):
        if variant in has_parts:
            of_variant = parts[parts["variant"] == variant]
            _draw_segments(axes, position, of_variant, colors, least=_LABELLED * end)
    axes.set_xlim(0, end)
    axes.set_xlabel(axis_label)
    axes.grid(visible=False)
    handles = [
        Patch(
            label=american(name),
            facecolor=color,
            hatch=_HATCH if color == "none" else "",
            edgecolor=palette.QUIET,
            linewidth=0.4,
        )
        for name, color in legend.items()
    ]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=_LEGEND_COLUMNS,
        borderaxespad=0.2,
        handlelength=1.0,
    )
    return figure


def _draw_segments(
    axes: Axes, position: float, parts: pd.DataFrame, colors: Mapping[str, str], *, least: float
) -> None:
    by_category = dict(zip(parts["category"], parts["width"], strict=True))
    widths = {each: by_category.pop(each) for each in colors if each in by_category}
    left = 0.0
    for category, width in {**widths, REST: sum(by_category.values())}.items():
        color = colors.get(category, palette.OTHERS)
        axes.barh(
            position,
            width,
            left=left,
            height=0.78,
            color=color,
            hatch=_HATCH if color == "none" else "",
            edgecolor=palette.QUIET,
            linewidth=0.4,
        )
        # The sum of the rest is in no table.
        if category != REST and color != "none" and width >= least:
            axes.text(
                left + width / 2,
                position,
                f"{width:.{0 if width >= 10 else 1}f}",
                color="white" if color in palette.DARK_COLORS else palette.INK,
                ha="center",
                va="center_baseline",
                fontsize=style.TINY_FONT_SIZE_PT,
            )
        left += width


def phases_figure(shown: Shown) -> Figure:
    """Draw the phases of every variant, and how much of its time convolutions, and cuDNN where
    known, took.
    """
    phases = shown.tables.phases
    inside = {}
    for variant, rows in phases.groupby("variant"):
        columns = ["convolution_share"] + ["cudnn_share"] * bool(rows["cudnn_share"].notna().any())
        sums = [float((rows["share"] * rows[column]).sum(skipna=True)) for column in columns]
        inside[str(variant)] = ", ".join(share(total).plain(unit=False) for total in sums)
    return stacked_bars_figure(
        shown,
        phases.assign(category=phases["phase"], width=100 * phases["share"]),
        colors=palette.PHASE_COLORS,
        texts=inside,
        text_heading="convolution, cuDNN (%)",
    )


PHASES: Final = partial(
    variant_figure,
    name="phases",
    title="Phases of a step by {axis}",
    caption=(
        "What the device's time in the profiled steps went into, by phase of the step; numbers in "
        "the bars are per cent. At the right are the shares of all convolutions and of cuDNN's "
        "kernels in that time."
    ),
    along=("workload", "device"),
    # A training with a loop of its own has a figure of its own.
    rows=lambda shown: without_own_loops(found_in("phases", shown)),
    draw=phases_figure,
    sentences=(
        partial(
            largest_parts, lambda shown: shown.tables.phases.rename(columns={"phase": "category"})
        ),
    ),
    unless=(repeats_crossover,),
    tables=("phases",),
    has_own_section=True,
)


def profiled_rows(shown: Shown) -> pd.DataFrame:
    """The rows of the variants that `shown_profiles` gives, in its order."""
    return (
        shown.rows.set_index("variant", drop=False)
        .loc[shown_profiles(shown.tables)]
        .reset_index(drop=True)
    )


def _one_list(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """A row per variant with all its names beside it, since most workloads have one and would take
    two lines.
    """
    labelled = labels.with_row_labels(rows, axis)
    return labelled.assign(model=labelled["heading"], label=labels.full_names(labelled), heading="")


def _step_parts(shown: Shown) -> pd.DataFrame:
    """The share of each part of each variant whose parts are all known."""
    return (
        shown.tables.step_shares.dropna(subset=list(_PART_COLUMNS))
        .rename(columns=_PART_COLUMNS)
        .melt("variant", STEP_PARTS, var_name="category", value_name="share")
    )


def steps_figure(shown: Shown) -> Figure:
    """Draw what each variant's steps went into; one without all its parts is a gap.

    Right of the bar of a GPU is how long it was busy, and waited for launches where known.
    """
    steps = shown.tables.step_shares
    steps = steps[steps["variant"].isin(shown.rows["variant"])]
    parts = _step_parts(shown)
    of_device = steps.set_index("variant")[["device_busy_share", "launch_bound_share"]]
    texts = {
        str(variant): ", ".join(share(each).plain(unit=False) for each in shares.dropna())
        for variant, shares in of_device.iterrows()
    }
    return stacked_bars_figure(
        shown,
        parts[parts["share"] > 0].assign(width=100 * parts["share"]),
        colors=PART_COLORS,
        texts=texts,
        text_heading="GPU busy, launch-bound (%)" if any(texts.values()) else "",
        axis_label=_OF_STEP,
    )


STEPS: Final = partial(
    variant_figure,
    name="steps",
    title="What a step consists of",
    caption=(
        "What the time of a step went into: each moment counts once, for the first part in this "
        "order that goes on in it; numbers in the bars are per cent."
    ),
    caption_on_gpus=(
        "Right of a GPU's bar are the share of the step in which the GPU was busy with kernels, "
        "copies or memsets, and the share in which it waited for the next launch."
    ),
    rows=profiled_rows,
    draw=steps_figure,
    label=_one_list,
    together="model",
    sentences=(partial(largest_parts, _step_parts),),
    tables=("step_shares",),
)


def _with_gaps(shown: Shown) -> pd.DataFrame:
    """The variants of the figure of steps but those on the CPU; none where no gap of any of them
    can be shown.
    """
    rows = profiled_rows(shown)
    rows = rows[rows["device"] != "cpu"]
    return (
        rows if rows["variant"].isin(shown.tables.idle_causes["variant"]).any() else rows.iloc[:0]
    )


def idle_figure(shown: Shown) -> Figure:
    """Draw the gaps of each variant, with their sum and the longest at the right; unknown gaps or
    causes are a gap.
    """
    causes, shares = shown.tables.idle_causes, shown.tables.step_shares
    idle = dict(zip(shares["variant"], shares["device_idle_share"], strict=True))
    own = causes[
        causes["variant"].isin([variant for variant, idle_share in idle.items() if idle_share >= 0])
    ]
    gaps = own.assign(category=own["cause"], width=100 * own["share"])
    without = [variant for variant, idle_share in idle.items() if idle_share == 0]
    none = pd.DataFrame({"variant": without, "category": "launch", "width": 0.0})
    of_gaps = own[~own["variant"].isin(without)].dropna(subset="longest_us")
    longest_s = of_gaps.groupby("variant")["longest_us"].max() / 1e6
    return stacked_bars_figure(
        shown,
        pd.concat([gaps[[*none]], none])
        .groupby(["variant", "category"], as_index=False, sort=False)
        .sum(),
        colors=CAUSE_COLORS,
        texts={
            variant: share(idle_share).plain(unit=False)
            + (f", {duration(longest_s[variant]).plain()}" if variant in longest_s else "")
            for variant, idle_share in idle.items()
            if idle_share >= 0
        },
        text_heading="idle (%), longest gap",
        axis_label=_OF_STEP,
    )


IDLE: Final = partial(
    variant_figure,
    name="idle",
    title="Why the GPU was idle",
    caption=(
        "The share of the step in which the GPU was idle, divided as in the profiled steps by "
        "cause: what ended a gap, or a wait for other ranks. At the right are the sum and the "
        "longest profiled gap."
    ),
    rows=_with_gaps,
    draw=idle_figure,
    label=_one_list,
    together="model",
    sentences=(
        partial(
            largest_parts,
            lambda shown: shown.tables.idle_causes.rename(columns={"cause": "category"}),
        ),
    ),
    tables=("idle_causes", "step_shares"),
)
