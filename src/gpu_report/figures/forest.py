"""A number per variant as a row with its interval, the number beside it.

table -> rows under headings -> points with intervals
"""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.curves import add_legend
from gpu_report.figures.ladder_steps import ladder_step_label, ladder_steps_of
from gpu_report.figures.rows import Entry, RowFigure, lay_out_rows
from gpu_report.glossary import Metric


def draw_forest(frame: pd.DataFrame, *, metric: Metric) -> Figure:
    """Draw `metric` of every variant in the table; those without a number keep their row, with the reason.

    The table has the columns `heading` and `label` of `with_row_labels`.
    """
    numbers = metric.intervals(frame)
    entries = [row_entry(row) for _, row in pd.concat([frame, numbers], axis="columns").iterrows()]
    doubted = labels.doubts(frame.loc[numbers["value"].notna(), "marks"])
    layout = lay_out_rows(entries, text_heading=metric.text_heading(frame), legend_rows=1 if doubted else 0)
    drawn = numbers.dropna()
    lines = [] if metric.reference is None else [metric.reference]
    style.set_scale(layout.axes, "x", [*drawn["low"], *drawn["high"], *lines])
    draw_points(layout, frame.assign(**numbers))
    draw_reference(layout.axes, metric)
    layout.axes.set_xlabel(metric.axis_label)
    add_legend(layout.figure, [], marks=frame.loc[numbers["value"].notna(), "marks"])
    return layout.figure


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


def row_entry(row: "pd.Series[Any]") -> Entry:
    """The line of a variant: its number, or why there is none."""
    missing = pd.isna(row["value"])
    text = labels.status_text(row) if missing else str(row["text"])
    return Entry(heading=str(row["heading"]), label=str(row["label"]), text=text, missing=missing)


def draw_points(layout: RowFigure, rows: pd.DataFrame) -> None:
    """A point with its bar in every row that has a `value`; hollow where it is doubted."""
    devices = list(dict.fromkeys(rows["device"]))
    faces = ["white" if labels.doubts([marks]) else "" for marks in rows["marks"]]
    placed = rows.assign(position=layout.positions, face=faces).dropna(subset=["value"])
    for (device, face), alike in placed.groupby(["device", "face"], sort=False):
        color, marker = style.device_look(str(device), devices)
        layout.axes.errorbar(
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
    _name_line(axes, metric.reference, metric.reference_label)


def _name_line(axes: Axes, value: float, name: str) -> None:
    axes.annotate(
        name,
        (value, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=style.TINY_FONT_SIZE_PT,
        color=style.QUIET,
        ha="center",
    )
