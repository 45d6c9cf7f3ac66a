"""What the summary says: the few findings and recommendations that a page has room for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.glossary import Row
from gpu_report.writing.experiment_view import ExperimentView
from gpu_report.writing.finding_view import FindingView
from gpu_report.writing.limits import doubts
from gpu_report.writing.summary_table import summary_table
from gpu_report.writing.table_block import TableBlock
from gpu_report.writing.tex import Tex

_ROWS: Final = 14
_FINDINGS: Final = 5
_RECOMMENDATIONS: Final = 3
"""How much of each kind a page has room for."""
_LONGEST_STATEMENT: Final = 330
"""Characters: a longer one lists numbers for every workload, which its section has."""


@dataclass(frozen=True, kw_only=True)
class SummaryView:
    """The summary for its template."""

    machine: str
    rows: Sequence[Row]
    """All its variants."""
    experiments: Sequence[ExperimentView]
    decided: Sequence[FindingView]
    """One finding for each experiment whose question the data answer, in their order."""
    recommended: Sequence[FindingView]
    """The greatest measured gain first."""

    @property
    def table(self) -> TableBlock:
        return summary_table(self.experiments, most_rows=_ROWS).owned_by(self.machine)

    @property
    def findings(self) -> list[FindingView]:
        """Those with the greatest measured gains, in the order of the experiments."""
        short = [view for view in self.decided if len(view.statement) <= _LONGEST_STATEMENT] or list(self.decided[:1])
        greatest = sorted(short, key=lambda view: -(view.finding.gain or 0.0))[:_FINDINGS]
        return [view for view in short if view in greatest]

    @property
    def recommendations(self) -> list[FindingView]:
        return list(self.recommended[:_RECOMMENDATIONS])

    @property
    def doubts(self) -> list[Tex]:
        """Where the numbers are not reliable."""
        return doubts(self.rows)
