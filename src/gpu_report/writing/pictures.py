"""Figures as the text shows them: file, caption and the CSV behind."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpu_report.figures.declaration import FigureSpec

COMPARISON_FOLDER: Final = "machines"
"""Of the figures that show machines side by side."""
COMPARISON_CSV: Final = "results/comparison.csv"
STUDY_FOLDER: Final = "study"
"""Of the figures of networks."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One figure for a template; its file is `figures/<name>.pdf`, `sources` are the CSV files
    behind it.
    """

    figure: "FigureSpec"
    folder: str
    sources: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.folder}/{self.figure.name}"


def pictures(
    figures: "Iterable[FigureSpec]", *, folder: str, csv_path: Callable[[str], str]
) -> list[Picture]:
    """Figures that are in one folder, with the paths of the tables they were drawn from, or of the
    CSV beside them.
    """
    return [
        Picture(
            figure=figure,
            folder=folder,
            sources=(f"report/figures/{folder}/{figure.name}.csv",)
            if figure.csv
            else tuple(map(csv_path, figure.tables or (_table_of(figure.subject),))),
        )
        for figure in figures
    ]


def figures_of(experiment: str, among: "Iterable[FigureSpec]") -> "list[FigureSpec]":
    """The figures of an experiment's own section, in the order given."""
    return [
        figure for figure in among if figure.subject == experiment and not figure.has_own_section
    ]


def _table_of(subject: str) -> str:
    return "variants" if subject == "study" else subject
