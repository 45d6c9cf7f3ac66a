"""Which figures the tables hold data for, and how to draw each: the same for every experiment, old or new.

tables, experiments -> FigureSpec (name, what to see, which variants) -> Figure -> bytes
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures.kinds import KINDS, STUDY, Kind, axis_words
from gpu_report.figures.pages import split_into_pages
from gpu_report.figures.style import report_style
from gpu_report.study import Experiment
from gpu_report.tables.bundle import Tables


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """One figure that can be drawn; its name is that of its file and of its label."""

    name: str
    """`<subject>_<kind>`, and `_2`, `_3`, ... where the variants do not fit on one page."""
    subject: str
    """Name of the experiment, or `study`."""
    kind: str
    axis: str
    """The field that the experiment varies; empty for the study."""
    variants: tuple[str, ...]
    """The variants shown, in order; those without a measurement among them show as labelled gaps."""
    title: str
    """Short plain text, for a list of figures."""
    caption: str
    """What to see, in plain text."""


def available_figures(tables: Tables, experiments: Sequence[Experiment]) -> list[FigureSpec]:
    """Every figure that has data, by experiment in the order given, those of the whole study last."""
    specs: list[FigureSpec] = []
    for experiment in experiments:
        specs += _figures_of(tables, experiment)
    return specs + _figures_of(tables, None)


def draw(spec: FigureSpec, tables: Tables) -> Figure:
    """Draw a figure from the tables that it was found in."""
    rows = _subject_rows(tables, spec.subject)
    rows = rows.set_index("variant", drop=False).loc[list(spec.variants)].reset_index(drop=True)
    with report_style():
        return KINDS[spec.kind].draw(rows, spec.axis, tables)


def _figures_of(tables: Tables, experiment: Experiment | None) -> list[FigureSpec]:
    subject, axis = (experiment.name, experiment.axis) if experiment else (STUDY, "")
    specs: list[FigureSpec] = []
    for name, kind in KINDS.items():
        if kind.suits(axis):
            rows = kind.rows(_subject_rows(tables, subject), tables)
            specs += _pages_of(name, kind, rows, subject=subject, axis=axis, words=axis_words(experiment))
    return specs


def _subject_rows(tables: Tables, subject: str) -> pd.DataFrame:
    return tables.variants if subject == STUDY else tables.experiments[subject]


def _pages_of(
    kind_name: str, kind: Kind, rows: pd.DataFrame, *, subject: str, axis: str, words: str
) -> Iterator[FigureSpec]:
    if rows.empty:
        return
    rows = kind.groups(rows, axis)
    pages = split_into_pages(rows["group_on_page"].tolist(), kind.limits(rows, axis))
    for number, positions in enumerate(pages, start=1):
        part = f" Part {number} of {len(pages)}." if len(pages) > 1 else ""
        yield FigureSpec(
            name=f"{subject}_{kind_name}" + (f"_{number}" if number > 1 else ""),
            subject=subject,
            kind=kind_name,
            axis=axis,
            variants=tuple(rows["variant"].iloc[positions]),
            title=kind.title.format(axis=words),
            caption=kind.caption.format(axis=words) + part,
        )
