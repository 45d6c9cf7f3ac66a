"""What figures of measured values share: points with intervals, as lines along an axis of numbers
or in a row per variant under headings; gaps with reasons, ticks, legend.

rows (heading, label, text) -> axes whose y positions are the rows -> points with intervals
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from gpu_report.figures import labels, palette, style
from gpu_report.glossary import Metric
from gpu_report.tables.bundle import rows_of

_ROOM: Final = 0.07  # left and right of the measured values, as a part of their span
_CHARACTER_WIDTH_IN: Final = 0.065
_LEGEND_COLUMNS: Final = 3


def add_legend(
    figure: Figure,
    looks: Iterable[Mapping[str, Any]],
    *,
    marks: "Sequence[str] | pd.Series[str]" = (),
) -> None:
    """Say above the panels what each look is, and what a hollow marker means if one is drawn."""
    handles = [*(Line2D([], [], **look) for look in looks), *hollow_handles(marks)]
    if handles:
        columns = min(len(handles), _LEGEND_COLUMNS)
        figure.legend(handles=handles, loc="outside upper right", ncols=columns, borderaxespad=0.2)


def hollow_handles(marks: "Sequence[str] | pd.Series[str]") -> list[Line2D]:
    """What a hollow marker means, for a legend; nothing where none of the marks is a doubt."""
    doubts = labels.doubts(marks)
    hollow = Line2D(
        [],
        [],
        label=f"hollow, weaker or no conclusion: {', '.join(doubts)}",
        color=palette.QUIET,
        markerfacecolor="white",
        marker="o",
        linestyle="none",
    )
    return [hollow] if doubts else []


def panels_figure(
    rows: pd.DataFrame,
    metric: Metric,
    *,
    axis: str,
    by: str,
    looks: Mapping[str, Mapping[str, Any]],
    columns: int,
    height_in: float,
    draw: Callable[[Axes, pd.DataFrame], None],
    tick_text: Callable[[float, int | None], str] = style.tick_text,
    shares_y: bool = False,
) -> Figure:
    """Draw `metric` along an axis of numbers: a panel for each value of the column `panel`, in it a
    line for each value of the column `by` in its look, and what `draw` adds. Hollow markers are
    doubted numbers. `tick_text` writes the numbers on the axis, and with `shares_y` panels side by
    side have the same limits.
    """
    figure = style.new_figure(height_in=height_in)
    lines = math.ceil(rows["panel"].nunique() / columns)
    for position, (title, of_panel) in enumerate(rows.groupby("panel", sort=False), start=1):
        first = (position - 1) // columns * columns
        beside = figure.axes[first : position - 1] if shares_y else []
        axes = figure.add_subplot(lines, columns, position, sharey=next(iter(beside), None))
        style.set_panel_title(axes, str(title), columns=columns)
        panel = of_panel.assign(**metric.intervals(of_panel))
        draw(axes, panel)
        for name, line in panel.groupby(by, sort=False):
            by_number = line.sort_values(axis)
            draw_intervals(axes, by_number[axis], by_number, **looks[str(name)])
        _draw_gaps(axes, panel[panel["value"].isna()], axis=axis)
        _scale_measured_values(axes, panel[axis], columns=columns, tick_text=tick_text)
    figure.supxlabel(labels.axis_label(axis), fontsize=style.FONT_SIZE_PT)
    figure.supylabel(metric.axis_label, fontsize=style.FONT_SIZE_PT)
    marks = rows.loc[rows[metric.column].notna(), "marks"]
    shown = [looks[name] for name in looks if name in set(rows[by])]
    add_legend(figure, shown if len(looks) > 1 else [], marks=marks)
    return figure


def draw_intervals(
    axes: Axes,
    along: "pd.Series[Any] | pd.Index[Any]",
    numbers: pd.DataFrame,
    *,
    upright: bool = True,
    bar_width: float = 0.8,
    **look: Any,
) -> None:
    """Points at the column `value` with bars from `low` to `high`: upright over `along`, or beside
    it. Those whose column `marks` has a doubt, where there is such a column, are hollow.
    """
    value = numbers["value"]
    spread = [value - numbers["low"], numbers["high"] - value]
    x, y, xerr, yerr = (along, value, None, spread) if upright else (value, along, spread, None)
    axes.errorbar(x, y, yerr, xerr, elinewidth=bar_width, capthick=bar_width, **look)
    if "marks" in numbers:
        doubted = [bool(labels.doubts([marks])) for marks in numbers["marks"]]
        hollow = {**look, "linestyle": "none", "markerfacecolor": "white", "zorder": 3}
        axes.plot(x[doubted], y[doubted], **hollow)


def _draw_gaps(axes: Axes, missing: pd.DataFrame, *, axis: str) -> None:
    """Why there is no number, upright at the place of each variant that has none."""
    for position, rows in missing.groupby(axis):
        reasons = "\n".join(labels.status_text(row, name_device=True) for _, row in rows.iterrows())
        style.note(
            axes,
            reasons,
            (float(str(position)), 0),
            of=("data", "axes fraction"),
            offset=(0, 3),
            rotation=90,
            ha="center",
            va="bottom",
            bbox=style.BLANK,
        )


def _scale_measured_values(
    axes: Axes,
    measured: "pd.Series[Any]",
    *,
    columns: int,
    tick_text: Callable[[float, int | None], str],
) -> None:
    """Ticks at the measured values and nowhere else; powers of two apart alike where the values
    span a factor 8.
    """
    values = sorted(set(measured.dropna().astype(float)))
    low, high = values[0], values[-1]
    if low > 0 and high / low >= 8:
        axes.set_xscale("log", base=2)
        room = (high / low) ** _ROOM
        axes.set_xlim(low / room, high * room)
    else:
        room = (high - low) * _ROOM or 1.0
        axes.set_xlim(low - room, high + room)
    # Every value, or every second, third, ... where their labels would not fit beside each other.
    width = style.TEXT_WIDTH_IN / columns - 0.5
    widest = max((len(tick_text(value, None)) for value in values), default=1) + 1
    step = max(1, math.ceil(len(values) * widest * _CHARACTER_WIDTH_IN / width))
    axes.xaxis.set_major_locator(FixedLocator(values[::-1][::step][::-1]))
    axes.xaxis.set_minor_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(FuncFormatter(tick_text))
    axes.xaxis.set_minor_formatter(NullFormatter())


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
    missing = frame[metric.column].isna()
    texts = [
        labels.status_text(row) if row["missing"] else row["text"]
        for row in rows_of(frame.assign(missing=missing, text=spread["text"]))
    ]
    figure, axes, positions = place_rows(
        frame.assign(missing=missing, text=texts),
        legend_rows=bool(title) + bool(labels.doubts(marks)),
        text_heading=f"{numbers} (95 % interval)",
    )
    drawn = spread.dropna()
    lines = [] if metric.reference is None else [metric.reference]
    style.set_scale(axes, "x", [*drawn["low"], *drawn["high"], *lines])
    looks = style.device_looks(frame["device"])
    placed = frame.assign(**spread, position=positions).dropna(subset=["value"])
    for device, alike in placed.groupby("device", sort=False):
        draw_intervals(
            axes,
            alike["position"],
            alike,
            upright=False,
            bar_width=1.2,
            linestyle="none",
            **looks[str(device)],
        )
    if metric.reference is not None:
        axes.axvline(metric.reference, color=palette.QUIET, linestyle="--", linewidth=0.8, zorder=1)
        style.note(
            axes,
            metric.reference_label,
            (metric.reference, 1),
            of=("data", "axes fraction"),
            offset=(0, 3),
            ha="center",
        )
    axes.set_xlabel(metric.axis_label)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=style.FONT_SIZE_PT)
    add_legend(figure, [], marks=marks)
    return figure


def place_rows(
    rows: pd.DataFrame, *, legend_rows: int = 0, text_heading: str = ""
) -> tuple[Figure, Axes, list[float]]:
    """A figure as high as these rows and its legend need, its axes, and where each row is on the y
    axis: its `label` at the left, below the `heading` in bold that it shares with rows beside it,
    and its `text` at the right, in grey where that replaces a number that is `missing`.
    """
    ticks, positions = _ticks(rows)
    figure = style.new_figure(height_in=0.165 * len(ticks) + 0.62 + 0.22 * legend_rows)
    axes = figure.add_subplot()
    axes.set_yticks(range(len(ticks)), [label for label, _ in ticks])
    for tick, (_, bold) in zip(axes.get_yticklabels(), ticks, strict=True):
        tick.set_fontweight("bold" if bold else "normal")
    axes.set_ylim(len(ticks) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    size = style.SMALL_FONT_SIZE_PT
    for text, is_missing, position in zip(rows["text"], rows["missing"], positions, strict=True):
        axes.text(
            1.02,
            position,
            text,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=size,
            color=palette.QUIET if is_missing else palette.INK,
        )
    if text_heading:
        style.note(axes, text_heading, (1.02, 1), offset=(0, 3), va="bottom", fontsize=size)
    return figure, axes, [float(position) for position in positions]


def _ticks(rows: pd.DataFrame) -> tuple[list[tuple[str, bool]], list[int]]:
    """Label and weight of every line, and the line of each row; a heading with one row lends it its
    name.
    """
    by_heading = rows.groupby("heading", sort=False)["label"]
    ticks: list[tuple[str, bool]] = []
    positions: list[int] = []
    one_each = bool((by_heading.size() == 1).all())
    for heading, names in by_heading:
        if heading and not one_each:
            ticks.append((str(heading), True))
        for name in names:
            positions.append(len(ticks))
            ticks.append((labels.joined(str(heading), name) if one_each else name, False))
    return ticks, positions
