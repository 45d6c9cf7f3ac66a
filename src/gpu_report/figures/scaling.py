"""What is left of each device's speed when several share a training: the less, the faster the code is on one.

scaling_efficiency -> panels (number of devices) -> a line per model -> points (precision and optimization)
"""

from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gpu_report.figures import labels, style
from gpu_report.figures.curves import draw_intervals, hollow_handles
from gpu_report.figures.declaration import Shown, VariantFigure, high_panels
from gpu_report.glossary import METRICS, model_words
from gpu_report.study.options import EAGER, EXECUTIONS, execution
from gpu_report.tables.bundle import rows_of

_HEIGHT_IN: Final = 2.1
_ROOM: Final = 1.5
"""Left and right of the points, as a factor."""
_EFFICIENCY: Final = METRICS["weak_efficiency"]
_STEP_TIME: Final = METRICS["base_step_time_ms"]
_STRATEGY: Final = "ddp"
_MODEL: Final = ["workload", "size"]
_CONFIGURATION: Final = ["precision", "optimization"]
_MARKERS: Final = {EAGER: "o", **dict(zip(EXECUTIONS.values(), ("^", "s"), strict=True))}


def _scaled(shown: Shown) -> pd.DataFrame:
    """GPUs' rows of weak scaling with DDP, where a model has them in more than one configuration; else none."""
    own = [column for column in shown.tables.scaling_efficiency if column not in shown.rows]
    rows = shown.rows.merge(shown.tables.scaling_efficiency[["variant", *own]], on="variant")
    is_shown = rows["is_weak"] & (rows["strategy"] == _STRATEGY) & (rows["devices"] > 1) & (rows["device"] != "cpu")
    rows = rows[is_shown].dropna(subset=[_EFFICIENCY.column, _STEP_TIME.column])
    several = any(len(alike.drop_duplicates(_CONFIGURATION)) > 1 for _, alike in rows.groupby(_MODEL))
    return rows if several else rows.iloc[:0]


def is_drawn(shown: Shown) -> bool:
    """Whether this figure shows what scaling an experiment has."""
    return not _scaled(shown).empty


def scaling_figure(shown: Shown) -> Figure:
    """Draw weak efficiency against the step time of one plain process, a panel per number of devices."""
    rows = shown.rows
    models = dict.fromkeys(map(model_words, (row for _, row in rows.iterrows())))
    colors = dict(zip(models, style.PALETTE, strict=False))
    figure = style.new_figure(height_in=_HEIGHT_IN)
    panels = list(rows.groupby("devices"))
    row_of_axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for axes, (devices, panel) in zip(row_of_axes, panels, strict=True):
        style.set_panel_title(axes, f"{devices} GPUs", columns=len(panels))
        style.level(axes, 1, "ideal", at_left=False, zorder=1)
        for model, line in panel.groupby(panel.apply(model_words, axis=1), sort=False):
            _draw_model(axes, line.sort_values(_STEP_TIME.column), color=colors[str(model)])
        axes.set_xlabel(_STEP_TIME.axis_label)
    _scale(row_of_axes[0], rows)
    row_of_axes[0].set_ylabel(f"{_EFFICIENCY.label} (%)")
    figure.legend(
        handles=[
            *(Line2D([], [], color=color, label=model) for model, color in colors.items()),
            *(_handle(way) for way in _MARKERS if way in set(rows["options"].map(execution))),
            *hollow_handles(rows["marks"]),
        ],
        loc="outside upper right",
        ncols=6,
        borderaxespad=0.2,
    )
    return figure


def _handle(way: str) -> Line2D:
    return Line2D([], [], color=style.QUIET, marker=_MARKERS[way], linestyle="none", label=way)


def _draw_model(axes: Axes, line: pd.DataFrame, *, color: str) -> None:
    times, numbers = line[_STEP_TIME.column], _EFFICIENCY.intervals(line)
    axes.plot(times, numbers["value"], color=color, linewidth=0.8, zorder=1.5)
    for position, (_, row) in enumerate(line.iterrows()):
        look: dict[str, Any] = {
            "color": color,
            "marker": _MARKERS[execution(row["options"])],
            "markerfacecolor": "white" if labels.doubts([row["marks"]]) else color,
            "linestyle": "none",
        }
        draw_intervals(axes, times.iloc[[position]], numbers.iloc[[position]], elinewidth=0.8, **look)
        place = (times.iloc[position], numbers["value"].iloc[position])
        style.note(axes, str(row["precision"]), place, of="data", offset=(5, -8), color=color)


def _scale(axes: Axes, rows: pd.DataFrame) -> None:
    numbers = _EFFICIENCY.intervals(rows)
    lowest, highest = min(numbers["low"]), max(1.0, *numbers["high"])
    room = 0.12 * (highest - lowest) or 0.01
    axes.set_ylim(lowest - room, highest + room)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: style.tick_text(round(100 * share, 6))))
    axes.set_xscale("log")
    axes.set_xlim(min(rows[_STEP_TIME.column]) / _ROOM, max(rows[_STEP_TIME.column]) * _ROOM)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(style.tick_text))


def _extremes(shown: Shown) -> str:
    """The lowest and the highest efficiency, each with the step that it is of."""
    by_efficiency = rows_of(shown.rows.sort_values(_EFFICIENCY.column))
    low, high = (
        f"{_EFFICIENCY.quantity(row).plain(interval=False)} "
        f"({model_words(row)}, {row['precision']}, a step of {_STEP_TIME.quantity(row).plain(interval=False)})"
        for row in (by_efficiency[0], by_efficiency[-1])
    )
    return f"Weak efficiency reaches from {low} to {high}."


SCALING: Final = VariantFigure(
    name="scaling",
    title="Scaling against the speed of the code",
    caption=(
        "Weak efficiency of DistributedDataParallel against the time that one plain process takes for a step with the "
        "samples of one GPU: the faster the code, the less time there is to exchange gradients. Lines join the "
        "configurations of one model. Points are means, bars 95 % intervals (of three processes ranges)."
    ),
    along=("parallelism",),
    rows=_scaled,
    draw=scaling_figure,
    layout=high_panels(1000),
    sentences=(_extremes,),
    tables=("scaling_efficiency",),
)
