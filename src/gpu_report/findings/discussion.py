"""The answers of the discussion, made of the verdicts of declared findings and of nothing else.

Findings -> those of the rules that a part of the answer names -> their balance -> the sentence declared for it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_report.findings.finding import Finding
from gpu_report.findings.questions import BALANCES, QUESTIONS, Balance, Part, Question


@dataclass(frozen=True, kw_only=True)
class PartAnswer:
    """What the findings say to one part; `findings` are those of its rules, in the order of the study."""

    balance: Balance
    lead: str
    findings: tuple[Finding, ...]

    @property
    def measured(self) -> list[Finding]:
        """Those that had anything to decide by, the decided first."""
        found = [finding for finding in self.findings if finding.verdict != "not measured"]
        return sorted(found, key=lambda finding: finding.verdict == "inconclusive")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of one machine to one question."""

    question: Question
    parts: tuple[PartAnswer, ...]

    @property
    def balance(self) -> Balance:
        """The verdicts on the question itself."""
        return self.parts[0].balance


def discuss(findings: Sequence[Finding], axes: Mapping[str, str]) -> list[Answer]:
    """The answers of one machine's findings, in the order of the questions.

    Args:
        findings: All of the machine.
        axes: The axis of each experiment by its name; a chapter about the whole machine has none.
    """
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        about = axes.get(finding.experiment, finding.experiment)
        by_rule.setdefault((about, finding.rule), []).append(finding)
    return [
        Answer(question=question, parts=tuple(_answer(part, by_rule) for part in question.parts))
        for question in QUESTIONS
    ]


def balance(findings: Sequence[Finding]) -> Balance:
    """What the verdicts come to together; nothing at all was not measured."""
    verdicts = {finding.verdict for finding in findings}
    if {"supported", "contradicted"} <= verdicts:
        return "mixed"
    return next((one for one in BALANCES if one in verdicts), "not measured")


def _answer(part: Part, by_rule: Mapping[tuple[str, str], Sequence[Finding]]) -> PartAnswer:
    found = [finding for rule in part.rules for finding in by_rule.get(rule, ())]
    come_to = balance(found)
    return PartAnswer(balance=come_to, lead=part.leads[come_to], findings=tuple(found))
