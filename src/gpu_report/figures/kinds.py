"""Every kind of figure: which experiments it suits, what data it needs, how it is drawn, and what there is to see.

experiment, tables -> kind -> rows (one per variant) -> Figure
"""

from collections.abc import Callable, Mapping
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures.alt_text import extremes_of, largest_parts, range_in
from gpu_report.figures.convergence import draw_convergence
from gpu_report.figures.crossover import draw_crossover
from gpu_report.figures.frontier import draw_frontier, reaches_frontier
from gpu_report.figures.kind import ROWS, Kind, Subject, found_in, going_on, metric_kind, panel_groups, row_groups
from gpu_report.figures.ladder import is_ladder, ladder_figure
from gpu_report.figures.loss_scale import draw_loss_scales, scaled_rows
from gpu_report.figures.operations import category_colors, draw_categories
from gpu_report.figures.pages import PageLimits
from gpu_report.figures.phases import draw_phases
from gpu_report.figures.spared import has_speedup, is_crossover, is_frontier, unless
from gpu_report.figures.trace_kinds import TRACE_KINDS
from gpu_report.figures.trade_off import draw_trade_off
from gpu_report.glossary import MEMORY, QUALITY, SPEEDUP, THROUGHPUT
from gpu_report.tables.bundle import Tables

_PAIRS_OF_PANELS: Final = PageLimits(groups=6, lines=1000)
_HIGH_PANELS: Final = PageLimits(groups=3, lines=1000)
_LADDERS: Final = PageLimits(groups=3, lines=1000)


def _along(*axes: str) -> Callable[[str], bool]:
    return lambda axis: axis in axes


def _along_all_but(*axes: str) -> Callable[[str], bool]:
    return lambda axis: bool(axis) and axis not in axes


def _at_the_frontier(rows: pd.DataFrame, _: Subject, __: Tables) -> pd.DataFrame:
    return _groups_where(rows, reaches_frontier)


def _ladders(rows: pd.DataFrame, _: Subject, __: Tables) -> pd.DataFrame:
    rows = _groups_where(rows, is_ladder)
    return rows if rows[~rows["is_baseline"]][SPEEDUP.column].notna().any() else rows.iloc[:0]


def _no_ladders(rows: pd.DataFrame, _: Subject, __: Tables) -> pd.DataFrame:
    rows = _groups_where(rows, lambda group: not is_ladder(group))
    return rows if rows[MEMORY.column].notna().any() and rows[THROUGHPUT.column].notna().any() else rows.iloc[:0]


def _groups_where(rows: pd.DataFrame, holds: Callable[[pd.DataFrame], bool]) -> pd.DataFrame:
    chosen = {group for group, members in rows.groupby("group") if holds(members)}
    return rows[rows["group"].isin(chosen)]


def _crossing(rows: pd.DataFrame, subject: Subject, tables: Tables) -> pd.DataFrame:
    others = rows[~rows["is_baseline"]]
    known = subject.name in set(tables.crossovers["experiment"])
    return others if known and others[SPEEDUP.column].notna().any() else others.iloc[:0]


def _first_of_each_device(table: str) -> Callable[[pd.DataFrame, Subject, Tables], pd.DataFrame]:
    """Of the rows of `found_in` the first of each workload on each device, as in the tables of operations."""

    def rows_found(rows: pd.DataFrame, subject: Subject, tables: Tables) -> pd.DataFrame:
        return found_in(table)(rows, subject, tables).drop_duplicates(["workload", "device"])

    return rows_found


def _draw_categories(rows: pd.DataFrame, _: Subject, tables: Tables) -> Figure:
    colors = category_colors(tables.category_shares)
    return draw_categories(rows, tables.category_shares, colors=colors, profiled=_profiled(tables))


def _profiled(tables: Tables) -> set[str]:
    """Also those whose trace is not reliable, which the other tables about traces leave out."""
    return set(tables.step_shares["variant"])


def _draw_crossover(rows: pd.DataFrame, subject: Subject, tables: Tables) -> Figure:
    own = tables.crossovers[tables.crossovers["experiment"] == subject.name]
    return draw_crossover(rows, own, baseline=subject.baseline)


