"""What the summary says of one machine: the few findings and recommendations that a page has room for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.writing.cells import Row
from gpu_report.writing.experiment_view import ExperimentView
from gpu_report.writing.finding_view import FindingView
from gpu_report.writing.limits import doubts, doubts_in_short
from gpu_report.writing.summary_table import summary_table
from gpu_report.writing.table_block import TableBlock
from gpu_report.writing.tex import Tex

_LONGEST_STATEMENT: Final = 330
"""Characters: a longer one lists numbers for every workload, which its section has."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much of each kind goes into a summary."""

    rows: int
    findings: int
    recommendations: int
    every_doubt: bool


ROOM_FOR_ONE: Final = Room(rows=14, findings=5, recommendations=3, every_doubt=True)
ROOM_FOR_EACH: Final = Room(rows=3, findings=1, recommendations=1, every_doubt=False)
"""Where several machines share the page."""


@dataclass(frozen=True, kw_only=True)
class SummaryView:
    """One machine's part of the summary."""

    machine: str
    rows: Sequence[Row]
    """All its variants."""
    experiments: Sequence[ExperimentView]
    decided: Sequence[FindingView]
    """One finding for each experiment whose question the data answer, in their order."""
    recommended: Sequence[FindingView]
    """The greatest measured gain first."""
    room: Room

    @property
    def table(self) -> TableBlock:
        return summary_table(self.experiments, most_rows=self.room.rows).owned_by(self.machine)

    @property
    def findings(self) -> list[FindingView]:
        """Those with the greatest measured gains, in the order of the experiments."""
        short = [view for view in self.decided if len(view.statement) <= _LONGEST_STATEMENT] or list(self.decided[:1])
        greatest = sorted(short, key=lambda view: -(view.finding.gain or 0.0))[: self.room.findings]
        return [view for view in short if view in greatest]

    @property
    def recommendations(self) -> list[FindingView]:
        return list(self.recommended[: self.room.recommendations])

    @property
    def doubts(self) -> list[Tex]:
        """Where the numbers are not reliable."""
        return doubts(self.rows) if self.room.every_doubt else doubts_in_short(self.rows)
