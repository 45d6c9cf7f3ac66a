"""Findings as the text shows them: each question once, with the answer in a word, and what was found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.errors import GpuReportError
from gpu_report.findings.estimate import listed
from gpu_report.findings.finding import STUDY, Finding
from gpu_report.findings.rules import RULES

_ANSWERS: Final = {"yes": "Yes.", "no": "No.", "not resolved": "Not resolved."}
_ASKS_YES_OR_NO: Final = frozenset({"Are", "Can", "Did", "Do", "Does", "Has", "Is", "Was", "Were"})
"""First words of questions; which, what or how many is answered by the statement."""


class UnknownRuleError(GpuReportError):
    """A template asks for the answers of a rule that is not declared."""


@dataclass(frozen=True, kw_only=True)
class FindingView:
    """One finding for a template, and the subjects of which the same question has the same answer."""

    finding: Finding
    others: tuple[Finding, ...] = ()

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
        """That of the finding, with the names of the others, or theirs too where no word is the answer."""
        if not self.answer:
            return " ".join(finding.statement for finding in (self.finding, *self.others))
        subjects = list(dict.fromkeys(finding.subject for finding in self.others if finding.subject))
        return self.finding.statement + (f" The same answer holds for {listed(subjects)}." if subjects else "")

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
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.experiment == subject and finding.verdict != "not measured" and (not rules or finding.rule in rules):
            alike.setdefault((finding.question, FindingView(finding=finding).answer), []).append(finding)
    questions = list(dict.fromkeys(question for question, _ in alike))
    in_order = sorted(alike.items(), key=lambda item: questions.index(item[0][0]))
    return [FindingView(finding=first, others=tuple(others)) for _, (first, *others) in in_order]
