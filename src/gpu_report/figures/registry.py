"""Which figures the tables hold data for, and how to draw each: the same for every experiment, old or new.

tables, experiments -> FigureSpec (name, what to see, which variants) -> Figure -> bytes
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import labels
from gpu_report.figures.kind import STUDY, Kind, Subject
from gpu_report.figures.kinds import KINDS
from gpu_report.figures.loop_kinds import LOOP_KINDS
from gpu_report.figures.machine_kinds import MACHINE_KINDS
from gpu_report.figures.pages import split_into_pages
from gpu_report.figures.spared import has_own_loops, unless
from gpu_report.figures.style import report_style
from gpu_report.study import Experiment
from gpu_report.tables.bundle import Tables

VARIANT_KINDS: Final[Mapping[str, Kind]] = {
    **{name: unless(kind, has_own_loops) for name, kind in KINDS.items()},
    **LOOP_KINDS,
}
"""Those that show variants, by the word that ends the figure's name, in the order of reading."""


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """One figure that can be drawn; its name is that of its file and of its label."""

    name: str
    """`<subject>_<kind>`, and `_2`, `_3`, ... where the variants do not fit on one page."""
    subject: Subject
    """The experiment, or the study."""
    kind: str
    """A key of `VARIANT_KINDS` or `MACHINE_KINDS`."""
    variants: tuple[str, ...]
    """The variants shown, in order; those without a measurement among them show as labelled gaps.

    A figure of the machine names none.
    """
    title: str
    """Short plain text, for a list of figures."""
    caption: str
    """What to see, in plain text."""
    alt: str
    """The figure in one or two plain sentences, for those who cannot see it."""
    rows: pd.DataFrame = field(compare=False, repr=False)
    """Those of the variants, in order, with the words that name them; empty for a figure of the machine."""


def available_figures(tables: Tables, experiments: Sequence[Experiment]) -> list[FigureSpec]:
    """Every figure that has data, by experiment in the order given, those of the study and of the machine last.

    Experiments without a variant on the machine have none.
    """
    specs: list[FigureSpec] = []
    for experiment in experiments:
        specs += _figures_of(tables, experiment) if experiment.variants else []
    return specs + _figures_of(tables, None) + list(_figures_of_machine(tables))


def draw(spec: FigureSpec, tables: Tables) -> Figure:
    """Draw a figure from the tables that it was found in."""
    if spec.kind in MACHINE_KINDS:
        with report_style():
            return MACHINE_KINDS[spec.kind].draw(tables)
    with report_style():
        return VARIANT_KINDS[spec.kind].draw(spec.rows, spec.subject, tables)


def _figures_of(tables: Tables, experiment: Experiment | None) -> list[FigureSpec]:
    subject = _subject(experiment)
    specs: list[FigureSpec] = []
    for name, kind in VARIANT_KINDS.items():
        if kind.suits(subject.axis):
            specs += _pages_of(name, kind, subject, tables)
    return specs


def _figures_of_machine(tables: Tables) -> Iterator[FigureSpec]:
    subject = _subject(None)
    for name, kind in MACHINE_KINDS.items():
        if kind.has_data(tables):
            yield FigureSpec(
                name=f"{subject.name}_{name}",
                subject=subject,
                kind=name,
                variants=(),
                title=kind.title,
                caption=kind.caption,
                alt=kind.alt(tables),
                rows=tables.variants.iloc[:0],
            )


def _labelled_rows(kind: Kind, subject: Subject, tables: Tables) -> pd.DataFrame:
    """The rows of all pages, labelled together, so that the words do not depend on where a page ends."""
    rows = tables.variants if subject.name == STUDY else tables.experiments[subject.name]
    rows = kind.rows(labels.with_titles(rows, tables.variants), subject, tables)
    return rows if rows.empty else kind.groups(rows, subject.axis)


def _subject(experiment: Experiment | None) -> Subject:
    if experiment is None:
        return Subject(name=STUDY, axis="", baseline="")
    baseline = labels.field_label(experiment.axis, experiment.baseline)
    return Subject(name=experiment.name, axis=experiment.axis, baseline=baseline)


def _pages_of(kind_name: str, kind: Kind, subject: Subject, tables: Tables) -> Iterator[FigureSpec]:
    rows = _labelled_rows(kind, subject, tables)
    if rows.empty:
        return
    pages = split_into_pages(rows["group_on_page"].tolist(), kind.limits(rows, subject.axis))
    for number, positions in enumerate(pages, start=1):
        part = f" Part {number} of {len(pages)}." if len(pages) > 1 else ""
        yield FigureSpec(
            name=f"{subject.name}_{kind_name}" + (f"_{number}" if number > 1 else ""),
            subject=subject,
            kind=kind_name,
            variants=tuple(rows["variant"].iloc[positions]),
            title=kind.title.format(**subject.words),
            caption=_caption(kind, rows.iloc[positions]).format(**subject.words) + part,
            alt=kind.alt(rows.iloc[positions], subject, tables),
            rows=rows.iloc[positions].reset_index(drop=True),
        )


def _caption(kind: Kind, rows: pd.DataFrame) -> str:
    on_accelerators = kind.caption_on_accelerators if (rows["device"] != "cpu").any() else ""
    return " ".join(filter(None, (kind.caption, on_accelerators)))
