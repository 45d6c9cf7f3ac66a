"""A finding as the text shows it: its question with the answer in a word, and its statement."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.errors import GpuReportError
from gpu_report.findings.finding import STUDY, Finding
from gpu_report.findings.rules import RULES

_ANSWERS: Final = {"yes": "Yes.", "no": "No.", "not resolved": "Not resolved."}
_ASKS_YES_OR_NO: Final = frozenset({"Are", "Can", "Did", "Do", "Does", "Has", "Is", "Was", "Were"})
"""First words of questions; which, what or how many is answered by the statement."""


class UnknownRuleError(GpuReportError):
    """A template asks for the answers of a rule that is not declared."""


@dataclass(frozen=True, kw_only=True)
class FindingView:
    """One finding for a template."""

    finding: Finding

    @property
    def answer(self) -> str:
        """The answer in a word; empty where the question asks for more than yes or no, and the statement says it."""
        is_said = self.finding.is_decided and self.question.partition(" ")[0] not in _ASKS_YES_OR_NO
        return "" if is_said else _ANSWERS.get(self.finding.verdict, "")

    @property
    def question(self) -> str:
        return self.finding.question

    @property
    def statement(self) -> str:
        return self.finding.statement

    @property
    def section(self) -> str:
        """The section that has the finding, as its label names it."""
        return "reliability" if self.finding.experiment == STUDY else self.finding.experiment


def answered(findings: Iterable[Finding], subject: str, rules: Sequence[str]) -> list[FindingView]:
    """Those about one experiment or chapter that had anything to decide by; findings.csv has the others too.

    `rules` names those whose answers a section has room for; without any, all.

    Raises:
        UnknownRuleError: a name is no rule's.
    """
    known = {rule.name for rule in RULES}
    unknown = [name for name in rules if name not in known]
    if unknown:
        raise UnknownRuleError(f"there is no rule {unknown[0]!r} to answer by; use one of {', '.join(sorted(known))}")
    return [
        FindingView(finding=finding)
        for finding in findings
        if finding.experiment == subject and finding.verdict != "not measured" and (not rules or finding.rule in rules)
    ]
