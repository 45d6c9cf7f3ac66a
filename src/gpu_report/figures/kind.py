"""What a kind of figure is, and how kinds are made that show one number of every variant.

Subject (an experiment or the study) + Kind -> rows (one per variant) -> pages -> Figure
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from matplotlib.figure import Figure
from pandas.api.types import is_numeric_dtype

from gpu_report.figures import labels
from gpu_report.figures.alt_text import Told, extremes_of, sentences, variants_shown
from gpu_report.figures.curves import draw_curves, with_panels
from gpu_report.figures.pages import PageLimits
from gpu_report.figures.rows import rows_figure, with_row_labels
from gpu_report.glossary import SPEEDUP, Metric
from gpu_report.tables.bundle import Tables

STUDY: Final = "study"
"""Subject of the figures that show every variant, or the machine itself."""

ROWS: Final = PageLimits(groups=38)
PANELS: Final = PageLimits(groups=16, lines=1000)

_HOW_TO_READ: Final = "Points are means, bars 95 % intervals (of three processes ranges); hollow ones are doubted."


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
        axis = labels.AXIS_LABELS.get(self.axis, self.axis.replace("_", " ")).partition(" (")[0]
        begins_plainly = axis[:1].isupper() and axis[1:].partition(" ")[0].islower()  # unlike DataLoader
        return {"axis": axis[:1].lower() + axis[1:] if begins_plainly else axis, "baseline": self.baseline}


RowsOf = Callable[[pd.DataFrame, Subject, Tables], pd.DataFrame]
"""The rows of a table of variants that a figure shows."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of figure. Its functions get the rows of the variants on one page."""

    title: str
    """Short, for a list of figures; `{axis}` stands for what is varied."""
    caption: str
    """What to see; `{axis}` stands for what is varied."""
    caption_on_accelerators: str = ""
    """What to see besides where a variant shown trained on an accelerator."""
    suits: Callable[[str], bool]
    """By the experiment's axis; the study as a whole has an empty one."""
    rows: RowsOf
    """The variants it shows, out of the subject's; no rows where there is no data."""
    draw: Callable[[pd.DataFrame, Subject, Tables], Figure]
    groups: Callable[[pd.DataFrame, str], pd.DataFrame]
    """Orders and labels the rows, and gives the column `group_on_page`: what has to stay on one page."""
    limits: Callable[[pd.DataFrame, str], PageLimits]
    told: Sequence[Told] = ()
    """The sentences of its alternative text after that which says what is shown."""

    def alt(self, rows: pd.DataFrame, subject: Subject, tables: Tables) -> str:
        """What it shows of these rows, in plain sentences."""
        title = self.title.format(**subject.words)
        first = f"{title}: {variants_shown(rows, subject.axis)}."
        return sentences(first, *(told(rows, subject.axis, tables) for told in self.told))


def is_curve(rows: pd.DataFrame, axis: str) -> bool:
    """Whether the axis is a number, so that a line along it means something."""
    return bool(axis) and is_numeric_dtype(rows[axis])


def row_groups(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """A row per variant; those under one heading stay together."""
    rows = with_row_labels(rows, axis=axis)
    return rows.assign(group_on_page=rows["heading"])


def panel_groups(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """A panel for what varies along a numeric axis."""
    rows = labels.sorted_by(with_panels(rows, axis=axis), "panel")
    return rows.assign(group_on_page=rows["panel"])


def found_in(table: str) -> RowsOf:
    """All rows where the named table has data of any of them."""

    def rows_found(rows: pd.DataFrame, _: Subject, tables: Tables) -> pd.DataFrame:
        found = set(getattr(tables, table)["variant"])
        return rows if rows["variant"].isin(found).any() else rows.iloc[:0]

    return rows_found


def going_on(rows_of: RowsOf) -> RowsOf:
    """Without what begins anew in every epoch, so that its epochs are no course of one training."""

    def rows_found(rows: pd.DataFrame, subject: Subject, tables: Tables) -> pd.DataFrame:
        return rows_of(rows[~rows["begins_anew"]], subject, tables)

    return rows_found


def metric_kind(metric: Metric, *, title: str, caption: str, suits: Callable[[str], bool] = bool) -> Kind:
    """A number of every variant: curves along an axis of numbers, otherwise a row each."""
    return Kind(
        title=title,
        caption=f"{caption} {_HOW_TO_READ}",
        suits=suits,
        rows=_compared if metric is SPEEDUP else _with_metric(metric),
        draw=_draw_metric(metric),
        groups=lambda rows, axis: (panel_groups if is_curve(rows, axis) else row_groups)(rows, axis),
        limits=lambda rows, axis: PANELS if is_curve(rows, axis) else ROWS,
        told=(extremes_of(metric),),
    )


def _with_metric(metric: Metric) -> Callable[[pd.DataFrame, Subject, Tables], pd.DataFrame]:
    return lambda rows, _, __: rows if rows[metric.column].notna().any() else rows.iloc[:0]


def _compared(rows: pd.DataFrame, _: Subject, __: Tables) -> pd.DataFrame:
    """Variants with a baseline to compare them with, and those that failed."""
    others = rows[~rows["is_baseline"]]
    shown = others[others[SPEEDUP.column].notna() | (others["status"] != "ok")]
    return shown if shown[SPEEDUP.column].notna().any() else shown.iloc[:0]


def _draw_metric(metric: Metric) -> Callable[[pd.DataFrame, Subject, Tables], Figure]:
    def draw(rows: pd.DataFrame, subject: Subject, _: Tables) -> Figure:
        if is_curve(rows, subject.axis):
            return draw_curves(rows, axis=subject.axis, metric=metric)
        return rows_figure(rows, metric=metric.named(**subject.words))

    return draw
