"""A rule: one question, how the tables answer it, where the line is drawn and why, and a sentence
for each verdict.

Rule.test(Scope) -> Outcomes; Claim.finding(Outcome) -> Finding. A new finding is one more declared
rule, with one of the generic tests:

- Comparison: two variants of each group; on which side of a limit is a figure of one over the
  other?
- AllOrAny: several variants of each group; are all of their figures on one side of a limit, or is
  any?

A test that neither fits is a function of its own. Sentences name the rows and figures that they are
filled with, see phrases.filled.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Side, speedup
from gpu_report.findings.finding import Evidence, Finding, Verdict
from gpu_report.findings.phrases import Named
from gpu_report.findings.scope import Group, Scope
from gpu_report.glossary import Row, capitalized
from gpu_report.tables.bundle import fastest_of
from gpu_report.words import why_no_numbers

ANY_AXIS: Final = "any axis"
HALF: Final = 0.5
NOTHING_TO_COMPARE: Final = "there is nothing to compare with"
THROUGHPUT: Final = {"throughput_per_s": "throughput"}
MEMORY: Final = {"memory_peak_mib": "peak memory"}
BY_HOLM: Final = (
    " is above 1, and the difference is significant among the experiment's comparisons (Holm)."
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a test found about one subject.

    `fields` fill the sentences of the rule; where the verdict is 'not measured' they are the
    `subject` and the `reason`. `key` distinguishes the subjects of one rule; it is empty where
    there is one. `gain` is what following the advice gave; `advises` is False where another outcome
    advises the same with more right.
    """

    verdict: Verdict
    fields: Mapping[str, Any]
    evidence: tuple[Evidence, ...] = ()
    key: str = ""
    gain: Estimate | None = None
    advises: bool = True


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One question, where the line is drawn and why, and the sentence for each verdict.

    `unresolved` says what is not resolved, as in 'Whether it is faster', or is a whole sentence.
    What was `measured` ends that sentence, and those that hold {measured}. `advice` recommends
    something where the verdict has an entry. A sentence is empty where the rule cannot reach its
    verdict.
    """

    name: str
    question: str
    threshold: str
    yes: str
    no: str
    unresolved: str = ""
    measured: str = "."
    not_measured: str = "{subject}: not measured, because {reason}."
    advice: Mapping[Verdict, str] = field(default_factory=dict)

    def sentence(self, verdict: Verdict) -> str:
        """The template for a verdict."""
        is_part = self.unresolved and not self.unresolved.endswith(".")
        sentences: dict[Verdict, str] = {
            "yes": self.yes,
            "no": self.no,
            "not resolved": f"{self.unresolved} is not resolved, because {{doubt}}{{measured}}"
            if is_part
            else self.unresolved,
            "not measured": self.not_measured,
        }
        return sentences[verdict].replace("{measured}", self.measured)

    def finding(self, outcome: Outcome, *, experiment: str, axis: str = "") -> Finding:
        """What an outcome says in the words of this claim."""
        gain = outcome.gain
        gains = outcome.advises and (gain is None or gain.against(1.0) == "above")
        advice, advised = phrases.filled(
            self.advice.get(outcome.verdict, "") if gains else "", outcome.fields
        )
        statement, numbers = phrases.filled(self.sentence(outcome.verdict), outcome.fields)
        return Finding(
            id=f"{experiment}_{self.name}" + (f"/{outcome.key}" if outcome.key else ""),
            experiment=experiment,
            question=self.question.format(axis=axis.replace("_", " ")),
            subject=str(outcome.fields.get("subject", "")),
            verdict=outcome.verdict,
            statement=capitalized(statement),
            evidence=outcome.evidence,
            numbers={**numbers, **advised},
            threshold=self.threshold,
            recommendation=capitalized(advice),
            gain=gain.value if gain and advice else None,
            gain_interval=(gain.low, gain.high) if gain and advice else None,
        )


Test = Callable[[Scope], Iterable[Outcome]]
"""How the tables of one machine answer a question, with one outcome per subject in the order of the
table.
"""


@dataclass(frozen=True, kw_only=True)
class Rule(Claim):
    """One declared rule: a claim, what it is about, and its test.

    `about` is the axis of the experiments it applies to, `study` or another chapter about the whole
    machine, or any axis but those in `unless`. An experiment about custom training loops has rules
    of its own, see scope.OWN_LOOPS.
    """

    about: str
    unless: tuple[str, ...] = ()
    test: Test

    def applies_to(self, scope: Scope) -> bool:
        """Whether the rule asks its question of this experiment, or of this chapter."""
        about = scope.about
        return self.about == about or (
            self.about == ANY_AXIS and about == scope.axis and about not in self.unless
        )

    def findings(self, scope: Scope) -> list[Finding]:
        """One finding per subject, in the order of the table."""
        return [
            self.finding(outcome, experiment=scope.name, axis=scope.axis)
            for outcome in self.test(scope)
        ]


def not_measured(subject: str, reason: str, *, key: str = "") -> Outcome:
    """The outcome where there is nothing to decide by."""
    return Outcome(verdict="not measured", fields={"subject": subject, "reason": reason}, key=key)


def why_missing(rows: Iterable[Row], otherwise: str) -> str:
    """Why variants have no figures, from their records; `otherwise` where all of them were
    measured.
    """
    failures = [f"{row['variant']}: {why_no_numbers(row)}" for row in rows if row["status"] != "ok"]
    return "; ".join(failures) or otherwise


def verdict_of(figure: Estimate, limit: float, *, holds: Side = "above") -> Verdict:
    """What becomes of a claim that holds where the figure is on this side of the limit."""
    side = figure.against(limit)
    return "not resolved" if side == "unclear" else "yes" if side == holds else "no"


def per_group(test: Callable[[Group], Outcome]) -> Test:
    """A test of each group of an experiment by itself."""
    return lambda scope: [test(group) for group in scope.groups]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two variants of a group, and the figure of one over the other."""

    group: Group
    before: Row
    after: Row
    figure: Estimate


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The generic test of two variants of each group: on which side of a limit is a figure of one
    over the other?

    Sentences may use {subject}, {before}, {after}, {figure} and {doubt}, and what `more` adds.
    """

    choose: Callable[[Group], tuple[Row, Row] | None]
    """Which is compared with which, as before and after; None where there are not both."""
    figure: Callable[[Row, Row], Estimate] = speedup
    """Of after over before."""
    limit: Callable[[Row, Row], float] | float = 1.0
    limit_in_words: str = "1"
    """After "the interval includes"; the limit as a factor where empty."""
    holds: Side = "above"
    """On which side of the limit the answer is yes."""
    groups: Callable[[Scope], Iterable[Group]] = lambda scope: scope.groups
    """Those that the question applies to."""
    lacking: str = NOTHING_TO_COMPARE
    """Why there are not both, where all variants were measured."""
    unknown: str = ""
    """Why nothing was measured where the figure is missing; empty where that is not resolved."""
    evidence: Callable[[Compared], tuple[Evidence, ...]] | Mapping[str, str]
    """What decides, or columns with their labels, of all variants, those compared first."""
    of_both: bool = False
    """Whether the evidence is that of the two alone."""
    more: Callable[[Compared], Mapping[str, Any]] = lambda _: {}
    gain: Callable[[Compared], Estimate | None] = lambda _: None
    advises: Callable[[Compared], bool] = lambda _: True

    def __call__(self, scope: Scope) -> Iterable[Outcome]:
        """One outcome per group."""
        return [self.of(group) for group in self.groups(scope)]

    def of(self, group: Group) -> Outcome:
        """What is found in one group."""
        pair = self.choose(group)
        if pair is None:
            return not_measured(group.title, why_missing(group.rows, self.lacking), key=group.key)
        before, after = pair
        compared = Compared(
            group=group, before=before, after=after, figure=self.figure(after, before)
        )
        if self.unknown and not compared.figure.known:
            return not_measured(group.title, self.unknown, key=group.key)
        limit = self.limit(after, before) if callable(self.limit) else self.limit
        return Outcome(
            verdict=verdict_of(compared.figure, limit, holds=self.holds),
            fields={
                "subject": group.title,
                "before": Named(before, group.value_in_words(before)),
                "after": Named(after, group.value_in_words(after)),
                "figure": compared.figure,
                "doubt": compared.figure.why_unclear(
                    self.limit_in_words or phrases.factor_alone(limit)
                ),
                **self.more(compared),
            },
            evidence=self._evidence(compared),
            key=group.key,
            gain=self.gain(compared),
            advises=self.advises(compared),
        )

    def _evidence(self, compared: Compared) -> tuple[Evidence, ...]:
        if callable(self.evidence):
            return self.evidence(compared)
        both = [compared.after, compared.before]
        rows = both if self.of_both else compared.group.measured
        return phrases.evidence_of_columns(rows, self.evidence, compared.group.table, first=both)


def evidence_of(
    group: Group, columns: Mapping[str, str], first: Sequence[Row]
) -> tuple[Evidence, ...]:
    """Figures of all variants of a group, those that decide first."""
    return phrases.evidence_of_columns(group.measured, columns, group.table, first=first)


def baseline_and_fastest(by: str = "throughput_per_s") -> Callable[[Group], tuple[Row, Row] | None]:
    """The baseline and the fastest variant beside it; of optimizations, on a tie, the fewest."""

    def choose(group: Group) -> tuple[Row, Row] | None:
        if group.baseline is None or not group.others:
            return None
        if group.axis == "optimization":
            return group.baseline, fastest_of(group.others)
        return group.baseline, max(group.others, key=lambda row: float(row[by]))

    return choose


def baseline_and_other(group: Group) -> tuple[Row, Row] | None:
    """The baseline and the first variant beside it."""
    return (
        (group.baseline, group.others[0]) if group.baseline is not None and group.others else None
    )


def first_two(group: Group) -> tuple[Row, Row] | None:
    """The first two that were measured, as the table has them."""
    return (group.measured[0], group.measured[1]) if len(group.measured) > 1 else None


def over_baseline(
    figure: Callable[[Row, Row], Estimate],
) -> Callable[[Group], Sequence[tuple[Row, Estimate]]]:
    """A figure of each variant over the baseline; none without both."""

    def figures(group: Group) -> Sequence[tuple[Row, Estimate]]:
        baseline = group.baseline
        return (
            [(row, figure(row, baseline)) for row in group.others] if baseline is not None else []
        )

    return figures


@dataclass(frozen=True, kw_only=True)
class AllOrAny:
    """The generic test of several variants of each group: are all of their figures on one side of a
    limit, or is any?

    Sentences may use {subject}, {baseline}, {doubt}, {all}, {above} and {below}, which list the
    variants with their figures, {count}, the number on the side that is asked about, and what
    `more` adds.
    """

    asks: Literal["all", "any"] = "all"
    side: Side = "above"
    limit: float = 1.0
    limit_in_words: str = "1"
    figures: Callable[[Group], Sequence[tuple[Row, Estimate]]]
    """The variants that the question is asked of, with what is compared; none where nothing can be
    compared.
    """
    item: str = "with {row} {figure:short}"
    """What is said of one variant; may use {row} and {figure}."""
    noun: str = "variant"
    groups: Callable[[Scope], Iterable[Group]] = lambda scope: scope.groups
    lacking: Callable[[Group], str] = lambda _: NOTHING_TO_COMPARE
    """Why no variant is compared, where all were measured."""
    unknown: str = NOTHING_TO_COMPARE
    """Why nothing was measured where no variant has the figure."""
    evidence: Callable[["Figures"], tuple[Evidence, ...]] | Mapping[str, str]
    more: Callable[["Figures"], Mapping[str, Any]] = lambda _: {}
    verdict: Callable[["Figures"], Verdict] | None = None
    """In place of that of `asks` and `side`."""

    def __call__(self, scope: Scope) -> Iterable[Outcome]:
        """One outcome per group."""
        return [self.of(group) for group in self.groups(scope)]

    def of(self, group: Group) -> Outcome:
        """What is found in one group."""
        asked = self.figures(group)
        if not asked:
            return not_measured(
                group.title, why_missing(group.rows, self.lacking(group)), key=group.key
            )
        pairs = [(row, figure) for row, figure in asked if figure.known]
        if not pairs:
            return not_measured(group.title, self.unknown, key=group.key)
        figures, baseline = Figures(group=group, pairs=pairs, limit=self.limit), group.baseline
        return Outcome(
            verdict=self.verdict(figures)
            if self.verdict
            else figures.verdict(self.asks, self.side),
            fields={
                "subject": group.title,
                "baseline": Named(baseline, group.value_in_words(baseline)) if baseline else "",
                "all": figures.listed(self.item, pairs),
                "above": figures.listed(self.item, figures.on("above")),
                "below": figures.listed(self.item, figures.on("below")),
                "count": phrases.how_many(len(figures.on(self.side)), len(pairs), self.noun),
                "doubt": figures.doubt(self.limit_in_words),
                **self.more(figures),
            },
            evidence=self.evidence(figures)
            if callable(self.evidence)
            else evidence_of(group, self.evidence, []),
            key=group.key,
        )


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Variants of a group, the figure of each, and the limit that all are compared with."""

    group: Group
    pairs: Sequence[tuple[Row, Estimate]]
    limit: float

    def on(self, side: Side) -> list[tuple[Row, Estimate]]:
        """Those whose whole interval is on this side; 'unclear' for the others."""
        return [(row, figure) for row, figure in self.pairs if figure.against(self.limit) == side]

    def verdict(self, asks: Literal["all", "any"], side: Side) -> Verdict:
        """All are on this side: no if one is on the other. Any is: no if none is. Not resolved if
        one is unclear.
        """
        other: Side = "below" if side == "above" else "above"
        if asks == "any" and self.on(side):
            return "yes"
        if asks == "all" and self.on(other):
            return "no"
        return "not resolved" if self.on("unclear") else "yes" if asks == "all" else "no"

    def doubt(self, limit_in_words: str) -> str:
        """Why the first that is on neither side is not; empty where all are."""
        return next(
            (
                f"with {self.group.value_in_words(row)} {figure.why_unclear(limit_in_words)}"
                for row, figure in self.on("unclear")
            ),
            "",
        )

    def listed(self, item: str, pairs: Iterable[tuple[Row, Estimate]]) -> str:
        """Each of some variants with its figure, separated by semicolons."""
        parts = [
            phrases.filled(
                item, {"row": Named(row, self.group.value_in_words(row)), "figure": figure}
            )[0]
            for row, figure in pairs
        ]
        return "; ".join(parts) or "none"
