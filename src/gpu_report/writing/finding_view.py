"""A finding as the text shows it: its verdict as a heading, its statement, and the evidence in small print."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpu_report.findings.finding import STUDY, Evidence, Finding
from gpu_report.number_format import ratio
from gpu_report.writing.tex import Tex, breakable, escape

_EVIDENCE_SHOWN: Final = 3
"""A finding about every variant would fill a page with numbers that its table shows better."""

_VERDICTS: Final = {
    "supported": "Supported.",
    "contradicted": "Contradicted.",
    "inconclusive": "Inconclusive.",
    "not measured": "Not measured.",
}


@dataclass(frozen=True, kw_only=True)
class FindingView:
    """One finding for a template; `told` is the evidence that findings before it showed already."""

    finding: Finding
    told: frozenset[Evidence] = frozenset()

    @property
    def heading(self) -> str:
        """The verdict as it opens the finding."""
        return _VERDICTS[self.finding.verdict]

    @property
    def is_decided(self) -> bool:
        """Whether the data say yes or no."""
        return self.finding.verdict in ("supported", "contradicted")

    @property
    def is_measured(self) -> bool:
        """Whether there was anything to decide by."""
        return self.finding.verdict != "not measured"

    @property
    def question(self) -> str:
        return self.finding.question

    @property
    def statement(self) -> str:
        return self.finding.statement

    @property
    def threshold(self) -> str:
        return self.finding.threshold

    @property
    def recommendation(self) -> str:
        return self.finding.recommendation

    @property
    def gain_text(self) -> str:
        """The measured gain of following the recommendation, with its interval; empty where none was measured."""
        low, high = self.finding.gain_interval or (math.nan, math.nan)
        return "" if self.finding.gain is None else ratio(self.finding.gain, low=low, high=high).plain()

    @property
    def reason(self) -> str:
        """What a recommendation rests on where no gain was measured that would speak for it."""
        return "" if self.gain_text else self.finding.statement

    @property
    def section(self) -> str:
        """The section that has the finding, as its label names it."""
        return "reliability" if self.finding.experiment == STUDY else self.finding.experiment

    @property
    def evidence(self) -> Tex:
        """The first numbers the verdict rests on, each with its variant, and where the others are."""
        labels = ["", *(part.label for part in self.shown)]
        shown = [
            escape(f"{'' if part.label == above else f'{part.label} '}{_briefly(part.value)}")
            + (Tex(" (") + _name(part.variant) + ")" if part.variant else "")
            for above, part in zip(labels, self.shown, strict=False)
        ]
        if not shown and self.finding.evidence:
            shown.append(Tex("numbers given above"))
        left_out = self.finding.evidence[_EVIDENCE_SHOWN:]
        if left_out:
            tables = ", ".join(dict.fromkeys(f"{part.table}.csv" for part in left_out))
            shown.append(escape(f"{len(left_out)} more in {tables}"))
        return Tex("; ").join(shown)

    @property
    def shown(self) -> tuple[Evidence, ...]:
        """Of the evidence, which begins with what decides, the first that was not given yet."""
        return tuple(part for part in self.finding.evidence[:_EVIDENCE_SHOWN] if part not in self.told)


def in_a_row(findings: Iterable[Finding]) -> list[FindingView]:
    """Findings that are read one after the other: no evidence is given twice, nor that of a finding told in short."""
    told: set[Evidence] = set()
    views = []
    for finding in findings:
        view = FindingView(finding=finding, told=frozenset(told))
        told |= set(view.shown) if view.is_measured else set()
        views.append(view)
    return views


def _briefly(value: str) -> str:
    """Without the words about the interval: that it is one of 95 %, and over how many processes, is said once."""
    return re.sub(r" \(\)", "", re.sub(r"95 % interval |(, |(?<=\())\d+ process(es)?(?=\))", "", value))


def _name(variant: str) -> Tex:
    return Tex(r"\gpurepname{") + breakable(variant) + Tex("}")
