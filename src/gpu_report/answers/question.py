"""A question of the report: a function that reads a study's tables as a person would, and says
what follows.

    @question("Do DataLoader workers help?", "workers")
    @each_group
    def help_(group: Group) -> Answer:
        \"\"\"They help if the whole interval of the speedup is above 1.\"\"\"

Scope -> the function -> Answers -> Findings. Without `each_group` the function takes the whole
Scope. The docstring says where the line is drawn and why; findings.csv prints it as the threshold.
`about` names the axes of the experiments, or the chapters, that the question is asked of. What many
questions need is here: `missing`, `decided` and `Compared`.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from operator import attrgetter
from typing import Final

from gpu_report.answers.estimate import Estimate, Side, speedup
from gpu_report.answers.finding import Evidence, Finding, Verdict
from gpu_report.answers.phrases import evidence_of_columns, factor_alone, times
from gpu_report.answers.scope import Group, Scope
from gpu_report.glossary import Row, capitalized
from gpu_report.words import why_no_numbers

OTHER_AXES: Final = "other axes"
"""In `about`, stands for every axis but these, which have questions of their own."""
KNOWN_AXES: Final = (
    *("device", "size", "workers", "batch_size", "workload", "precision", "optimization"),
    "parallelism",
)
HALF: Final = 0.5
NOTHING_TO_COMPARE: Final = "there is nothing to compare with"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a question's function says about one subject.

    `key` distinguishes the subjects of one question; it is empty where there is one. `advice` is
    what to do, and `gain` the factor in throughput that doing it gave; where it is not
    significantly above 1, the advice is not given.
    """

    verdict: Verdict
    statement: str
    subject: str = ""
    evidence: Sequence[Evidence] = ()
    key: str = ""
    advice: str = ""
    gain: Estimate | None = None


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question, what it is asked of, where the line is drawn and why, and its answers."""

    name: str
    text: str
    about: tuple[str, ...]
    threshold: str
    answers: Callable[[Scope], Iterable[Answer]]

    def applies_to(self, scope: Scope) -> bool:
        """Whether this is asked of the experiment or chapter."""
        is_other = bool(scope.axis) and scope.about == scope.axis and scope.axis not in KNOWN_AXES
        return scope.about in self.about or (is_other and OTHER_AXES in self.about)

    def findings(self, scope: Scope) -> Iterator[Finding]:
        """One finding per subject, in the order of the table."""
        for answer in self.answers(scope):
            gain = answer.gain
            advice = answer.advice if gain is None or gain.against(1.0) == "above" else ""
            yield Finding(
                id=f"{scope.name}_{self.name}" + (f"/{answer.key}" if answer.key else ""),
                experiment=scope.name,
                question=self.text.format(
                    axis=scope.axis.replace("_", " "), subject=answer.subject
                ),
                subject=answer.subject,
                verdict=answer.verdict,
                statement=capitalized(answer.statement),
                evidence=tuple(answer.evidence),
                threshold=self.threshold,
                recommendation=capitalized(advice),
                gain=gain.value if gain and advice else None,
                gain_interval=(gain.low, gain.high) if gain and advice else None,
            )


QUESTIONS: Final[list[Question]] = []
"""In the order in which the modules of `questions` declare them."""


def question(
    text: str, *about: str, name: str = "", among: list[Question] = QUESTIONS
) -> Callable[[Callable[[Scope], Iterable[Answer]]], Callable[[Scope], Iterable[Answer]]]:
    """Declares the function below as a question. `{axis}` in its text is the experiment's axis;
    `{subject}` that of an answer, where configurations of one subject may have different answers.
    """

    def declare(
        answers: Callable[[Scope], Iterable[Answer]],
    ) -> Callable[[Scope], Iterable[Answer]]:
        threshold = " ".join((inspect.getdoc(answers) or "").split())
        among.append(
            Question(
                name=name or answers.__name__,
                text=text,
                about=about,
                threshold=threshold,
                answers=answers,
            )
        )
        return answers

    return declare


def each_group(
    answer: Callable[[Group], Answer | None],
    groups: Callable[[Scope], Iterable[Group]] = attrgetter("groups"),
) -> Callable[[Scope], Iterator[Answer]]:
    """Asks the function below about one group after another; None where it says nothing."""

    @wraps(answer)
    def answers(scope: Scope) -> Iterator[Answer]:
        return filter(None, map(answer, groups(scope)))

    return answers


def against_baseline(answer: Callable[[Group, Row], Answer]) -> Callable[[Group], Answer]:
    """Calls the function below with a group and its baseline. The answer is `not measured` where
    the baseline, or every other configuration, lacks numbers.
    """

    @wraps(answer)
    def asked(group: Group) -> Answer:
        before = group.baseline
        return answer(group, before) if before and group.others else missing(group)

    return asked


def missing(group: Group, otherwise: str = NOTHING_TO_COMPARE) -> Answer:
    """The answer about a group without the numbers; `otherwise` is the reason where all of its
    configurations were measured.
    """
    return not_measured(group.title, why_missing(group.rows, otherwise), key=group.key)


def not_measured(subject: str, reason: str, *, key: str = "") -> Answer:
    """The answer where nothing was measured to decide by."""
    statement = f"{subject}: not measured, because {reason}."
    return Answer(verdict="not measured", statement=statement, subject=subject, key=key)


def why_missing(rows: Iterable[Row], otherwise: str) -> str:
    """Why configurations have no numbers, from their records; `otherwise` where all have some."""
    failures = [f"{row['variant']}: {why_no_numbers(row)}" for row in rows if row["status"] != "ok"]
    return "; ".join(failures) or otherwise


def verdict_of(figure: Estimate, limit: float = 1.0, *, holds: Side = "above") -> Verdict:
    """The answer to a question that is yes where the figure is on this side of the limit."""
    side = figure.against(limit)
    return "too close to call" if side == "unclear" else "yes" if side == holds else "no"


def decided(
    group: Group,
    figure: Estimate,
    *,
    limit: float = 1.0,
    limit_in_words: str = "",
    holds: Side = "above",
    yes: str,
    no: str,
    whether: str,
    measured: str = "",
    if_unclear: str = "",
    evidence: Sequence[Evidence] = (),
    advice: Mapping[Verdict, str] | None = None,
    gain: Estimate | None = None,
    unknown: str = "",
) -> Answer:
    """The answer about a group that one figure decides: yes where it is on the side that `holds`.

    `whether` says what is too close to call, as in 'it is faster'. `measured` ends each of the
    three sentences, from its punctuation mark on; `if_unclear` comes before it in the third.
    `unknown` is why there may be no figure.
    """
    if unknown and not figure.known:
        return not_measured(group.title, unknown, key=group.key)
    verdict = verdict_of(figure, limit, holds=holds)
    words = limit_in_words or ("1" if limit == 1 else factor_alone(limit))
    doubt = figure.why_unclear(limit, words)
    unclear = f"Whether {whether} is too close to call, because {doubt}{if_unclear}"
    return Answer(
        verdict=verdict,
        statement={"yes": yes, "no": no}.get(verdict, unclear) + (measured or "."),
        subject=group.title,
        evidence=evidence,
        key=group.key,
        advice=(advice or {}).get(verdict, ""),
        gain=gain,
    )


def surely_faster(rows: Sequence[Row], baseline: Row) -> Sequence[Row]:
    """Those that are significantly faster than their group's baseline; all where none is."""
    return [row for row in rows if speedup(row, baseline).against(1.0) == "above"] or rows


