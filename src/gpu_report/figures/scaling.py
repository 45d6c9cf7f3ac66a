"""What is left of each device's speed when several share a training, and what a step of each rank goes into.

scaling_efficiency -> panels (number of devices) -> a line per model -> points (precision and optimization)
ranks -> the fastest configuration of each model -> a bar per rank -> parts of its step
"""

import textwrap
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
from gpu_report.printing.number_format import share
from gpu_report.study.options import EAGER, EXECUTIONS, execution
from gpu_report.tables.bundle import rows_of

_HEIGHT_IN: Final = 1.75
_WIDTH_OF_RANKS: Final = 0.9
"""Over that of a panel of efficiency, without its legend."""
_ROOM: Final = 1.5
"""Left and right of the points, as a factor."""
_EFFICIENCY: Final = METRICS["weak_efficiency"]
_STEP_TIME: Final = METRICS["base_step_time_ms"]
_STRATEGY: Final = "ddp"
_LONGEST_NAME: Final = 14
"""Characters in a line below the bars of a model."""
_MODEL: Final = ["workload", "size"]
_CONFIGURATION: Final = ["precision", "optimization"]
_PARTS: Final = {
    "compute alone": style.BLUE,
    "both at once": style.SKY,
    "exposed communication": style.VERMILLION,
    "neither": style.OTHERS,
}
_MARKERS: Final = {EAGER: "o", **dict(zip(EXECUTIONS.values(), ("^", "s"), strict=True))}


def _scaled(shown: Shown) -> pd.DataFrame:
    """GPUs' rows of weak scaling with DDP."""
    own = [column for column in shown.tables.scaling_efficiency if column not in shown.rows]
    rows: pd.DataFrame = shown.rows.merge(shown.tables.scaling_efficiency[["variant", *own]], on="variant")
    is_shown = rows["is_weak"] & (rows["strategy"] == _STRATEGY) & (rows["devices"] > 1) & (rows["device"] != "cpu")
    return rows[is_shown].dropna(subset=[_EFFICIENCY.column, _STEP_TIME.column])


def _ranks(shown: Shown) -> pd.DataFrame:
    """The ranks of the fastest configuration of each model on the most devices, with what a step goes into as shares.

    Only configurations whose traces are reliable have ranks.
    """
    rows = shown.rows[shown.rows["variant"].isin(shown.tables.ranks["variant"])]
    rows = rows[rows["devices"] == rows["devices"].max()].sort_values(_STEP_TIME.column).drop_duplicates(_MODEL)
    ranks: pd.DataFrame = rows.sort_index()[["variant", *_MODEL, "workload_title", "precision"]].merge(
        shown.tables.ranks.drop(columns=["workload", "device"]), on="variant"
    )
    times_ms = (
        ranks["compute_ms"] - ranks["hidden_ms"],
        ranks["hidden_ms"],
        ranks["exposed_ms"],
        ranks["wall_ms"] - ranks["compute_ms"] - ranks["exposed_ms"],
    )
    return ranks.assign(**{part: each / ranks["wall_ms"] for part, each in zip(_PARTS, times_ms, strict=True)})


def is_drawn(shown: Shown) -> bool:
    """Whether this figure shows what scaling an experiment has."""
    return not _scaled(shown).empty


