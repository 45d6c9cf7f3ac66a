"""Every kind of figure: which experiments it suits, what data it needs, how it is drawn, and what there is to see.

experiment, tables -> kind -> rows (one per variant) -> Figure
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pandas as pd
from matplotlib.figure import Figure
from pandas.api.types import is_numeric_dtype

from gpu_report.figures import labels
from gpu_report.figures.convergence import draw_convergence
from gpu_report.figures.curves import draw_curves, with_panels
from gpu_report.figures.forest import draw_epochs, draw_forest, with_row_labels
from gpu_report.figures.metrics import DATA_WAIT, FIRST_EPOCH, MEMORY, QUALITY, SPEEDUP, THROUGHPUT, Metric
from gpu_report.figures.operations import category_colors, draw_categories, draw_operations
from gpu_report.figures.pages import PageLimits
from gpu_report.tables.bundle import Tables

STUDY: Final = "study"
"""Subject of the figures that show every variant."""

_ROWS: Final = PageLimits(groups=38)
_PANELS: Final = PageLimits(groups=16, lines=1000)
_BARS: Final = PageLimits(groups=3, lines=1000)
_PAIRS_OF_PANELS: Final = PageLimits(groups=6, lines=1000)

_HOW_TO_READ: Final = "Points are medians over processes, bars their 95 % intervals; hollow points are doubted."


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a figure is about: an experiment, or the study as a whole."""

    name: str
    axis: str
    """The field that the experiment varies; empty for the study."""
    baseline: str
    """What the others are compared with, as a reader calls it; empty for the study."""

    @property
    def words(self) -> dict[str, str]:
        """What stands for `{axis}` and `{baseline}` inside a sentence."""
        axis = labels.AXIS_LABELS.get(self.axis, self.axis.replace("_", " "))
        return {"axis": axis.partition(" (")[0].lower(), "baseline": self.baseline}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of figure. Its functions get the rows of the variants on one page."""

    title: str
    """Short, for a list of figures; `{axis}` stands for what is varied."""
    caption: str
    """What to see; `{axis}` stands for what is varied."""
    suits: Callable[[str], bool]
    """By the experiment's axis; the study as a whole has an empty one."""
    rows: Callable[[pd.DataFrame, Tables], pd.DataFrame]
    """The variants it shows, out of the subject's; no rows where there is no data."""
    draw: Callable[[pd.DataFrame, Subject, Tables], Figure]
    groups: Callable[[pd.DataFrame, str], pd.DataFrame]
    """Orders and labels the rows, and gives the column `group_on_page`: what has to stay on one page."""
    limits: Callable[[pd.DataFrame, str], PageLimits]


def is_curve(rows: pd.DataFrame, axis: str) -> bool:
    """Whether the axis is a number, so that a line along it means something."""
    return bool(axis) and is_numeric_dtype(rows[axis])


def _with_metric(metric: Metric) -> Callable[[pd.DataFrame, Tables], pd.DataFrame]:
    return lambda rows, _: rows if metric.present(rows) else rows.iloc[:0]


def _compared(rows: pd.DataFrame, _: Tables) -> pd.DataFrame:
    others = rows[~rows["is_baseline"]]
    return others if SPEEDUP.present(others) else others.iloc[:0]


