"""What optimizations bring: each step of a ladder, individually, cumulatively and left out, and
where the time of a training step goes along a ladder, in milliseconds, split into categories of the
device's work and the time in which it had none.

experiment table -> groups (what the variants share) -> a line per step: a point each
experiments' ladders + step_categories -> rows (eager, then each step with those above) -> segments
"""

import math
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures import labels, palette, style
from gpu_report.figures.declaration import (
    Shown,
    extremes_of,
    variant_figure,
)
from gpu_report.figures.points import hollow_handles, place_rows
from gpu_report.figures.stacked_bars import stacked_bars_figure
from gpu_report.glossary import SPEEDUP, Row
from gpu_report.printing.number_format import count, quantity
from gpu_report.tables.bundle import eager_and_fastest, rows_of
from gpu_report.tables.traces import IDLE_TIME, LAYOUT_CONVERSION

_INDIVIDUAL: Final[dict[str, Any]] = {"color": palette.VERMILLION, "marker": "D"}
_CUMULATIVE: Final[dict[str, Any]] = {"color": palette.BLUE, "marker": "s"}
_LEFT_OUT: Final[dict[str, Any]] = {"color": palette.GREEN, "marker": "^"}
_OFFSETS: Final = (-0.22, 0, 0.22)
"""How far, in lines, the points of a step are below its row's middle."""
_LOG_LADDER_SPAN: Final = 3  # steps multiply: an axis is logarithmic as soon as it has two ticks
_COLUMNS_PT: Final = (8, 56, 104, 152)


def _ladders(shown: Shown) -> pd.DataFrame:
    """Those of which more is measured than the cumulative steps, which the table has."""
    rows = shown.rows.groupby("group").filter(
        lambda group: bool(labels.beside_ladder(list(group["optimization"])))
    )
    return rows if rows[~rows["is_baseline"]][SPEEDUP.column].notna().any() else rows.iloc[:0]


def ladder_figure(shown: Shown) -> Figure:
    """Draw each step's speedup over the eager baseline, by the ladder of each heading, with the
    speedups and the break-even steps in columns at the right.
    """
    numbers = SPEEDUP.intervals(shown.rows)
    frame = shown.rows.assign(**numbers)
    steps = {
        str(heading): labels.ladder_steps_of(list(group["optimization"]))
        for heading, group in frame.groupby("heading", sort=False)
    }
    titles = [(heading, step.title) for heading, found in steps.items() for step in found]
    rows_of_steps = pd.DataFrame(titles, columns=["heading", "label"])
    figure, axes, places = place_rows(rows_of_steps.assign(text="", missing=False), legend_rows=1)
    positions = iter(places)
    drawn = numbers.dropna()
    style.set_scale(axes, "x", [1.0, *drawn["low"], *drawn["high"]], span=_LOG_LADDER_SPAN)
    axes.axvline(1, color=palette.QUIET, linestyle="--", linewidth=0.8, zorder=1)
    for heading, group in frame.groupby("heading", sort=False):
        rows = dict(zip(group["optimization"], (row for _, row in group.iterrows()), strict=True))
        path = []
        for step in steps[str(heading)]:
            position = next(positions)
            for column, name in enumerate((step.individual, step.cumulative, step.left_out)):
                if name in rows:
                    _draw_step(axes, rows[name], position, column)
            if step.cumulative in rows:
                path.append((rows[step.cumulative], position + _OFFSETS[1]))
        for (above, top), (row, height) in pairwise(path):
            if above["session"] == row["session"]:
                ends = [above["value"], row["value"]], [top, height]
                axes.plot(*ends, color=_CUMULATIVE["color"], linewidth=0.8, zorder=1.5)
    axes.set_xlabel("Speedup over the eager baseline")
    headings = ("individual", "cumulative", "all but it", "break-even")[
        : 4 if frame["break_even_steps"].notna().any() else 3
    ]
    for offset_pt, text in zip(_COLUMNS_PT, headings, strict=False):
        style.note(axes, text, (1, 1), offset=(offset_pt, 3), fontsize=style.SMALL_FONT_SIZE_PT)
    figure.legend(
        handles=[
            Line2D([], [], linestyle="none", label="individual", **_INDIVIDUAL),
            Line2D(
                [],
                [],
                label="cumulative: with the steps above that it does not make redundant",
                **_CUMULATIVE,
            ),
            Line2D([], [], linestyle="none", label="the whole ladder without it", **_LEFT_OUT),
            *hollow_handles(frame.loc[frame[SPEEDUP.column].notna(), "marks"]),
        ],
        loc="outside upper left",
        ncols=3,
        borderaxespad=0.2,
    )
    return figure