def scaling_figure(shown: Shown) -> Figure:
    """Draw weak efficiency against the step time of one plain process, a panel per number of devices."""
    rows = shown.rows
    models = dict.fromkeys(map(model_words, (row for _, row in rows.iterrows())))
    colors = dict(zip(models, style.PALETTE, strict=False))
    figure = style.new_figure(height_in=_HEIGHT_IN)
    panels, ranks = list(rows.groupby("devices")), _ranks(shown)
    widths = [1.0] * len(panels) + [_WIDTH_OF_RANKS] * bool(len(ranks))
    row_of_axes = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    for axes, (devices, panel) in zip(row_of_axes, panels, strict=False):
        style.set_panel_title(axes, f"{devices} GPUs", columns=len(widths))
        style.level(axes, 1, "ideal", at_left=True, zorder=1)
        for model, line in panel.groupby(panel.apply(model_words, axis=1), sort=False):
            _draw_model(axes, line.sort_values(_STEP_TIME.column), color=colors[str(model)])
        _scale(axes, rows)
        axes.tick_params(labelleft=axes is row_of_axes[0])
    row_of_axes[0].set_ylabel(f"{_EFFICIENCY.label} (%)")
    row_of_axes[(len(panels) - 1) // 2].set_xlabel(_STEP_TIME.axis_label)
    if len(ranks):
        _draw_ranks(row_of_axes[-1], ranks)
    figure.legend(
        handles=[
            *(Line2D([], [], color=color, label=model) for model, color in colors.items()),
            *(_handle(way) for way in _MARKERS if way in set(rows["options"].map(execution))),
            *hollow_handles(rows["marks"]),
        ],
        loc="outside upper left",
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
        # Points of one model may be close; every other name is above its point.
        style.note(axes, str(row["precision"]), place, of="data", offset=(5, 3 if position % 2 else -8), color=color)


def _draw_ranks(axes: Axes, ranks: pd.DataFrame) -> None:
    """The ranks of a model side by side, in their order; a slow one is marked."""
    ranks = ranks.assign(position=ranks.index + (ranks["variant"] != ranks["variant"].shift()).cumsum())
    bottom = pd.Series(0.0, index=ranks.index)
    for part, color in _PARTS.items():
        look: dict[str, Any] = {"color": color, "edgecolor": style.QUIET, "linewidth": 0.4, "width": 0.9}
        axes.bar(ranks["position"], 100 * ranks[part], bottom=bottom, label=part, **look)
        bottom = bottom + 100 * ranks[part]
    for position in ranks.loc[ranks["is_slow"], "position"]:
        style.note(axes, "slow", (position, 100), of="data", offset=(0, 1), ha="center")
    models = [(same["position"].mean(), same.iloc[0]) for _, same in ranks.groupby("variant", sort=False)]
    names = [f"{model_words(row)}, {row['precision']}" for _, row in models]
    axes.set_xticks([place for place, _ in models], [textwrap.fill(name, _LONGEST_NAME) for name in names])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("Share (%)")
    axes.grid(visible=False)
    style.set_panel_title(axes, "Step of each rank", columns=2)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True, handlelength=1.0)


def _scale(axes: Axes, rows: pd.DataFrame) -> None:
    numbers = _EFFICIENCY.intervals(rows)
    lowest, highest = min(numbers["low"]), max(1.0, *numbers["high"])
    room = 0.12 * (highest - lowest) or 0.01
    axes.set_ylim(lowest - 2 * room, highest + room)  # a name may be below the lowest point
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
    return f"Weak efficiency reaches from {low} to {high}." if low != high else f"Weak efficiency is {low}."


def _parts(shown: Shown) -> str:
    """What the ranks' steps go into, and which rank is slow."""
    ranks = _ranks(shown)
    if ranks.empty:
        return ""
    parts = ", ".join(f"{part} {share(ranks[part].mean()).plain()}" for part in _PARTS)
    slow = ", ".join(f"rank {row['rank']} of {model_words(row)}" for row in rows_of(ranks[ranks["is_slow"]]))
    return f"On average over the ranks a step is {parts}. Slow ranks: {slow or 'none'}."


SCALING: Final = VariantFigure(
    name="scaling",
    title="Scaling, and the step of each rank",
    caption=(
        "Weak efficiency of DistributedDataParallel, with {intervals}, against the step time of one plain process: "
        "the time that it adds is a larger share of a shorter step. Right: the step of each profiled rank, in each "
        "model's fastest configuration with a reliable trace on the most GPUs. All ranks wait for a slow one."
    ),
    along=("parallelism",),
    rows=_scaled,
    draw=scaling_figure,
    layout=high_panels(1000),
    sentences=(_extremes, _parts),
    tables=("scaling_efficiency", "ranks"),
)
