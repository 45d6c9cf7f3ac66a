"""Which files a document is made of, known without importing what writes them, since the workflow
asks at every start; and its figures with caption and the CSV behind.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpu_report.figures.declaration import FigureSpec

NUMBERS_CSV: Final = "numbers.csv"
HEADLINE_FILE: Final = "headline.txt"
WRITTEN_BY_HAND: Final = ("gpu_report.sty", "references.bib")
"""Copied into the document's folder as they are."""
FLOATS_FOLDER: Final = "floats"
"""Has each table and figure in a file of its own: `tab/<name>.tex`, `fig/<name>.tex`."""
LISTED_SOURCES: Final = ("measure/training.py", "measure/profiling.py")
"""The files of which the implementation section lists functions, inside the package."""

_OPENING: Final = ("machine", "workloads")
_CLOSING: Final = ("transfer", "efficiency", "trace", "energy", "recommendations")
"""Sections before and after those of the experiments."""
_EXPERIMENTS_IN_APPENDIX: Final = (
    "complexity",
    "models",
    "linear_regression",
    "linear_regression_size",
)
"""Experiments of the default study that a reader can do without at first."""
_APPENDIX: Final = (
    "machines",
    "sources",
    "networks",
    "convergence",
    "trace_details",
    "implementation",
)
_LAST: Final = "appendix"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A document: its template, and its sections in reading order, each the template
    `sections/<name>.tex.j2`.
    """

    template: str
    body: tuple[str, ...]
    appendix: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Files that only this document has."""

    @property
    def sections(self) -> list[str]:
        """Those of body and appendix."""
        return [*self.body, *self.appendix]

    @property
    def files(self) -> list[str]:
        """The paths, inside the document's folder, of every file that is written for it, but for
        FLOATS_FOLDER and WRITTEN_BY_HAND.
        """
        sections = [f"sections/{name}.tex" for name in self.sections]
        return ["gpu_report.tex", "numbers.tex", NUMBERS_CSV, *sections, *self.others]


def report_layout(experiments: Sequence[str], leave_out: Sequence[str] = ()) -> Layout:
    """The report on a machine, without the sections that the study leaves out. Where that is what
    limits each model, the results of the sources are in its place.
    """
    body = (
        "summary",
        "sources" if "limit_cards" in leave_out else "limit_cards",
        *_OPENING,
        *(name for name in experiments if name not in _EXPERIMENTS_IN_APPENDIX),
        *_CLOSING,
    )
    appendix = (
        *_APPENDIX,
        *(name for name in experiments if name in _EXPERIMENTS_IN_APPENDIX),
        _LAST,
    )
    return Layout(
        template="gpu_report",
        body=tuple(name for name in body if name not in leave_out),
        appendix=tuple(name for name in appendix if name not in {*leave_out, *body}),
        others=("gpu_analysis_sections.tex", HEADLINE_FILE),
    )


def experiment_layout(experiment: str) -> Layout:
    """A document about one experiment without the rest of the report: its machine, what it trains,
    its section.
    """
    return Layout(
        template="experiment", body=("machine", "workloads", experiment), appendix=("networks",)
    )


COMPARISON_FOLDER: Final = "machines"
"""Of the figures that show machines side by side."""
COMPARISON_CSV: Final = "results/comparison.csv"
STUDY_FOLDER: Final = "study"
"""Of the figures of networks."""


def placed(
    figures: "Iterable[FigureSpec]", *, folder: str, csv_path: Callable[[str], str]
) -> "list[FigureSpec]":
    """Figures that are in one folder: each named after its file inside that of all figures, with
    the paths of the tables that it was drawn from, or of the CSV beside it.
    """
    return [
        replace(
            figure,
            name=f"{folder}/{figure.name}",
            sources=(f"report/figures/{folder}/{figure.name}.csv",)
            if figure.csv
            else tuple(
                map(
                    csv_path,
                    figure.tables
                    or (("variants" if figure.subject == "study" else figure.subject),),
                )
            ),
        )
        for figure in figures
    ]


def figures_of(experiment: str, among: "Iterable[FigureSpec]") -> "list[FigureSpec]":
    """The figures of an experiment's own section, in the order given."""
    return [
        figure for figure in among if figure.subject == experiment and not figure.has_own_section
    ]