def _draw_step(axes: Axes, row: "pd.Series[Any]", position: float, column: int) -> None:
    look = (_INDIVIDUAL, _CUMULATIVE, _LEFT_OUT)[column]
    text, color = labels.status_text(row), palette.QUIET
    if pd.notna(row["value"]):
        text, color = SPEEDUP.show(row["speedup"]).plain(unit=False), palette.INK
        axes.errorbar(
            row["value"],
            position + _OFFSETS[column],
            xerr=[[row["value"] - row["low"]], [row["high"] - row["value"]]],
            markersize=3.8,
            elinewidth=0.8,
            markerfacecolor="white" if labels.doubts([row["marks"]]) else look["color"],
            **look,
        )
    _write_cell(axes, column, position, text, color=color)
    if column == 1 and pd.notna(row["break_even_steps"]):
        _write_cell(
            axes, 3, position, f"{count(row['break_even_steps']).plain()} steps", color=palette.INK
        )


def _write_cell(axes: Axes, column: int, position: float, text: str, *, color: str) -> None:
    style.note(
        axes,
        text,
        (1, position),
        of=axes.get_yaxis_transform(),
        offset=(_COLUMNS_PT[column], 0),
        va="center",
        fontsize=style.SMALL_FONT_SIZE_PT,
        color=color,
        annotation_clip=False,
    )


LADDER: Final = partial(
    variant_figure,
    name="ladder",
    title="Speedup by {axis}, individual and cumulative",
    caption=(
        "Speedup of each optimization of {models} over the eager baseline: individual, cumulative "
        "with those above that it does not make redundant, and of the whole ladder without it. "
        "Bars show 95 % intervals; lines join cumulative points of one session. The last column "
        "has the break-even steps of cumulative configurations with torch.compile or CUDA graphs: "
        "those needed to recover the cold-cache compile time against the eager baseline."
    ),
    along=("optimization",),
    rows=_ladders,
    draw=ladder_figure,
    groups_on_page=3,
    sentences=(extremes_of(SPEEDUP),),
)


WATERFALL_NAMES: Final[Mapping[str, str]] = {
    "normalisation": "normalization",
    "copy": "copies",
    **dict.fromkeys(("activation", "pooling", "reduction", "loss"), "elementwise"),
}
"""Categories of the table step_categories that a reader sees under another name."""
_UNDIVIDED: Final = "not divided: no reliable trace"
WATERFALL_COLORS: Final[Mapping[str, str]] = {
    "convolution": palette.CATEGORY_COLORS["convolution"],
    LAYOUT_CONVERSION: "#8C564B",
    "matrix product": palette.CATEGORY_COLORS["matrix product"],
    "attention": palette.VERMILLION,
    "recurrent": palette.CATEGORY_COLORS["recurrent"],
    "normalization": palette.CATEGORY_COLORS["normalisation"],
    "elementwise": palette.PURPLE,
    "optimizer": palette.CATEGORY_COLORS["optimizer"],
    "copies": palette.CATEGORY_COLORS["copy"],
    "communication": "#5E5E8A",
    "others": "#C8C8C8",
    IDLE_TIME: palette.OTHERS,
    _UNDIVIDED: "none",
}
"""What is not among them is one of the others. Those that the timeline has too have its colors."""


