"""How fast each configuration trained from session to session, with the sessions at which that
changed.

history -> FigureSpec -> panels (machine, variant) -> a line per series over dates, with its change
points
"""

import math
from functools import partial
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures import labels, style
from gpu_report.figures.curves import draw_line, hollow_handles
from gpu_report.figures.declaration import FigureSpec, intervals_in_words
from gpu_report.glossary import THROUGHPUT, machine_words
from gpu_report.printing.number_format import change, counted

_COLUMNS: Final = 2
_PANEL_HEIGHT_IN: Final = 1.35
_LEGEND_HEIGHT_IN: Final = 0.3
_LOOK: Final = (style.BLUE, "o")
_CHANGE: Final[dict[str, Any]] = {"color": style.VERMILLION, "linewidth": 1.0, "zorder": 1}
_NEW_SERIES: Final[dict[str, Any]] = {
    "color": style.QUIET,
    "linestyle": "--",
    "linewidth": 0.8,
    "zorder": 1,
}
_PANEL: Final = ["machine", "variant"]


def history_figure(history: pd.DataFrame) -> FigureSpec:
    """The figure of all rows of HISTORY, of which there is at least one."""
    named = labels.with_labels(labels.with_fields(history.drop_duplicates(_PANEL, keep="last")))
    names = labels.full_names(named)
    if named["machine"].nunique() > 1:
        names = [
            labels.joined(machine_words(machine), name)
            for machine, name in zip(named["machine"], names, strict=True)
        ]
    rows = history.merge(named[_PANEL].assign(panel=names), on=_PANEL)
    rows = rows.assign(
        date=pd.to_datetime(rows["measured_at"], utc=True, format="ISO8601").dt.tz_localize(None)
    )
    title = "Throughput by session"
    changed = counted(rows["is_change_point"].sum(), "change point")
    return FigureSpec(
        name="history",
        subject="history",
        kind="history",
        title=title,
        caption=(
            "Training throughput of each configuration by session, means over processes with "
            f"{intervals_in_words(history)}. A vertical line is a change point, with the change "
            "of the mean over sessions; dashed, the protocol or the workload's settings changed "
            "and a new series begins."
        ),
        alt=f"{title}: {counted(len(names), 'configuration')}, "
        f"{counted(len(rows), 'measurement')}, {changed}.",
        variants=tuple(dict.fromkeys(rows["variant"])),
        drawing=partial(_draw, rows),
    )


def _draw(rows: pd.DataFrame) -> Figure:
    panels = [panel for _, panel in rows.groupby(_PANEL, sort=False)]
    height = math.ceil(len(panels) / _COLUMNS)
    figure = style.new_figure(height_in=height * _PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    grid = figure.add_gridspec(height, _COLUMNS)
    for position, panel in enumerate(panels):
        axes = figure.add_subplot(grid[divmod(position, _COLUMNS)])
        style.set_panel_title(axes, panel["panel"].iloc[0], columns=_COLUMNS)
        _draw_panel(axes, panel)
        axes.set_xlim(_with_room(rows["date"]))
        if position % _COLUMNS == 0:
            axes.set_ylabel(f"{THROUGHPUT.label}\n({THROUGHPUT.drawn_unit})")
    handles = [
        *(
            [Line2D([], [], label="change point", **_CHANGE)]
            if rows["is_change_point"].any()
            else []
        ),
        *(
            [Line2D([], [], label="new series", **_NEW_SERIES)]
            if (rows["series"] > 1).any()
            else []
        ),
        *hollow_handles(rows["marks"]),
    ]
    if handles:
        figure.legend(
            handles=handles, loc="outside upper right", ncols=len(handles), borderaxespad=0.2
        )
    return figure


def _draw_panel(axes: Axes, panel: pd.DataFrame) -> None:
    for series, line in panel.assign(**THROUGHPUT.intervals(panel)).groupby("series"):
        if series != 1:
            axes.axvline(line["date"].iloc[0], **_NEW_SERIES)
        draw_line(axes, line.dropna(subset="value"), axis="date", look=_LOOK)
        for _, row in line[line["is_change_point"]].iterrows():
            axes.axvline(row["date"], **_CHANGE)
            look: dict[str, Any] = {"color": style.VERMILLION, "va": "top", "bbox": style.BLANK}
            place = (row["date"], 1)
            style.note(
                axes,
                change(row["change_ratio"]).plain(),
                place,
                of=("data", "axes fraction"),
                **look,
            )
    style.set_scale(axes, "y", [*panel["throughput_per_s"].dropna()], from_zero=False)
    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _with_room(dates: "pd.Series[Any]") -> tuple[Any, Any]:
    """The same dates in every panel, with room for a marker at both ends."""
    room = max((dates.max() - dates.min()) * 0.04, pd.Timedelta(hours=12))
    return dates.min() - room, dates.max() + room
