"""A number against an axis of numbers: one panel per group, one line per device, a gap with its reason per failure.

experiment table -> panels (what the variants share but the device) -> lines (device) -> points (value of the axis)
"""

import math
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from gpu_report.figures import labels, style
from gpu_report.glossary import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

_SINGLE_PANEL_HEIGHT_IN: Final = 1.95
_PANEL_HEIGHT_IN: Final = 1.6
_LEGEND_HEIGHT_IN: Final = 0.35
_SPAN_FOR_POWERS_OF_TWO: Final = 8
_ROOM: Final = 0.07
"""Left and right of the measured values, as a part of their span."""
_CHARACTER_WIDTH_IN: Final = 0.065


def draw_curves(frame: pd.DataFrame, *, axis: str, metric: Metric) -> Figure:
    """Draw `metric` against the numeric field `axis`, with intervals; hollow markers stand for doubted numbers.

    The table has the column `panel` of `with_panels`.
    """
    panels = list(frame.groupby("panel", sort=False))
    columns = _columns(len(panels))
    figure, grid = _panel_grid(len(panels), columns)
    devices = list(dict.fromkeys(frame["device"]))
    for axes, (title, panel) in zip(grid, panels, strict=True):
        style.set_panel_title(axes, str(title), columns=columns)
        _draw_panel(axes, panel, axis=axis, metric=metric, devices=devices)
        scale_measured_values(axes, sorted(set(panel[axis].dropna().astype(float))), columns=columns)
    figure.supxlabel(labels.AXIS_LABELS.get(axis, axis), fontsize=style.FONT_SIZE_PT)
    figure.supylabel(metric.axis_label, fontsize=style.FONT_SIZE_PT)
    add_legend(figure, devices if len(devices) > 1 else [], marks=frame.loc[frame[metric.column].notna(), "marks"])
    return figure


def with_panels(frame: pd.DataFrame, *, axis: str) -> pd.DataFrame:
    """The table with the column `panel`: what a variant shares with those it is drawn beside."""
    frame = labels.with_labels(frame, without=(axis, "device"))
    panel = [labels.joined(*parts) for parts in zip(frame["heading"], frame["label"], strict=True)]
    frame = frame.assign(panel=panel)
    devices = frame.groupby("panel")["device"].transform("nunique")
    device = frame["device"].map(labels.device_label).where(devices == 1, "")
    return frame.assign(panel=[labels.joined(*parts) for parts in zip(frame["panel"], device, strict=True)])


def add_legend(figure: Figure, devices: "Sequence[str]", *, marks: "Sequence[str] | pd.Series[str]" = ()) -> None:
    """Say above the panels which look is which device, and what a hollow marker means if one is drawn."""
    handles = [*(_handle(device, list(devices)) for device in devices), *hollow_handles(marks)]
    if handles:
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), borderaxespad=0.2)


def hollow_handles(marks: "Sequence[str] | pd.Series[str]") -> list[Line2D]:
    """What a hollow marker means, for a legend; nothing where none of the marks is a doubt."""
    doubts = labels.doubts(marks)
    look: dict[str, Any] = {"color": style.QUIET, "markerfacecolor": "white", "marker": "o", "linestyle": "none"}
    return [Line2D([], [], label=f"hollow: {', '.join(doubts)}", **look)] if doubts else []


def _handle(device: str, devices: list[str]) -> Line2D:
    color, marker = style.device_look(device, devices)
    return Line2D([], [], color=color, marker=marker, label=labels.device_label(device))


def _columns(count: int) -> int:
    if count <= 2 or count == 4:
        return min(count, 2)
    return 3 if count <= 9 else 4


def _panel_grid(count: int, columns: int) -> tuple[Figure, list[Axes]]:
    if count == 1:
        figure = style.new_figure(height_in=_SINGLE_PANEL_HEIGHT_IN)
        return figure, [figure.add_subplot()]
    rows = math.ceil(count / columns)
    figure = style.new_figure(height_in=rows * _PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    return figure, [figure.add_subplot(rows, columns, position + 1) for position in range(count)]


def _draw_panel(axes: Axes, panel: pd.DataFrame, *, axis: str, metric: Metric, devices: list[str]) -> None:
    numbers = metric.intervals(panel)
    drawn = numbers.dropna()
    style.set_scale(axes, "y", [*drawn["low"], *drawn["high"]])
    for device, rows in panel.assign(**numbers).groupby("device", sort=False):
        draw_line(axes, rows.sort_values(axis), axis=axis, look=style.device_look(str(device), devices))
    draw_gaps(axes, panel[panel[metric.column].isna()], axis=axis, name_device=len(devices) > 1)


def draw_line(axes: Axes, rows: pd.DataFrame, *, axis: str, look: tuple[str, str]) -> None:
    """A line through the columns `value`, with bars from `low` to `high`; doubted numbers get a hollow marker."""
    color, marker = look
    spread = [rows["value"] - rows["low"], rows["high"] - rows["value"]]
    axes.errorbar(rows[axis], rows["value"], yerr=spread, color=color, marker=marker, capthick=0.8, elinewidth=0.8)
    doubted = rows[[bool(labels.doubts([marks])) for marks in rows["marks"]]]
    axes.plot(
        doubted[axis], doubted["value"], linestyle="none", marker=marker, color=color, markerfacecolor="white", zorder=3
    )


def draw_chance(axes: Axes, chances: "pd.Series[float]") -> None:
    """A dashed line at the quality that guessing reaches, with its name on it."""
    for chance in sorted(set(chances.dropna())):
        axes.axhline(chance, color=style.QUIET, linestyle="--", linewidth=0.8)
        axes.annotate(
            "chance",
            (1, chance),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            fontsize=style.TINY_FONT_SIZE_PT,
            color=style.QUIET,
        )
    bottom, top = axes.get_ylim()
    room = 0.08 * (top - bottom)
    axes.set_ylim(min([bottom, *(chances.dropna() - room)]), max([top, *(chances.dropna() + 2 * room)]))


def draw_gaps(axes: Axes, missing: pd.DataFrame, *, axis: str, name_device: bool) -> None:
    """Why there is no number, upright at the place of each variant that has none."""
    for position, rows in missing.groupby(axis):
        text = labels.device_status if name_device else labels.status_text
        axes.annotate(
            "\n".join(text(row) for _, row in rows.iterrows()),
            (float(str(position)), 0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=style.TINY_FONT_SIZE_PT,
            color=style.QUIET,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )


def scale_measured_values(axes: Axes, values: list[float], *, columns: int) -> None:
    """Ticks at the measured values and nowhere else; powers of two apart alike where the values span a factor 8."""
    low, high = values[0], values[-1]
    if low > 0 and high / low >= _SPAN_FOR_POWERS_OF_TWO:
        axes.set_xscale("log", base=2)
        room = (high / low) ** _ROOM
        axes.set_xlim(low / room, high * room)
    else:
        room = (high - low) * _ROOM or 1.0
        axes.set_xlim(low - room, high + room)
    axes.xaxis.set_major_locator(FixedLocator(_labelled(values, columns)))
    axes.xaxis.set_minor_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(FuncFormatter(style.tick_text))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _labelled(values: list[float], columns: int) -> list[float]:
    """Every value, or every second, third, ... where their labels would not fit beside each other."""
    width = style.TEXT_WIDTH_IN / columns - 0.5
    widest = max((len(style.tick_text(value)) for value in values), default=1) + 1
    step = max(1, math.ceil(len(values) * widest * _CHARACTER_WIDTH_IN / width))
    return values[::-1][::step][::-1]