def path_rows(shown: Shown) -> pd.DataFrame:
    """Of each ladder that gained something the eager baseline in fp32, where the GPU trained it,
    and each step with those above it, in order, with the columns `heading` and `label`; no rows
    where no trace shows what any of them consists of.
    """
    variants = {row["variant"]: row for row in rows_of(shown.rows)}
    pairs = eager_and_fastest(shown.tables)
    gained = [pair for pair in pairs if len(pair) > 1]
    eager = {variants[pair[0]]["workload"]: pair[0] for pair in gained or pairs}
    rows = []
    for frame in shown.tables.experiments.values():
        for _, group in frame.groupby("group", sort=False):
            steps = labels.ladder_steps_of(list(group["optimization"]))
            if not steps or group["workload"].iloc[0] not in eager:
                continue
            by_name = dict(zip(group["optimization"], group["variant"], strict=True))
            baseline = group.loc[group["is_baseline"]].iloc[0]
            added = labels.cumulative_labels(by_name, steps)
            path = {
                baseline["variant"]: f"eager, {baseline['precision']}",
                **{by_name[name]: label for name, label in added.items()},
            }
            first = eager[baseline["workload"]]
            if first not in path and variants[first]["precision"] != baseline["precision"]:
                path = {first: f"eager, {variants[first]['precision']}", **path}
            heading = labels.workload_label(baseline)
            rows += [
                {**variants[variant], "heading": heading, "label": label}
                for variant, label in path.items()
            ]
    found = pd.DataFrame(rows)
    if found.empty or not found["variant"].isin(shown.tables.step_categories["variant"]).any():
        return shown.rows.iloc[:0]
    return found


def waterfall_figure(shown: Shown) -> Figure:
    """Draw the step time of each row, split where its trace shows the categories."""
    rows = rows_of(shown.rows)
    times = {row["variant"]: _times_ms(shown, row) for row in rows}
    first_ms = {
        row["heading"]: row["step_time_ms"] for row in reversed(rows) if row["step_time_ms"] > 0
    }
    measured = [row for row in rows if row["status"] == "ok" and row["step_time_ms"] > 0]
    parts = pd.DataFrame(
        [
            (row["variant"], category, 100 * time_ms / first_ms[row["heading"]])
            for row in measured
            for category, time_ms in (
                times[row["variant"]] or {_UNDIVIDED: row["step_time_ms"]}
            ).items()
        ],
        columns=["variant", "category", "width"],
    )
    return stacked_bars_figure(
        shown,
        parts.drop_duplicates(["variant", "category"]),
        colors=WATERFALL_COLORS,
        texts={
            row["variant"]: _text(
                row,
                times[row["variant"]],
                times[above["variant"]] if is_below else {},
                is_one_session=is_below and above["session"] == row["session"],
            )
            for above, row in pairwise([{"heading": None}, *rows])
            for is_below in [above["heading"] == row["heading"]]
            if row["status"] == "ok"
        },
        text_heading="step (ms); largest change",
        axis_label="Step time relative to the model's first bar (%)",
        most=math.inf,
    )


def _times_ms(shown: Shown, row: Row) -> dict[str, float]:
    """The parts of the timed step; on a CPU their shares of a profiled one are known."""
    table = shown.tables.step_categories
    shares = table[table["variant"] == row["variant"]].set_index("category")["share"]
    found = shares * row["step_time_ms"]
    names = [WATERFALL_NAMES.get(category, category) for category in found.index]
    summed = found.groupby([name if name in WATERFALL_COLORS else "others" for name in names]).sum()
    return {name: float(summed[name]) for name in WATERFALL_COLORS if name in summed}


def _text(
    row: Row, times: Mapping[str, float], above: Mapping[str, float], *, is_one_session: bool
) -> str:
    """The time that is drawn, and the part that changed most from the row above, where a trace
    shows the parts and both are of one session.
    """
    total_ms = quantity(sum(times.values()) or row["step_time_ms"]).plain()
    changes = {name: times.get(name, 0.0) - above.get(name, 0.0) for name in {**above, **times}}
    if not (times and above):
        return total_ms if times else f"{total_ms}; not divided"
    if not is_one_session:
        return f"{total_ms}; other session"
    is_slower = sum(changes.values()) > 0
    name = (max if is_slower else min)(changes, key=changes.__getitem__)
    return f"{total_ms}; {'more' if is_slower else 'less'} {name}"


WATERFALL: Final = partial(
    variant_figure,
    name="waterfall",
    title="Where the time of a step goes along the ladder",
    caption=(
        "Time of a step along the optimization ladder of {models}: each row adds options to the "
        "row above, may replace earlier ones, and names the category that changed most, if both "
        "are of one session: between sessions, times change for other reasons too. "
        "Numbers in the bars are percent of the model's first bar."
    ),
    caption_on_gpus="Colors are the categories of the GPU's work; white is idle time.",
    caption_on_cpus="Colors are the categories of operations, by their shares of profiled steps; "
    "white is time outside of them.",
    rows=path_rows,
    draw=waterfall_figure,
    label=lambda rows, _: rows,
    sentences=(),
    tables=("step_categories", "variants"),
)
