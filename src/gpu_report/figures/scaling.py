"""What is left of each device's speed when several share a training, and what a step of each rank
goes into.

scaling_efficiency -> a row per configuration, below its model -> a point per number of devices
ranks -> the fastest configuration of each model -> a bar per rank -> parts of its step
"""

from itertools import cycle
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpu_report.figures import labels, palette, style
from gpu_report.figures.declaration import Shown, VariantFigure
from gpu_report.figures.points import (
    Entry,
    draw_intervals,
    draw_reference,
    height_of_rows,
    hollow_handles,
    place_rows,
)
from gpu_report.glossary import METRICS
from gpu_report.printing.number_format import share
from gpu_report.study.variant import AXIS_FIELDS
from gpu_report.tables.bundle import rows_of
from gpu_report.words import model_words, per_device, shorten, with_configurations

_APART: Final = 0.34
"""Between the points of one row at most, as a part of its height; all of them take at most twice as
much.
"""
_EFFICIENCY: Final = METRICS["weak_efficiency"]
_STEP_TIME: Final = METRICS["base_step_time_ms"]
_CHARACTERS_BELOW_RANKS: Final = 36  # in a line, of all models together
_LONGEST: Final = 24
_MODEL: Final = ["workload", "size"]
_PARTS: Final = {
    "compute alone": palette.BLUE,
    "both at once": palette.SKY,
    "exposed communication": palette.VERMILLION,
    "neither": palette.OTHERS,
}


def _weak_scaling_of_ddp(shown: Shown) -> pd.DataFrame:
    own = [column for column in shown.tables.scaling_efficiency if column not in shown.rows]
    named = shown.rows.assign(
        configuration=[row["configuration"] for row in with_configurations(rows_of(shown.rows))]
    )
    rows: pd.DataFrame = named.merge(
        shown.tables.scaling_efficiency[["variant", *own]], on="variant"
    )
    is_shown = (
        rows["is_weak"]
        & (rows["strategy"] == "ddp")
        & (rows["devices"] > 1)
        & (rows["device"] != "cpu")
    )
    return rows[is_shown].dropna(subset=[_EFFICIENCY.column, _STEP_TIME.column])


def _ranks(shown: Shown) -> pd.DataFrame:
    """The ranks of the fastest configuration of each model on the most devices, with what a step
    goes into as shares.

    Only configurations whose traces are reliable have ranks.
    """
    rows = shown.rows[shown.rows["variant"].isin(shown.tables.ranks["variant"])]
    rows = rows[rows["devices"] == rows["devices"].max()]
    rows = rows.sort_values("throughput_per_s", ascending=False).drop_duplicates(_MODEL)
    ranks: pd.DataFrame = rows.sort_index()[
        ["variant", *_MODEL, "workload_title", "precision"]
    ].merge(shown.tables.ranks.drop(columns=["workload", "device"]), on="variant")
    times_ms = (
        ranks["compute_ms"] - ranks["hidden_ms"],
        ranks["hidden_ms"],
        ranks["exposed_ms"],
        ranks["wall_ms"] - ranks["compute_ms"] - ranks["exposed_ms"],
    )
    return ranks.assign(
        **{part: each / ranks["wall_ms"] for part, each in zip(_PARTS, times_ms, strict=True)}
    )