def _found_in(table: str) -> Callable[[pd.DataFrame, Tables], pd.DataFrame]:
    def rows_found(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
        found = set(getattr(tables, table)["variant"])
        return rows if rows["variant"].isin(found).any() else rows.iloc[:0]

    return rows_found


def _draw_metric(metric: Metric) -> Callable[[pd.DataFrame, Subject, Tables], Figure]:
    def draw(rows: pd.DataFrame, subject: Subject, _: Tables) -> Figure:
        if is_curve(rows, subject.axis):
            return draw_curves(rows, axis=subject.axis, metric=metric)
        return draw_forest(rows, metric=metric.named(**subject.words))

    return draw


def _metric_groups(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    if is_curve(rows, axis):
        rows = labels.sorted_by(with_panels(rows, axis=axis), "panel")
        return rows.assign(group_on_page=rows["panel"])
    return _row_groups(rows, axis)


def _row_groups(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    rows = with_row_labels(rows, axis=axis)
    return rows.assign(group_on_page=rows["heading"])


def _metric_kind(metric: Metric, *, title: str, caption: str, suits: Callable[[str], bool] = bool) -> Kind:
    return Kind(
        title=title,
        caption=f"{caption} {_HOW_TO_READ}",
        suits=suits,
        rows=_compared if metric is SPEEDUP else _with_metric(metric),
        draw=_draw_metric(metric),
        groups=_metric_groups,
        limits=lambda rows, axis: _PANELS if is_curve(rows, axis) else _ROWS,
    )


def _draw_operations(rows: pd.DataFrame, _: Subject, tables: Tables) -> Figure:
    return draw_operations(rows, tables.top_operations, colors=category_colors(tables.category_shares))


def _draw_categories(rows: pd.DataFrame, _: Subject, tables: Tables) -> Figure:
    return draw_categories(rows, tables.category_shares, colors=category_colors(tables.category_shares))


def _compares_devices(axis: str) -> bool:
    return axis == "device"


KINDS: Final[Mapping[str, Kind]] = {
    "speedup": _metric_kind(
        SPEEDUP,
        title="Speedup by {axis}",
        caption="Speedup over {baseline}, by throughput; right of the dashed line a device is faster than {baseline}.",
        suits=_compares_devices,
    ),
    "throughput": _metric_kind(
        THROUGHPUT,
        title="Throughput by {axis}",
        caption="Training throughput by {axis}, over the timed epochs; more is better.",
    ),
    "memory": _metric_kind(
        MEMORY,
        title="Peak memory by {axis}",
        caption="Peak memory by {axis}: the allocator's peak on an accelerator, the peak resident set on the CPU.",
    ),
    "quality": _metric_kind(
        QUALITY,
        title="Held-out quality by {axis}",
        caption="Quality on held-out samples after the last epoch, by {axis}; chance is what guessing reaches.",
    ),
    "data_wait": _metric_kind(
        DATA_WAIT,
        title="Waiting for data by {axis}",
        caption="Share of the training time that the loop waited for the loader, by {axis}; less is better.",
        suits=lambda axis: axis == "workers",
    ),
    "epochs": Kind(
        title="Time of each epoch by {axis}",
        caption="Wall time of every epoch of every process. A first epoch far right of the timed ones is warm-up.",
        suits=bool,
        rows=_found_in("epochs"),
        draw=lambda rows, _, tables: draw_epochs(rows, tables.epochs),
        groups=_row_groups,
        limits=lambda _, __: _ROWS,
    ),
    "convergence": Kind(
        title="Convergence by {axis}",
        caption=(
            "Training loss of each step and held-out quality after each epoch, by {axis}: lines are medians over "
            "processes, bands and bars reach from the lowest to the highest. Devices that agree lie on each other."
        ),
        suits=_compares_devices,
        rows=_found_in("convergence"),
        draw=lambda rows, _, tables: draw_convergence(rows, tables.losses, tables.convergence),
        groups=_row_groups,
        limits=lambda _, __: _PAIRS_OF_PANELS,
    ),
    "operations": Kind(
        title="Longest operations by {axis}",
        caption="The operations that took most time of their own in the profiled steps, coloured by category.",
        suits=_compares_devices,
        rows=_found_in("top_operations"),
        draw=_draw_operations,
        groups=_row_groups,
        limits=lambda _, __: _BARS,
    ),
    "categories": Kind(
        title="Categories of operations by {axis}",
        caption="What the time of the profiled steps went into, by category of operations; numbers are per cent.",
        suits=_compares_devices,
        rows=_found_in("category_shares"),
        draw=_draw_categories,
        groups=_row_groups,
        limits=lambda _, __: _ROWS,
    ),
    "first_epoch": _metric_kind(
        FIRST_EPOCH,
        title="First epoch over timed epochs",
        caption="Wall time of the first epoch over that of the median timed epoch, for every variant.",
        suits=lambda axis: not axis,
    ),
}
"""By the word that ends the figure's name, in the order of reading."""