def evidence_of(
    group: Group, columns: Mapping[str, str], first: Sequence[Row] = ()
) -> tuple[Evidence, ...]:
    """Numbers of all measured configurations of a group, those that decide first; `columns` maps
    each column to its label.
    """
    return evidence_of_columns(group.measured, columns, group.table, first=first)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Several configurations of a group, and the figure of each beside one limit."""

    group: Group
    pairs: Sequence[tuple[Row, Estimate]]
    limit: float = 1.0
    limit_in_words: str = "1"

    def on(self, side: Side) -> list[tuple[Row, Estimate]]:
        """Those whose whole interval is on this side; 'unclear' for the others."""
        return [(row, figure) for row, figure in self.pairs if figure.against(self.limit) == side]

    def any_on(self, side: Side) -> Verdict:
        """Whether any is on this side; too close to call if none is and one is unclear."""
        if self.on(side):
            return "yes"
        return "too close to call" if self.on("unclear") else "no"

    def answer(
        self,
        holds: Side,
        *,
        yes: str,
        no: str,
        whether: str,
        if_unclear: str = "",
        measured: str = "",
        evidence: Sequence[Evidence],
        subject: str = "",
    ) -> Answer:
        """Yes where any is on the side that `holds`; the words are those of `decided`."""
        verdict = self.any_on(holds)
        unclear = f"Whether {whether} is too close to call, because {self.doubt}{if_unclear}"
        return Answer(
            verdict=verdict,
            statement={"yes": yes, "no": no}.get(verdict, unclear) + measured,
            subject=subject or self.group.title,
            evidence=evidence,
            key=self.group.key,
        )

    @property
    def doubt(self) -> str:
        """Why the first that is unclear is so; empty where none is."""
        return next(
            (
                f"with {self.group.words(row)}, "
                + figure.why_unclear(self.limit, self.limit_in_words)
                for row, figure in self.on("unclear")
            ),
            "",
        )

    def listed(
        self,
        pairs: Iterable[tuple[Row, Estimate]],
        item: Callable[[Row, Estimate], str] | None = None,
    ) -> str:
        """Each of some with its figure, as `item` says it or as in 'with bf16 1.2 times'."""
        say = item or (lambda row, each: f"with {self.group.words(row)} {times(each, short=True)}")
        return "; ".join(say(row, figure) for row, figure in pairs) or "none"