def _labelled(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    rows = labels.with_labels(
        rows, without=("precision", *AXIS_FIELDS["optimization"], "device", "batch_size", axis)
    )
    rows = rows.assign(
        label=[
            labels.joined(*each) for each in zip(rows["configuration"], rows["label"], strict=True)
        ],
        heading=[
            f"{labels.workload_label(row)}, {per_device(row['batch_per_device'], row['device'])}"
            for row in rows_of(rows)
        ],
    )
    longest = rows.groupby(["heading", "label"])[_STEP_TIME.column].transform("max")
    rows = labels.sorted_by(rows.assign(order=-longest), "heading", then=["order", "devices"])
    return rows.assign(entry=rows["heading"] + rows["label"])


def scaling_figure(shown: Shown) -> Figure:
    """Draw the weak efficiency of each configuration, and beside them the step of each rank."""
    rows, ranks = shown.rows, _ranks(shown)
    rows = rows.assign(line=rows.groupby(["heading", "label"], sort=False).ngroup())
    entries = [
        Entry(
            heading=row["heading"],
            label=row["label"],
            text=_STEP_TIME.quantity(row, unit=_STEP_TIME.drawn_unit).plain(interval=False),
        )
        for row in rows_of(rows.drop_duplicates("line"))
    ]
    figure = style.new_figure(height_in=max(1.9, height_of_rows(entries, legend_rows=2)))
    widths = [1.0, 0.85] if len(ranks) else [1.0]
    axes, *beside = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    looks: dict[int, dict[str, Any]] = {
        devices: {
            "color": color,
            "marker": marker,
            "linestyle": "none",
            "markersize": 4,
            "label": f"{devices} GPUs",
        }
        for devices, color, marker in zip(
            sorted(set(rows["devices"])), cycle(palette.PALETTE), style.MARKERS, strict=False
        )
    }
    positions = place_rows(axes, entries, text_heading="one process")
    # In the line of each configuration a point per number of devices, the fewest at the top.
    numbers = _EFFICIENCY.intervals(rows)
    for order, (devices, look) in enumerate(looks.items()):
        shift = min(_APART, 2 * _APART / len(looks)) * (order - (len(looks) - 1) / 2)
        for index, row in rows[rows["devices"] == devices].iterrows():
            face = "white" if labels.doubts([row["marks"]]) else look["color"]
            draw_intervals(
                axes,
                pd.Series([positions[row["line"]] + shift]),
                numbers.loc[[index]],
                upright=False,
                elinewidth=0.8,
                markerfacecolor=face,
                **look,
            )
    lowest, highest = min(numbers["low"]), max(1.0, *numbers["high"])
    room = 0.06 * (highest - lowest) or 0.01
    axes.set_xlim(lowest - room, highest + 2 * room)  # room for the name of the reference
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda share, _: style.tick_text(round(100 * share, 6)))
    )
    axes.set_xlabel(f"{_EFFICIENCY.label} (%)")
    draw_reference(axes, _EFFICIENCY)
    if beside:
        _draw_ranks(beside[0], ranks)
    figure.legend(
        handles=[
            *(Line2D([], [], **look) for look in looks.values()),
            *hollow_handles(rows["marks"]),
        ],
        loc="outside upper left",
        ncols=6,
        borderaxespad=0.2,
    )
    return figure


def _draw_ranks(axes: Axes, ranks: pd.DataFrame) -> None:
    ranks = ranks.assign(
        position=ranks.index + (ranks["variant"] != ranks["variant"].shift()).cumsum()
    )
    bottom = pd.Series(0.0, index=ranks.index)
    for part, color in _PARTS.items():
        axes.bar(
            ranks["position"],
            100 * ranks[part],
            bottom=bottom,
            label=part,
            color=color,
            edgecolor=palette.QUIET,
            linewidth=0.4,
            width=0.9,
        )
        bottom = bottom + 100 * ranks[part]
    for position in ranks.loc[ranks["is_slow"], "position"]:
        style.note(axes, "slow", (position, 100), of="data", offset=(0, 1), ha="center")
    models = [
        (same["position"].mean(), same.iloc[0]) for _, same in ranks.groupby("variant", sort=False)
    ]
    names = [f"{shorten(model_words(row), _LONGEST)}\n{row['precision']}" for _, row in models]
    fits = max(map(len, names)) < _CHARACTERS_BELOW_RANKS / len(models)
    axes.set_xticks([place for place, _ in models], names, rotation=0 if fits else 90)
    axes.tick_params(axis="x", length=0, labelsize=style.TINY_FONT_SIZE_PT)
    axes.set_ylabel("Share (%)")
    axes.grid(visible=False)
    style.set_panel_title(axes, "Step of each rank", columns=2)
    axes.figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower right", ncols=4, handlelength=1.0
    )


def _extremes(shown: Shown) -> str:
    by_efficiency = rows_of(shown.rows.sort_values(_EFFICIENCY.column))
    low, high = (
        f"{_EFFICIENCY.quantity(row).plain(interval=False)} ({model_words(row)}, "
        f"{row['precision']}, a step of {_STEP_TIME.quantity(row).plain(interval=False)})"
        for row in (by_efficiency[0], by_efficiency[-1])
    )
    return (
        f"Weak efficiency reaches from {low} to {high}."
        if low != high
        else f"Weak efficiency is {low}."
    )


def _parts_of_steps(shown: Shown) -> str:
    ranks = _ranks(shown)
    if ranks.empty:
        return ""
    parts = ", ".join(f"{part} {share(ranks[part].mean()).plain()}" for part in _PARTS)
    slow = ", ".join(
        f"rank {row['rank']} of {model_words(row)}" for row in rows_of(ranks[ranks["is_slow"]])
    )
    return f"On average over the ranks a step is {parts}. Slow ranks: {slow or 'none'}."


SCALING: Final = VariantFigure(
    name="scaling",
    title="Scaling, and the step of each rank",
    caption=(
        "Weak efficiency of DistributedDataParallel, with 95 % intervals, by model and samples per "
        "GPU; beside it the step time of one plain process. Right: the step of each profiled "
        "rank, in each model's fastest configuration with a reliable trace on the most GPUs. All "
        "ranks wait for a slow one."
    ),
    along=("parallelism",),
    rows=_weak_scaling_of_ddp,
    draw=scaling_figure,
    label=_labelled,
    together="entry",
    groups_on_page=30,
    sentences=(_extremes, _parts_of_steps),
    tables=("scaling_efficiency", "ranks"),
)
