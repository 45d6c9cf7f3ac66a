"""Figures as the text shows them: file, caption, and the CSV behind."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol


class FigureSubject(Protocol):
    """What a figure is about."""

    @property
    def name(self) -> str:
        """Name of the experiment, or `study`."""


class Subject(Protocol):
    """The experiment a figure belongs to, or `study`."""

    @property
    def name(self) -> str: ...


class FigureSpec(Protocol):
    """What the text needs to know of a figure; gpu_report.figures says more of it."""

    @property
    def name(self) -> str: ...

    @property
    def subject(self) -> FigureSubject: ...

    @property
    def kind(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def caption(self) -> str: ...

    @property
    def alt(self) -> str: ...


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
    sources: tuple[str, ...]


COMPARISON_FOLDER: Final = "machines"
COMPARISON_CSV: Final = "results/comparison.csv"
STUDY_FOLDER: Final = "study"

KINDS_WITH_A_SECTION: Final = (
    *("convergence", "categories"),
    *("overview", "transfer", "roofline", "energy", "telemetry"),
    *("steps", "timeline", "idle"),
)
"""Kinds of figures that stand in a section about them, and not in that of their experiment."""

_TABLES_BEHIND: Final = {
    "convergence": ("losses", "convergence"),
    "categories": ("category_shares",),
    "epochs": ("epochs",),
    "overview": ("variants", "efficiency", "peaks"),
    "transfer": ("transfers", "peaks"),
    "roofline": ("efficiency", "peaks"),
    "crossover": ("crossovers",),
    "phases": ("phases",),
    "floors": ("own_loops",),
    "parts": ("top_kernels", "phases"),
    "passes": ("own_loops",),
    "loss_scale": ("losses",),
    "telemetry": ("telemetry",),
    "steps": ("step_shares",),
    "timeline": ("timelines",),
    "idle": ("idle_causes", "step_shares"),
    "workflow": ("variants",),
}


def pictures(figures: Sequence[FigureSpec], *, machine: str, csv_path: Callable[[str], str]) -> tuple[Picture, ...]:
    """The figures of a machine, with the paths of the tables they were drawn from."""
    return tuple(
        Picture(
            name=f"{machine}/{figure.name}",
            subject=figure.subject.name,
            kind=figure.kind,
            title=figure.title,
            caption=figure.caption,
            alt=figure.alt,
            sources=tuple(map(csv_path, _TABLES_BEHIND.get(figure.kind, (_table_of(figure.subject.name),)))),
        )
        for figure in figures
    )


def pictures_of(experiment: str, among: Iterable[Picture]) -> tuple[Picture, ...]:
    """The figures of an experiment's own section, in the order they were drawn."""
    return tuple(
        picture for picture in among if picture.subject == experiment and picture.kind not in KINDS_WITH_A_SECTION
    )


def comparison_pictures(figures: Sequence[FigureSpec]) -> tuple[Picture, ...]:
    """The figures that show machines side by side, which lie in a folder of their own."""
    return pictures(figures, machine=COMPARISON_FOLDER, csv_path=lambda _: COMPARISON_CSV)


def study_pictures(figures: Sequence[FigureSpec], *, csv_path: Callable[[str], str]) -> tuple[Picture, ...]:
    """The pictures of networks and workflow, which lie in a folder of their own; each network has its layers beside."""
    drawn = pictures(figures, machine=STUDY_FOLDER, csv_path=csv_path)
    return tuple(
        replace(picture, sources=(f"report/figures/{picture.name}.csv",)) if picture.kind == "architecture" else picture
        for picture in drawn
    )


def _table_of(subject: str) -> str:
    return "variants" if subject == "study" else subject
