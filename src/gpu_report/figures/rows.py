"""A row per variant under headings, its number written at the right: points with intervals, and the
frame of all rows.

entries (heading, label, text) -> axes whose y positions are the entries -> points with intervals
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.curves import add_legend, draw_intervals
from gpu_report.glossary import Metric


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row; entries of one heading follow each other."""

    heading: str
    label: str
    text: str = ""
    """What is written right of the row, for instance its number or why there is none."""
    missing: bool = False
    """Whether the text replaces a number that is missing."""


def rows_figure(
    frame: pd.DataFrame, *, metric: Metric, title: str = "", numbers: str = "mean"
) -> Figure:
    """Draw `metric` of every variant; the table has the columns `heading` and `label` of
    `with_row_labels`.

    A variant without a number keeps its row, with the reason. Hollow points are doubted. At the
    right is what is drawn, or the reason, below what the `numbers` are.
    """
    marks = frame.loc[frame[metric.column].notna(), "marks"]
    spread = metric.intervals(frame)
    entries = [
        Entry(
            heading=row["heading"],
            label=row["label"],
            text=labels.status_text(row) if missing else text,
            missing=missing,
        )
        for (_, row), text, missing in zip(
            frame.iterrows(), spread["text"], frame[metric.column].isna(), strict=True
        )
    ]
    figure, axes = new_rows(entries, legend_rows=bool(title) + bool(labels.doubts(marks)))
    positions = place_rows(axes, entries, text_heading=metric.text_heading(frame, numbers))
    drawn = spread.dropna()
    lines = [] if metric.reference is None else [metric.reference]
    style.set_scale(axes, "x", [*drawn["low"], *drawn["high"], *lines])
    draw_points(axes, frame.assign(**spread), positions)
    draw_reference(axes, metric)
    axes.set_xlabel(metric.axis_label)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=style.FONT_SIZE_PT)
    add_legend(figure, [], marks=marks)
    return figure


def draw_points(axes: Axes, rows: pd.DataFrame, positions: Sequence[float]) -> None:
    """A point with its bar in every row that has a `value`; hollow where it is doubted."""
    devices = list(dict.fromkeys(rows["device"]))
    faces = ["white" if labels.doubts([marks]) else "" for marks in rows["marks"]]
    placed = rows.assign(position=positions, face=faces).dropna(subset=["value"])
    for (device, face), alike in placed.groupby(["device", "face"], sort=False):
        look = style.device_look(str(device), devices)
        look["markerfacecolor"] = str(face) or look["color"]
        draw_intervals(axes, alike["position"], alike, upright=False, linestyle="none", **look)


def draw_reference(axes: Axes, metric: Metric) -> None:
    """A dashed line at the value that others are compared with, with its name above."""
    if metric.reference is None:
        return
    axes.axvline(metric.reference, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    style.note(
        axes,
        metric.reference_label,
        (metric.reference, 1),
        of=("data", "axes fraction"),
        offset=(0, 3),
        ha="center",
    )


def new_rows(entries: Sequence[Entry], *, legend_rows: int = 0) -> tuple[Figure, Axes]:
    """An empty figure as high as these rows and its legend need, and its axes."""
    figure = style.new_figure(height_in=height_of_rows(entries, legend_rows=legend_rows))
    return figure, figure.add_subplot()


def height_of_rows(entries: Sequence[Entry], *, legend_rows: int = 0) -> float:
    """The height in inches that these rows, their axis and their legend need."""
    return 0.165 * len(_ticks(entries)[0]) + 0.62 + 0.22 * legend_rows


def place_rows(axes: Axes, entries: Sequence[Entry], *, text_heading: str = "") -> list[float]:
    """Labels at the left, headings in bold above their rows, texts at the right; where each entry
    is on the y axis.
    """
    ticks, positions = _ticks(entries)
    axes.set_yticks(range(len(ticks)), [label for label, _ in ticks])
    for tick, (_, bold) in zip(axes.get_yticklabels(), ticks, strict=True):
        tick.set_fontweight("bold" if bold else "normal")
    axes.set_ylim(len(ticks) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    size = style.SMALL_FONT_SIZE_PT
    for entry, position in zip(entries, positions, strict=True):
        color = style.QUIET if entry.missing else style.INK
        beside = axes.get_yaxis_transform()
        axes.text(
            1.02, position, entry.text, transform=beside, va="center", fontsize=size, color=color
        )
    if text_heading:
        style.note(axes, text_heading, (1.02, 1), offset=(0, 3), va="bottom", fontsize=size)
    return [float(position) for position in positions]


def _ticks(entries: Sequence[Entry]) -> tuple[list[tuple[str, bool]], list[int]]:
    """Label and weight of every line, and the line of each entry; a heading with one row lends it
    its name.
    """
    per_heading = {
        heading: list(rows) for heading, rows in groupby(entries, key=attrgetter("heading"))
    }
    ticks: list[tuple[str, bool]] = []
    positions: list[int] = []
    one_each = all(len(rows) == 1 for rows in per_heading.values())
    for heading, rows in per_heading.items():
        if heading and not one_each:
            ticks.append((heading, True))
        for entry in rows:
            positions.append(len(ticks))
            ticks.append((labels.joined(heading, entry.label) if one_each else entry.label, False))
    return ticks, positions
