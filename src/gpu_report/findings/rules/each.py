"""Several variants of a group, each held against one limit, and what they decide together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.findings.estimate import Estimate, Row, Side
from gpu_report.findings.finding import Verdict
from gpu_report.findings.scope import Group

NONE_OF_THEM: Final = "none"


@dataclass(frozen=True, kw_only=True)
class Each:
    """Variants, the figure of each, and the limit that it is held against."""

    group: Group
    figures: Sequence[tuple[Row, Estimate]]
    limit: float
    limit_in_words: str

    def on(self, side: Side) -> list[tuple[Row, Estimate]]:
        """Those whose whole interval lies on this side; 'unclear' for the others."""
        return [(row, figure) for row, figure in self.figures if figure.against(self.limit) == side]

    def all_on(self, side: Side) -> Verdict:
        """Whether all lie on this side: no if one lies on the other, else not resolved if one is unclear."""
        other: Side = "below" if side == "above" else "above"
        if self.on(other):
            return "no"
        return "not resolved" if self.on("unclear") else "yes"

    def any_on(self, side: Side) -> Verdict:
        """Whether one at least lies on this side: not resolved if none does and one is unclear."""
        if self.on(side):
            return "yes"
        return "not resolved" if self.on("unclear") else "no"

    @property
    def doubt(self) -> str:
        """Why the first that decides nothing does not; empty where all decide."""
        return next(
            (
                f"{self.group.value_in_words(row)} decides nothing: {figure.why_unclear(self.limit_in_words)}"
                for row, figure in self.on("unclear")
            ),
            "",
        )

    def words(self, of: Callable[[Row, Estimate], str], figures: Iterable[tuple[Row, Estimate]] | None = None) -> str:
        """Each variant with its figure, separated by semicolons; `figures` are some of them, all if left out."""
        chosen = self.figures if figures is None else figures
        parts = [f"with {self.group.value_in_words(row)} {of(row, figure)}" for row, figure in chosen]
        return "; ".join(parts) or NONE_OF_THEM


def each_of(
    group: Group, rows: Iterable[Row], figure: Callable[[Row], Estimate], *, limit: float, limit_in_words: str
) -> Each:
    """The figure of each of these variants; those without one are left out."""
    figures = [(row, value) for row in rows if (value := figure(row)).known]
    return Each(group=group, figures=figures, limit=limit, limit_in_words=limit_in_words)
