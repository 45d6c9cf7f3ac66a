"""Figures as the text shows them: file, caption, and the CSV behind."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpu_report.figures.declaration import FigureSpec


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One figure for a template; its file is `figures/<name>.pdf`, `sources` are the CSV files behind it."""

    name: str
    """With its folder in front: `<machine>/<name of the figure>`."""
    subject: str
    kind: str
    title: str
    caption: str
    alt: str
    """The picture in one or two plain sentences, for those who cannot see it."""
    has_own_section: bool
    """Whether it is in a section about its kind, and not in that of its experiment."""
    sources: tuple[str, ...]


COMPARISON_FOLDER: Final = "machines"
COMPARISON_CSV: Final = "results/comparison.csv"
STUDY_FOLDER: Final = "study"


def pictures(figures: "Sequence[FigureSpec]", *, machine: str, csv_path: Callable[[str], str]) -> tuple[Picture, ...]:
    """The figures of a machine, with the paths of the tables they were drawn from, or of what is drawn beside them."""
    return tuple(
        Picture(
            name=f"{machine}/{figure.name}",
            subject=figure.subject,
            kind=figure.kind,
            title=figure.title,
            caption=figure.caption,
            alt=figure.alt,
            has_own_section=figure.has_own_section,
            sources=(f"report/figures/{machine}/{figure.name}.csv",)
            if figure.csv
            else tuple(map(csv_path, figure.tables or (_table_of(figure.subject),))),
        )
        for figure in figures
    )


def figures_of(experiment: str, among: "Iterable[FigureSpec]") -> "list[FigureSpec]":
    """The figures of an experiment's own section, in the order given."""
    return [figure for figure in among if figure.subject == experiment and not figure.has_own_section]


def comparison_pictures(figures: "Sequence[FigureSpec]") -> tuple[Picture, ...]:
    """The figures that show machines side by side, which lie in a folder of their own."""
    return pictures(figures, machine=COMPARISON_FOLDER, csv_path=lambda _: COMPARISON_CSV)


def study_pictures(figures: "Sequence[FigureSpec]", *, csv_path: Callable[[str], str]) -> tuple[Picture, ...]:
    """The figures of networks, which are in a folder of their own."""
    return pictures(figures, machine=STUDY_FOLDER, csv_path=csv_path)


def _table_of(subject: str) -> str:
    return "variants" if subject == "study" else subject
