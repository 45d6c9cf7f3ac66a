"""A row per variant under headings, its number written at the right: points with intervals, and the frame of all rows.

entries (heading, label, text) -> axes whose y positions are the entries -> points with intervals
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.curves import add_legend
from gpu_report.figures.ladder_steps import ladder_step_label, ladder_steps_of
from gpu_report.glossary import Metric

_ROW_HEIGHT_IN: Final = 0.165
_AXIS_HEIGHT_IN: Final = 0.62
_LEGEND_ROW_IN: Final = 0.22


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row; entries of one heading follow each other."""

    heading: str
    label: str
    text: str = ""
    """What is written right of the row, for instance its number or why there is none."""
    missing: bool = False
    """Whether the text replaces a number that is missing."""


@dataclass(frozen=True, kw_only=True)
class RowFigure:
    """The empty figure, its axes, and where each entry's row is on the y axis, in the order given."""

    figure: Figure
    axes: Axes
    positions: list[float]


def rows_figure(frame: pd.DataFrame, *, metric: Metric) -> Figure:
    """Draw `metric` of every variant; the table has the columns `heading` and `label` of `with_row_labels`."""
    marks = frame.loc[frame[metric.column].notna(), "marks"]
    figure, axes = new_rows(_row_entries(frame, metric), legend_rows=1 if labels.doubts(marks) else 0)
    draw_rows(axes, frame, metric=metric)
    add_legend(figure, [], marks=marks)
    return figure


def draw_rows(axes: Axes, frame: pd.DataFrame, *, metric: Metric, with_numbers: bool = True) -> None:
    """Draw `metric` of every variant in the table on the axes, as in `rows_figure` but without a legend.

    A variant without a number keeps its row, with the reason. Hollow points are doubted. `with_numbers` writes what is
    drawn, or the reason, at the right.
    """
    numbers = metric.intervals(frame)
    entries = _row_entries(frame, metric)
    if not with_numbers:
        entries = [replace(entry, text="") for entry in entries]
    positions = place_rows(axes, entries, text_heading=metric.text_heading(frame) if with_numbers else "")
    drawn = numbers.dropna()
    lines = [] if metric.reference is None else [metric.reference]
    style.set_scale(axes, "x", [*drawn["low"], *drawn["high"], *lines])
    draw_points(axes, frame.assign(**numbers), positions)
    draw_reference(axes, metric)
    axes.set_xlabel(metric.axis_label)


def with_row_labels(frame: pd.DataFrame, *, axis: str) -> pd.DataFrame:
    """The table with `heading` and `label` for its rows, the rows of one heading together.

    Headings name what the variants compared along `axis` share; with an empty axis they name workload and size.
    """
    if axis:
        frame = labels.with_group_labels(frame, axis=axis)
        frame = frame.assign(label=_labels_along(frame, axis))
        if axis == "precision":
            frame = frame.sort_values(axis, key=lambda names: names.map(labels.PRECISIONS.index), kind="stable")
        return labels.sorted_by(frame, "heading")
    frame = labels.with_labels(frame)
    return labels.sorted_by(frame, "heading", "device", then=["batch_size", "workers"])


def _labels_along(frame: pd.DataFrame, axis: str) -> list[str]:
    if axis == "workload":
        return [labels.workload_label(row) for _, row in frame.iterrows()]
    if axis == "optimization":
        steps = {group: ladder_steps_of(list(rows[axis])) for group, rows in frame.groupby("group")}
        return [ladder_step_label(name, steps[group]) for name, group in zip(frame[axis], frame["group"], strict=True)]
    if axis == "device":
        lengths = frame[["epochs", "steps_per_epoch"]].apply(tuple, axis="columns").astype(str)
        differ = lengths.groupby(frame["group"]).transform("nunique") > 1
        return [
            labels.joined(labels.device_label(row["device"]), labels.length_label(row) if unlike else "")
            for (_, row), unlike in zip(frame.iterrows(), differ, strict=True)
        ]
    return [labels.field_label(axis, value) for value in frame[axis]]


def _row_entries(frame: pd.DataFrame, metric: Metric) -> list[Entry]:
    return [row_entry(row) for _, row in pd.concat([frame, metric.intervals(frame)], axis="columns").iterrows()]


