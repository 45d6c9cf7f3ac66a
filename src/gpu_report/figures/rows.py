"""Rows under headings, with their numbers written at the right: the frame of every figure that has one row per variant.

entries (heading, label, text) -> axes whose y positions are the entries, headings in between
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import style

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
    """Whether the text stands for a number that there is not."""


@dataclass(frozen=True, kw_only=True)
class RowFigure:
    """The empty figure, its axes, and where each entry's row is on the y axis, in the order given."""

    figure: Figure
    axes: Axes
    positions: list[float]


def lay_out_rows(entries: Sequence[Entry], *, text_heading: str = "", legend_rows: int = 0) -> RowFigure:
    """Make the figure: labels at the left, headings in bold above their rows, texts at the right."""
    ticks, positions = _ticks(entries)
    height = len(ticks) * _ROW_HEIGHT_IN + _AXIS_HEIGHT_IN + legend_rows * _LEGEND_ROW_IN
    figure = style.new_figure(height_in=height)
    axes = figure.add_subplot()
    axes.set_yticks(range(len(ticks)), [label for label, _ in ticks])
    for tick, (_, bold) in zip(axes.get_yticklabels(), ticks, strict=True):
        tick.set_fontweight("bold" if bold else "normal")
    axes.set_ylim(len(ticks) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    _write_texts(axes, entries, positions, text_heading)
    return RowFigure(figure=figure, axes=axes, positions=[float(position) for position in positions])


def _ticks(entries: Sequence[Entry]) -> tuple[list[tuple[str, bool]], list[int]]:
    """Label and weight of every line, and the line of each entry; a heading with one row lends it its name."""
    per_heading = {heading: [entry for entry in entries if entry.heading == heading] for heading in _headings(entries)}
    ticks: list[tuple[str, bool]] = []
    positions: list[int] = []
    alone = all(len(rows) == 1 for rows in per_heading.values())
    for heading, rows in per_heading.items():
        if heading and not alone:
            ticks.append((heading, True))
        for entry in rows:
            positions.append(len(ticks))
            parts = (heading, entry.label) if alone else (entry.label,)
            ticks.append((", ".join(part for part in parts if part), False))
    return ticks, positions


def _headings(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(entry.heading for entry in entries))


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
