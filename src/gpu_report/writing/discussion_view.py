"""The discussion as the text shows it: each question with what the verdicts come to, and the sections behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.findings.discussion import Answer, PartAnswer, discuss
from gpu_report.findings.finding import Finding
from gpu_report.writing.finding_view import FindingView

_UNDECIDED: Final = ("not resolved", "not measured")


@dataclass(frozen=True, kw_only=True)
class SectionName:
    """A section of the report, for a reference to it."""

    name: str


@dataclass(frozen=True, kw_only=True)
class AnswerView:
    """One question with the answer of one machine."""

    answer: Answer

    @property
    def question(self) -> str:
        return self.answer.question.text

    @property
    def sentences(self) -> list[str]:
        """What the verdicts on each part come to, and after the first of them the finding that it rests on."""
        first, *others = self._parts
        found = [finding.statement for finding in (*first.measured, *first.findings)]
        return [first.lead, *found[:1], *(part.lead for part in others)]

    @property
    def sections(self) -> list[SectionName]:
        """Those with the measurements behind the answer."""
        found = (FindingView(finding=finding).section for part in self._parts for finding in part.findings)
        return [SectionName(name=name) for name in dict.fromkeys(found)]

    @property
    def _parts(self) -> list[PartAnswer]:
        """The parts of the answer that the data decide; the first where they decide none."""
        return [part for part in self.answer.parts if part.balance not in _UNDECIDED] or [self.answer.parts[0]]


def answers(findings: Sequence[Finding], axes: Mapping[str, str]) -> list[AnswerView]:
    """What one machine's findings answer; `axes` are those of the experiments, by name.

    Questions about which nothing was measured are left out.
    """
    found = discuss(findings, axes)
    return [
        AnswerView(answer=answer) for answer in found if any(part.balance != "not measured" for part in answer.parts)
    ]