def row_entry(row: "pd.Series[Any]") -> Entry:
    """The line of a variant: its number, or why there is none."""
    missing = pd.isna(row["value"])
    text = labels.status_text(row) if missing else str(row["text"])
    return Entry(heading=str(row["heading"]), label=str(row["label"]), text=text, missing=missing)


def draw_points(axes: Axes, rows: pd.DataFrame, positions: Sequence[float]) -> None:
    """A point with its bar in every row that has a `value`; hollow where it is doubted."""
    devices = list(dict.fromkeys(rows["device"]))
    faces = ["white" if labels.doubts([marks]) else "" for marks in rows["marks"]]
    placed = rows.assign(position=positions, face=faces).dropna(subset=["value"])
    for (device, face), alike in placed.groupby(["device", "face"], sort=False):
        color, marker = style.device_look(str(device), devices)
        axes.errorbar(
            alike["value"],
            alike["position"],
            xerr=[alike["value"] - alike["low"], alike["high"] - alike["value"]],
            linestyle="none",
            color=color,
            marker=marker,
            markerfacecolor=str(face) or color,
        )


def draw_reference(axes: Axes, metric: Metric) -> None:
    """A dashed line at the value that others are compared with, with its name above."""
    if metric.reference is None:
        return
    axes.axvline(metric.reference, color=style.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    axes.annotate(
        metric.reference_label,
        (metric.reference, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=style.TINY_FONT_SIZE_PT,
        color=style.QUIET,
        ha="center",
    )


def lay_out_rows(entries: Sequence[Entry], *, text_heading: str = "", legend_rows: int = 0) -> RowFigure:
    """Make a figure of these rows: labels at the left, headings in bold above their rows, texts at the right."""
    figure, axes = new_rows(entries, legend_rows=legend_rows)
    return RowFigure(figure=figure, axes=axes, positions=place_rows(axes, entries, text_heading=text_heading))


def new_rows(entries: Sequence[Entry], *, legend_rows: int = 0) -> tuple[Figure, Axes]:
    """An empty figure as high as these rows and its legend need, and its axes."""
    height = len(_ticks(entries)[0]) * _ROW_HEIGHT_IN + _AXIS_HEIGHT_IN + legend_rows * _LEGEND_ROW_IN
    figure = style.new_figure(height_in=height)
    return figure, figure.add_subplot()


def place_rows(axes: Axes, entries: Sequence[Entry], *, text_heading: str = "") -> list[float]:
    """Name the rows of the axes and write their texts; where each entry is on the y axis, in the order given."""
    ticks, positions = _ticks(entries)
    axes.set_yticks(range(len(ticks)), [label for label, _ in ticks])
    for tick, (_, bold) in zip(axes.get_yticklabels(), ticks, strict=True):
        tick.set_fontweight("bold" if bold else "normal")
    axes.set_ylim(len(ticks) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    _write_texts(axes, entries, positions, text_heading)
    return [float(position) for position in positions]


def _ticks(entries: Sequence[Entry]) -> tuple[list[tuple[str, bool]], list[int]]:
    """Label and weight of every line, and the line of each entry; a heading with one row lends it its name."""
    headings = dict.fromkeys(entry.heading for entry in entries)
    per_heading = {heading: [entry for entry in entries if entry.heading == heading] for heading in headings}
    ticks: list[tuple[str, bool]] = []
    positions: list[int] = []
    alone = all(len(rows) == 1 for rows in per_heading.values())
    for heading, rows in per_heading.items():
        if heading and not alone:
            ticks.append((heading, True))
        for entry in rows:
            positions.append(len(ticks))
            ticks.append((labels.joined(heading, entry.label) if alone else entry.label, False))
    return ticks, positions


def _write_texts(axes: Axes, entries: Sequence[Entry], positions: Sequence[int], text_heading: str) -> None:
    transform = axes.get_yaxis_transform()
    for entry, position in zip(entries, positions, strict=True):
        color = style.QUIET if entry.missing else style.INK
        axes.text(
            1.02, position, entry.text, transform=transform, va="center", fontsize=style.SMALL_FONT_SIZE_PT, color=color
        )
    if text_heading:
        axes.annotate(
            text_heading,
            (1.02, 1),
            xycoords="axes fraction",
            xytext=(0, 3),
            textcoords="offset points",
            va="bottom",
            fontsize=style.SMALL_FONT_SIZE_PT,
            color=style.QUIET,
        )
