"""The discussion as the text shows it: each question, what the verdicts on it come to, and the statements behind."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
class PartView:
    """One part of an answer: a leading sentence and the statements behind it."""

    part: PartAnswer

    @property
    def lead(self) -> str:
        """What the verdicts come to."""
        return self.part.lead

    @property
    def statements(self) -> list[str]:
        """What the first finding says, a decided one if there is any; where yes and no stand, the first of each."""
        decided: dict[str, str] = {}
        for finding in self.part.measured:
            if finding.is_decided:
                decided.setdefault(finding.verdict, finding.statement)
        return list(decided.values()) or [one.statement for one in (*self.part.measured, *self.part.findings)][:1]

    @property
    def sections(self) -> list[SectionName]:
        """Those with the measurements behind the answers."""
        return [
            SectionName(name=name) for name in _each_once(FindingView(finding=f).section for f in self.part.findings)
        ]


@dataclass(frozen=True, kw_only=True)
class AnswerView:
    """One question with the answer of one machine."""

    machine: str
    answer: Answer
    ranking: str = ""
    """What changed the throughput most; of the first question alone."""

    @property
    def question(self) -> str:
        return self.answer.question.text

    @property
    def label(self) -> str:
        """What its heading is labelled with."""
        return f"{self.machine}/discussion_{self.answer.question.key}"

    @property
    def parts(self) -> list[PartView]:
        """The parts of the answer; those after the first only where the data decide them."""
        first, *others = self.answer.parts
        return [PartView(part=part) for part in (first, *(part for part in others if part.balance not in _UNDECIDED))]


def answers(
    machine: str, findings: Sequence[Finding], axes: Mapping[str, str], *, ranking: str = ""
) -> list[AnswerView]:
    """What one machine's findings answer; `axes` are those of the experiments, by name."""
    first, *others = (AnswerView(machine=machine, answer=answer) for answer in discuss(findings, axes))
    return [replace(first, ranking=ranking), *others]


def _each_once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
