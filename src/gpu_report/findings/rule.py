"""A rule: one question, how the tables answer it, where the line is drawn and why, and the words for each verdict.

Rule.test(Scope) -> Outcomes; Claim.finding(Outcome) -> Finding. A new finding is one more declared rule.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, Side
from gpu_report.findings.finding import Evidence, Finding, Verdict
from gpu_report.findings.scope import Group, Scope

_DIGIT: Final = re.compile(r"\d")
ANY_AXIS: Final = "any axis"
VERDICT_OF: Final[Mapping[Side, Verdict]] = {
    "above": "yes",
    "below": "no",
    "unclear": "not resolved",
}
"""What becomes of a claim, by where an estimate lies against the limit above which the claim holds."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a test found about one subject.

    `words` fill the wording of the rule; where the verdict is 'not measured' they hold the `reason`, where it is
    'not resolved' the `doubt`. `key` tells the subjects of one rule apart; it is empty where there is one.
    `gain` is what following the advice gave; `advises` is False where another outcome advises the same with more right.
    """

    verdict: Verdict
    words: Mapping[str, str]
    evidence: tuple[Evidence, ...] = ()
    key: str = ""
    gain: Estimate | None = None
    advises: bool = True


@dataclass(frozen=True, kw_only=True)
class Wording:
    """One template per verdict that the rule can reach, with the words of the outcome as fields in braces."""

    yes: str
    no: str
    unresolved: str = ""
    not_measured: str = "{subject}: not measured, because {reason}."

    def of(self, verdict: Verdict) -> str:
        """The template for a verdict."""
        templates: dict[Verdict, str] = {
            "yes": self.yes,
            "no": self.no,
            "not resolved": self.unresolved,
            "not measured": self.not_measured,
        }
        return templates[verdict]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One question, where the line is drawn and why, and the words for each verdict.

    `threshold` says where the line is drawn. `advice` recommends something where the verdict has an entry.
    """

    name: str
    question: str
    threshold: str
    wording: Wording
    advice: Mapping[Verdict, str] = field(default_factory=dict)

    def finding(self, outcome: Outcome, *, experiment: str, axis: str = "") -> Finding:
        """What an outcome says in the words of this claim."""
        gain = outcome.gain
        gains = outcome.advises and (gain is None or gain.against(1.0) == "above")
        advice = self.advice.get(outcome.verdict, "") if gains else ""
        wording = self.wording.of(outcome.verdict)
        return Finding(
            id=f"{experiment}_{self.name}" + (f"/{outcome.key}" if outcome.key else ""),
            experiment=experiment,
            question=self.question.format(axis=axis.replace("_", " ")),
            verdict=outcome.verdict,
            statement=_sentence(wording, outcome.words),
            evidence=outcome.evidence,
            numbers=_numbers(wording + advice, outcome.words),
            threshold=self.threshold,
            recommendation=_sentence(advice, outcome.words) if advice else "",
            gain=gain.value if gain and advice else None,
            gain_interval=(gain.low, gain.high) if gain and advice else None,
        )


@dataclass(frozen=True, kw_only=True)
class Rule(Claim):
    """One declared rule: a claim, what it is about, and how the tables of one machine answer it.

    `about` is the axis of the experiments it applies to, `study` or another chapter about the whole machine, or any
    axis but those in `unless`. An experiment about a workload's own loops has rules of its own, see scope.OWN_LOOPS.
    """

    about: str
    unless: tuple[str, ...] = ()
    test: Callable[[Scope], Iterable[Outcome]]

    def applies_to(self, scope: Scope) -> bool:
        """Whether the rule asks its question of this experiment, or of this chapter."""
        about = scope.about
        return self.about == about or (self.about == ANY_AXIS and about == scope.axis and about not in self.unless)

    def findings(self, scope: Scope) -> list[Finding]:
        """One finding per subject, in the order of the table."""
        return [self.finding(outcome, experiment=scope.name, axis=scope.axis) for outcome in self.test(scope)]


def per_group(test: Callable[[Group], Outcome | None]) -> Callable[[Scope], Iterable[Outcome]]:
    """A test of each group by itself; None leaves a group out to which the question does not apply."""

    def test_each(scope: Scope) -> Iterable[Outcome]:
        return [outcome for group in scope.groups if (outcome := test(group)) is not None]

    return test_each


def not_measured(subject: str, reason: str, *, key: str = "") -> Outcome:
    """The outcome where there is nothing to decide by."""
    return Outcome(verdict="not measured", words={"subject": subject, "reason": reason}, key=key)


def why_missing(rows: Iterable[Row], otherwise: str) -> str:
    """Why variants have no figures, as their records tell it; `otherwise` where all of them were measured."""
    failures = [f"{row['variant']}: {phrases.why_no_numbers(row)}" for row in rows if row["status"] != "ok"]
    return "; ".join(failures) or otherwise


def _numbers(template: str, words: Mapping[str, str]) -> dict[str, str]:
    """The words of a template that have a number in them."""
    return {name: word for name, word in words.items() if f"{{{name}}}" in template and _DIGIT.search(word)}


def _sentence(template: str, words: Mapping[str, str]) -> str:
    text = template.format_map(words)
    return text[:1].upper() + text[1:]
