"""What the time went into: the shares of the categories of operations, stacked.

trace tables -> rows (variant) -> segments (category)
"""

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gpu_report.figures import labels, style
from gpu_report.figures.rows import Entry, lay_out_rows
from gpu_report.traces.categories import OTHER
from gpu_report.traces.trust import NOT_RELIABLE

_LEGEND_COLUMNS: Final = 5
_REST: Final = "all others"
_SMALLEST_LABELLED_SHARE: Final = 0.06


def category_colors(shares: pd.DataFrame) -> dict[str, str]:
    """A colour for each of the categories that took most time; the rest share one, under the name `all others`."""
    largest = shares.groupby("category")["share"].sum().sort_values(ascending=False, kind="stable")
    named = [str(category) for category in largest.index if category != OTHER and largest[category] > 0]
    colors = dict(zip(named, style.PALETTE, strict=False))
    return colors if len(largest) == len(colors) else {**colors, _REST: style.OTHERS}


def draw_categories(
    frame: pd.DataFrame,
    shares: pd.DataFrame,
    *,
    colors: Mapping[str, str],
    texts: Mapping[str, str] | None = None,
    text_heading: str = "",
    axis_label: str = "Share of the time of all operations on the device (%)",
    profiled: Container[str] = (),
) -> Figure:
    """Draw the shares of the categories of operations, one stacked bar per variant; rows as in `rows_figure`.

    `texts` stand right of the bars, by variant. What was `profiled` and has no shares is not reliable.
    """
    texts = texts or {}
    told = set(shares["variant"])
    entries = [
        Entry(
            heading=row["heading"],
            label=row["label"],
            text=texts.get(row["variant"], "") if row["variant"] in told else _why_missing(row, profiled),
            missing=row["variant"] not in told,
        )
        for _, row in frame.iterrows()
    ]
    legend = _legend_entries(colors, shares[shares["variant"].isin(frame["variant"])]["category"])
    rows = math.ceil(len(legend) / _LEGEND_COLUMNS)
    layout = lay_out_rows(entries, text_heading=text_heading, legend_rows=rows)
    for position, variant in zip(layout.positions, frame["variant"], strict=True):
        if variant in told:
            _draw_segments(layout.axes, position, shares[shares["variant"] == variant], colors)
    layout.axes.set_xlim(0, 100)
    layout.axes.set_xlabel(axis_label)
    layout.axes.grid(visible=False)
    add_category_legend(layout.figure, legend)
    return layout.figure


def _why_missing(row: "pd.Series[Any]", profiled: Container[str]) -> str:
    if row["status"] != "ok":
        return labels.status_text(row)
    return NOT_RELIABLE if row["variant"] in profiled else "not profiled"


def _draw_segments(axes: Axes, position: float, shares: pd.DataFrame, colors: Mapping[str, str]) -> None:
    by_category = dict(zip(shares["category"], shares["share"], strict=True))
    parts = {category: by_category.pop(category, 0.0) for category in colors if category != _REST}
    parts[_REST] = sum(by_category.values())
    left = 0.0
    for category, share in parts.items():
        color = colors.get(category, style.OTHERS)
        axes.barh(position, 100 * share, left=left, height=0.78, color=color, edgecolor=style.QUIET, linewidth=0.4)
        if share >= _SMALLEST_LABELLED_SHARE:
            axes.text(
                left + 50 * share,
                position,
                f"{100 * share:.0f}",
                ha="center",
                va="center_baseline",
                fontsize=style.TINY_FONT_SIZE_PT,
                color="white" if color in style.DARK_COLORS else style.INK,
            )
        left += 100 * share


def _legend_entries(colors: Mapping[str, str], used: "pd.Series[str]") -> dict[str, str]:
    """The colours that occur, in their order."""
    occurring = set(used)
    entries = {category: color for category, color in colors.items() if category in occurring}
    return entries if occurring <= set(entries) else {**entries, _REST: style.OTHERS}


def add_category_legend(figure: Figure, entries: Mapping[str, str]) -> None:
    """Name the colours above the panels."""
    handles: Sequence[Patch] = [
        Patch(facecolor=color, edgecolor=style.QUIET, linewidth=0.4, label=category)
        for category, color in entries.items()
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=_LEGEND_COLUMNS, borderaxespad=0.2, handlelength=1.0)
