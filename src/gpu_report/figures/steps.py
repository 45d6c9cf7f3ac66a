"""What the wall time of a step went into, and why the accelerator was idle in it: one stacked bar per variant.

step_shares, idle_causes -> rows (the variants of `shown_profiles`) -> segments (part, or cause of a gap)
"""

import math
from collections.abc import Mapping
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.alt_text import largest_columns, largest_parts
from gpu_report.figures.declaration import Layout, Shown, VariantFigure, row_groups
from gpu_report.figures.stacked_bars import stacked_bars_figure
from gpu_report.number_format import duration, share
from gpu_report.tables.profiled import shown_profiles
from gpu_report.tables.trace_schema import STEP_PARTS

PART_COLORS: Final[Mapping[str, str]] = dict(
    zip(
        STEP_PARTS,
        (
            *(style.BLUE, style.ORANGE, style.YELLOW, style.VERMILLION),
            *(style.PURPLE, style.GREEN, style.SKY, style.OTHERS),
        ),
        strict=True,
    )
)
"""Neighbours differ in grey too; parts are in the order in which a moment counts for them."""

CAUSE_COLORS: Final[Mapping[str, str]] = {
    "launch": style.PURPLE,
    "host": style.SKY,
    "loader": style.GREEN,
    "synchronisation": style.YELLOW,
    "unknown": style.OTHERS,
}
"""A cause that is a part of the step too has its colour; all differ in grey too."""

_OF_WALL_TIME: Final = "Share of the wall time of the profiled steps (%)"


def profiled_rows(shown: Shown) -> pd.DataFrame:
    """The rows of the variants that `shown_profiles` gives, in its order."""
    return shown.rows.set_index("variant", drop=False).loc[shown_profiles(shown.tables)].reset_index(drop=True)


def _one_list(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """A row per variant with all its names beside it, since most workloads have one and would take two lines."""
    labelled = row_groups(rows, axis)
    names = [labels.joined(*parts) for parts in zip(labelled["heading"], labelled["label"], strict=True)]
    return labelled.assign(label=names, heading="")


def steps_figure(shown: Shown) -> Figure:
    """Draw what each variant's steps went into; one without all its parts is a gap.

    Right of the bar of an accelerator are its kernel-active time, and how long it waited for launches where known.
    """
    parts, texts = [], {}
    own = shown.tables.step_shares["variant"].isin(shown.rows["variant"])
    for _, row in shown.tables.step_shares[own].iterrows():
        shares = [float(row[f"{part}_share"]) for part in STEP_PARTS]
        if not any(map(math.isnan, shares)):
            parts.append(pd.DataFrame({"variant": row["variant"], "category": STEP_PARTS, "share": shares}))
        of_device = [float(row[column]) for column in ("device_busy_share", "launch_bound_share")]
        texts[row["variant"]] = ", ".join(share(each).plain(unit=False) for each in of_device if math.isfinite(each))
    reliable = pd.concat(parts or [pd.DataFrame({"variant": [], "category": [], "share": []})])
    return stacked_bars_figure(
        shown,
        reliable[reliable["share"] > 0],
        colors=PART_COLORS,
        texts=texts,
        text_heading="kernel-active, launch-bound (%)" if any(texts.values()) else "",
        axis_label=_OF_WALL_TIME,
    )


STEPS: Final = VariantFigure(
    name="steps",
    title="What a step consists of",
    caption=(
        "What the wall time of the profiled steps went into: each moment counts once, for the first part in this order "
        "that goes on in it; numbers in the bars are per cent."
    ),
    caption_on_accelerators=(
        "Right of an accelerator's bar stand its kernel-active time as a share, and that in which it waited for the "
        "next launch."
    ),
    rows=profiled_rows,
    draw=steps_figure,
    layout=Layout(label=_one_list),
    told=(largest_columns("step_shares", {f"{part}_share": part for part in STEP_PARTS}),),
    tables=("step_shares",),
)


def _with_gaps(shown: Shown) -> pd.DataFrame:
    """The variants of the figure of steps but those on the CPU; none where no gap of any of them can be shown."""
    rows = profiled_rows(shown)
    rows = rows[rows["device"] != "cpu"]
    return rows if rows["variant"].isin(shown.tables.idle_causes["variant"]).any() else rows.iloc[:0]


def idle_figure(shown: Shown) -> Figure:
    """Draw the gaps of each variant, with their sum and the longest at the right; unknown gaps or causes are a gap."""
    causes, shares = shown.tables.idle_causes, shown.tables.step_shares
    idle = dict(zip(shares["variant"], shares["device_idle_share"], strict=True))
    own = causes[causes["variant"].isin([variant for variant, idle_share in idle.items() if idle_share >= 0])]
    gaps = own.rename(columns={"cause": "category"})[["variant", "category", "share"]]
    without = [variant for variant, idle_share in idle.items() if idle_share == 0]
    none = pd.DataFrame({"variant": without, "category": "launch", "share": 0.0})
    longest_s = own.groupby("variant")["longest_us"].max() / 1e6
    return stacked_bars_figure(
        shown,
        pd.concat([gaps, none]).groupby(["variant", "category"], as_index=False, sort=False).sum(),
        colors=CAUSE_COLORS,
        texts={
            str(variant): f"{share(idle[variant]).plain(unit=False)}, {duration(float(longest)).plain()}"
            for variant, longest in longest_s.items()
        },
        text_heading="idle (%), longest gap",
        axis_label=_OF_WALL_TIME,
    )


IDLE: Final = VariantFigure(
    name="idle",
    title="Why the accelerator was idle",
    caption=(
        "The share of the steps' wall time in which the accelerator did nothing, by what ended each gap; what is left "
        "to the whole it was busy. At the right stand the sum and the longest gap."
    ),
    rows=_with_gaps,
    draw=idle_figure,
    layout=Layout(label=_one_list),
    told=(largest_parts("idle_causes", "cause"),),
    tables=("idle_causes", "step_shares"),
)