KINDS: Final[Mapping[str, Kind]] = {
    "speedup": unless(
        metric_kind(
            SPEEDUP,
            title="Speedup by {axis}",
            caption="Speedup over {baseline}, by throughput; right of the dashed line is what is faster.",
            suits=_along("device", "precision"),
        ),
        is_crossover,
    ),
    "crossover": Kind(
        title="Crossover of the devices",
        caption=(
            "Speedup over {baseline} against the batch size: above the dashed line the accelerator is faster. The "
            "dotted line marks where both are equally fast, the shade its 95 % interval."
        ),
        suits=_along("device"),
        rows=_crossing,
        draw=_draw_crossover,
        groups=lambda rows, _: panel_groups(rows, "batch_size"),
        limits=lambda _, __: _PAIRS_OF_PANELS,
        told=(extremes_of(SPEEDUP, along="batch_size"),),
    ),
    "ladder": Kind(
        title="Speedup by {axis}, individual and cumulative",
        caption=(
            "Speedup of each optimization over the eager baseline: individual, and cumulative with those above that it "
            "does not make redundant. Bars are 95 % intervals, of three processes the range. Where something is "
            "compiled or captured, the last column has the steps after which the time saved exceeds the cold-cache "
            "compile time."
        ),
        suits=_along("optimization"),
        rows=_ladders,
        draw=lambda rows, _, __: ladder_figure(rows),
        groups=row_groups,
        limits=lambda _, __: _LADDERS,
        told=(extremes_of(SPEEDUP),),
    ),
    "trade_off": Kind(
        title="Throughput against memory",
        caption=(
            "Throughput against peak memory of each variant, with 95 % intervals; the dashed lines cross at the "
            "{baseline}: left of it less memory is used, below it the training is slower."
        ),
        suits=_along("optimization"),
        rows=_no_ladders,
        draw=lambda rows, _, __: draw_trade_off(rows),
        groups=row_groups,
        limits=lambda _, __: _HIGH_PANELS,
        told=(extremes_of(THROUGHPUT), extremes_of(MEMORY)),
    ),
    "frontier": Kind(
        title="The batch frontier",
        caption=(
            "Peak memory and throughput by {axis}, up to the memory that the device has; a cross stands for a batch "
            "that did not fit. Points are means over processes, bars their 95 % intervals, of three the range."
        ),
        suits=_along("batch_size"),
        rows=_at_the_frontier,
        draw=lambda rows, subject, _: draw_frontier(rows, axis=subject.axis),
        groups=panel_groups,
        limits=lambda _, __: _HIGH_PANELS,
        told=(extremes_of(THROUGHPUT), extremes_of(MEMORY)),
    ),
    "throughput": unless(
        metric_kind(
            THROUGHPUT,
            title="Throughput by {axis}",
            caption="Training throughput by {axis}, over the timed epochs; more is better.",
            suits=_along_all_but("optimization", "precision", "workload"),
        ),
        is_crossover,
        is_frontier,
        has_speedup,
    ),
    "phases": unless(
        Kind(
            title="Phases of a step by {axis}",
            caption=(
                "What the device's time in the profiled steps went into, by phase of the step; numbers in the bars "
                "are per cent. At the right stand the shares of all convolutions and of cuDNN's kernels in that time."
            ),
            suits=_along("workload", "device"),
            rows=found_in("phases"),
            draw=lambda rows, _, tables: draw_phases(rows, tables.phases, profiled=_profiled(tables)),
            groups=row_groups,
            limits=lambda _, __: ROWS,
            told=(largest_parts("phases", "phase"),),
        ),
        is_crossover,
    ),
    "loss_scale": Kind(
        title="History of the loss scale",
        caption=(
            "Factor of the gradient scaler after each step of the fp16 trainings, medians over processes. A step whose "
            "gradients overflow is skipped and halves the factor; highscale begins too high, to show it."
        ),
        suits=_along("precision"),
        rows=lambda rows, _, tables: scaled_rows(rows, tables.losses),
        draw=lambda rows, _, tables: draw_loss_scales(rows, tables.losses),
        groups=row_groups,
        limits=lambda _, __: ROWS,
        told=(range_in("losses", "loss_scale", what="The factors", unit=""),),
    ),
    "convergence": unless(
        Kind(
            title="Convergence by {axis}",
            caption=(
                "Training loss of each step and held-out quality after each epoch, by {axis}: lines are means over "
                "processes, bands and bars reach from the lowest to the highest. Devices that agree lie on each other; "
                "where one trained less, quality stands over the samples seen."
            ),
            suits=_along("device"),
            rows=going_on(found_in("convergence")),
            draw=lambda rows, _, tables: draw_convergence(rows, tables.losses, tables.convergence),
            groups=row_groups,
            limits=lambda _, __: _PAIRS_OF_PANELS,
            told=(extremes_of(QUALITY),),
        ),
        is_crossover,
    ),
    "categories": unless(
        Kind(
            title="Categories of operations by {axis}",
            caption="What the time of the profiled steps went into, by category of operations; numbers are per cent.",
            suits=_along("device"),
            rows=_first_of_each_device("category_shares"),
            draw=_draw_categories,
            groups=row_groups,
            limits=lambda _, __: ROWS,
            told=(largest_parts("category_shares", "category"),),
        ),
        is_crossover,
    ),
    **TRACE_KINDS,
}
"""By the word that ends the figure's name, in the order of reading."""
