"""What figures of lines along an axis of numbers share: lines with intervals, gaps with reasons,
ticks, legend.
"""

import math
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from gpu_report.figures import labels, style
from gpu_report.glossary import device_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPAN_FOR_POWERS_OF_TWO: Final = 8
_ROOM: Final = 0.07
"""Left and right of the measured values, as a part of their span."""
_CHARACTER_WIDTH_IN: Final = 0.065


def add_legend(
    figure: Figure, devices: "Sequence[str]", *, marks: "Sequence[str] | pd.Series[str]" = ()
) -> None:
    """Say above the panels which look is which device, and what a hollow marker means if one is
    drawn.
    """
    handles = [
        *(
            Line2D([], [], label=device_words(device), **style.device_look(device, list(devices)))
            for device in devices
        ),
        *hollow_handles(marks),
    ]
    if handles:
        figure.legend(
            handles=handles, loc="outside upper right", ncols=len(handles), borderaxespad=0.2
        )


def hollow_handles(marks: "Sequence[str] | pd.Series[str]") -> list[Line2D]:
    """What a hollow marker means, for a legend; nothing where none of the marks is a doubt."""
    doubts = labels.doubts(marks)
    look: dict[str, Any] = {
        "color": style.QUIET,
        "markerfacecolor": "white",
        "marker": "o",
        "linestyle": "none",
    }
    return [Line2D([], [], label=f"hollow: {', '.join(doubts)}", **look)] if doubts else []


def draw_lines(axes: Axes, panel: pd.DataFrame, *, axis: str, devices: list[str]) -> None:
    """A line for each device of a panel, in the look that it has among these devices."""
    for device, rows in panel.groupby("device", sort=False):
        draw_line(
            axes, rows.sort_values(axis), axis=axis, look=style.device_look(str(device), devices)
        )


def draw_intervals(
    axes: Axes,
    along: "pd.Series[Any] | pd.Index[Any]",
    numbers: pd.DataFrame,
    *,
    upright: bool = True,
    **look: Any,
) -> None:
    """Points at the column `value` with bars from `low` to `high`: upright over `along`, or beside
    it.
    """
    spread = [numbers["value"] - numbers["low"], numbers["high"] - numbers["value"]]
    if upright:
        axes.errorbar(along, numbers["value"], yerr=spread, **look)
    else:
        axes.errorbar(numbers["value"], along, xerr=spread, **look)


def draw_line(axes: Axes, rows: pd.DataFrame, *, axis: str, look: "Mapping[str, Any]") -> None:
    """A line through the columns `value`, with bars from `low` to `high`; doubted numbers get a
    hollow marker.
    """
    draw_intervals(axes, rows[axis], rows, capthick=0.8, elinewidth=0.8, **look)
    doubted = rows[rows["marks"].map(lambda marks: bool(labels.doubts([marks]))).astype(bool)]
    axes.plot(
        doubted[axis],
        doubted["value"],
        linestyle="none",
        markerfacecolor="white",
        zorder=3,
        **look,
    )


def draw_gaps(axes: Axes, missing: pd.DataFrame, *, axis: str, name_device: bool) -> None:
    """Why there is no number, upright at the place of each variant that has none."""
    for position, rows in missing.groupby(axis):
        reasons = "\n".join(
            labels.status_text(row, name_device=name_device) for _, row in rows.iterrows()
        )
        look = {"rotation": 90, "ha": "center", "va": "bottom"}
        place = (float(str(position)), 0)
        style.note(
            axes,
            reasons,
            place,
            of=("data", "axes fraction"),
            offset=(0, 3),
            bbox=style.BLANK,
            **look,
        )


def scale_measured_values(axes: Axes, measured: "pd.Series[Any]", *, columns: int) -> None:
    """Ticks at the measured values and nowhere else; powers of two apart alike where the values
    span a factor 8.
    """
    values = sorted(set(measured.dropna().astype(float)))
    low, high = values[0], values[-1]
    if low > 0 and high / low >= _SPAN_FOR_POWERS_OF_TWO:
        axes.set_xscale("log", base=2)
        room = (high / low) ** _ROOM
        axes.set_xlim(low / room, high * room)
    else:
        room = (high - low) * _ROOM or 1.0
        axes.set_xlim(low - room, high + room)
    # Every value, or every second, third, ... where their labels would not fit beside each other.
    width = style.TEXT_WIDTH_IN / columns - 0.5
    widest = max((len(style.tick_text(value)) for value in values), default=1) + 1
    step = max(1, math.ceil(len(values) * widest * _CHARACTER_WIDTH_IN / width))
    axes.xaxis.set_major_locator(FixedLocator(values[::-1][::step][::-1]))
    axes.xaxis.set_minor_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(FuncFormatter(style.tick_text))
    axes.xaxis.set_minor_formatter(NullFormatter())
