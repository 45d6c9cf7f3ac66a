"""Questions about what a profiled step consists of: each rule of the traces' advice, asked of all profiled variants.

A rule of the advice + the words for it -> a rule of the findings, with one outcome for all variants together
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row
from gpu_report.findings.rule import Outcome, Rule, Wording
from gpu_report.findings.scope import CPU, TRACE, Scope, described, key_of
from gpu_report.tables.bundle import rows_of
from gpu_report.traces.advice import RULES as ADVISING
from gpu_report.traces.advice import Rule as AdviceRule

_ADVICE_OF: Final[Mapping[str, AdviceRule]] = {rule.name: rule for rule in ADVISING}
_TABLE: Final = "trace_advice"
_PROFILED: Final = "profiled variant"


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """The profiled variants that a rule is asked of, by what their traces tell.

    `applies` holds the row of advice of each to which the rule applies, the most extreme first; `silent` those it does
    not apply to; `doubted` those whose traces cannot tell, with the reason.
    """

    applies: tuple[tuple[Row, Row], ...]
    silent: tuple[Row, ...]
    doubted: tuple[tuple[Row, str], ...]

    @property
    def count(self) -> str:
        """How many of those whose traces tell it."""
        reliable = len(self.applies) + len(self.silent)
        return phrases.how_many(len(self.applies), reliable, _PROFILED)

    @property
    def others(self) -> str:
        """A sentence about the traces that do not tell it, empty without any."""
        return phrases.more_traces_do_not_tell(len(self.doubted))

    @property
    def doubt(self) -> str:
        """Why no trace tells it, as the end of a sentence that began with 'because'."""
        row, reason = self.doubted[0]
        return f"no trace tells it reliably: that of {described(row)} does not, since {reason}"


def _answer(scope: Scope, rule: AdviceRule, asked: Iterable[Row]) -> _Answer:
    advice = [row for row in rows_of(scope.tables.trace_advice) if row["rule"] == rule.name]
    unanswered = rows_of(scope.tables.trace_unanswered)
    why_of = {row["variant"]: str(row["reason"]) for row in unanswered if row["rule"] == rule.name}
    applies, silent, doubted = [], [], []
    for row in asked:
        found = [one for one in advice if one["variant"] == row["variant"]]
        if row["variant"] in why_of:
            doubted.append((row, why_of[row["variant"]]))
        elif found:
            applies.append((row, min(found, key=partial(_extreme, rule))))
        else:
            silent.append(row)
    return _Answer(
        applies=tuple(sorted(applies, key=lambda pair: _extreme(rule, pair[1]))),
        silent=tuple(silent),
        doubted=tuple(doubted),
    )


def _extreme(rule: AdviceRule, advice: Row) -> tuple[float, int]:
    """Least where the value is farthest beyond the threshold, then where the rule comes first in its own trace."""
    return float(advice["value"] if rule.is_floor else -advice["value"]), int(advice["rank"])


def _asked_on_accelerators(scope: Scope) -> list[Row]:
    return [row for row in scope.rows if row["device"] != CPU]


def _asked_where_processes_exchange(scope: Scope) -> Sequence[Row]:
    """All, as soon as one of them exchanges; a study of single processes is not asked."""
    return scope.rows if any(row["communication_share"] > 0 for row in scope.rows) else ()


def _asked_of_all(scope: Scope) -> Sequence[Row]:
    return scope.rows


def _test(
    scope: Scope,
    *,
    rule: AdviceRule,
    label: str,
    asked: Callable[[Scope], Sequence[Row]],
    advised_by: Sequence[str],
) -> Iterable[Outcome]:
    answer = _answer(scope, rule, asked(scope))
    if answer.applies:
        told_by_cause = any(_answer(scope, _ADVICE_OF[name], asked(scope)).applies for name in advised_by)
        return [replace(_yes(rule, answer, label=label), advises=not told_by_cause)]
    if answer.silent:
        return [Outcome(verdict="no", words={"count": answer.count, "others": answer.others})]
    return [Outcome(verdict="not resolved", words={"doubt": answer.doubt})] if answer.doubted else []


def _yes(rule: AdviceRule, answer: _Answer, *, label: str) -> Outcome:
    row, advice = answer.applies[0]
    return Outcome(
        verdict="yes",
        words={
            "count": answer.count,
            "others": answer.others,
            "extreme": described(row),
            "finding": _continued(advice["finding"], place=advice["place"]),
        },
        evidence=tuple(phrases.evidence(label, _figure(rule, found), _TABLE, row) for row, found in answer.applies),
    )


def _continued(sentence: str, *, place: str) -> str:
    """A sentence of the advice after a colon, with its place."""
    text = sentence[:1].lower() + sentence[1:].removesuffix(".")
    return f"{text} ({place})." if place else f"{text}."


def _figure(rule: AdviceRule, advice: Row) -> str:
    return phrases.share(advice["value"]) if rule.unit == "1" else f"{phrases.number(advice['value'])} times a step"


def _rule(
    advice: str,
    *,
    question: str,
    holds: str,
    whether: str,
    measure: str,
    label: str,
    asked: Callable[[Scope], Sequence[Row]] = _asked_on_accelerators,
    advised_by: Sequence[str] = (),
) -> Rule:
    """The finding that a rule of the advice gives; `holds` is followed by 'in ...', `whether` by 'is not resolved'.

    `measure` says what is held against the limit, `label` the same in short. `advised_by` are rules of the advice
    that recommend the same with more right, because what they find is the cause.
    """
    rule = _ADVICE_OF[advice]
    limit = f"{100 * rule.threshold:g} %" if rule.unit == "1" else f"{rule.threshold:g}"
    return Rule(
        name=key_of(advice),
        about=TRACE,
        question=question,
        test=partial(_test, rule=rule, label=label, asked=asked, advised_by=advised_by),
        threshold=f"A variant counts if {measure} is {'below' if rule.is_floor else 'at least'} {limit}. {rule.reason}",
        wording=Wording(
            yes=f"{holds} in {{count}}, most of all in {{extreme}}: {{finding}}{{others}}",
            no=f"{holds} in {{count}}.{{others}}",
            unresolved=f"Whether {whether} is not resolved, because {{doubt}}.",
            not_measured="",
        ),
        advice={"yes": _verbatim(rule.advice)},
    )


def _verbatim(text: str) -> str:
    """A text as a template that fills no field."""
    return text.replace("{", "{{").replace("}", "}}")


RULES: Final = (
    _rule(
        "data loader",
        question="Does waiting for data hold up the steps of any variant?",
        holds="Waiting for data held the step up",
        whether="waiting for data holds a step up",
        measure="the share of its steps' time in which the loop waits for data, and nothing else runs,",
        label="waiting for data",
        asked=_asked_of_all,
    ),
    _rule(
        "communication",
        question="Does exchange between processes hold up the steps of any variant?",
        holds="Exchange between processes held the step up",
        whether="exchange between processes holds a step up",
        measure="the share of its steps' time in which processes exchange, and no kernel runs,",
        label="exchange between processes",
        asked=_asked_where_processes_exchange,
    ),
    _rule(
        "accelerator busy",
        question="Has the accelerator too little to do in any variant?",
        holds="The accelerator had too little to do",
        whether="the accelerator has too little to do",
        measure="the share of its steps' time in which kernels are active",
        label="kernel-active time",
        advised_by=("data loader", "launch-bound"),
    ),
    _rule(
        "tensor cores",
        question="Are tensor cores left unused in any variant?",
        holds="Convolutions and matrix products did without tensor cores",
        whether="tensor cores are left unused",
        measure="the share of convolutions and matrix products, by time, without a kernel known to use them,",
        label="time without tensor cores",
    ),
    _rule(
        "peak memory",
        question="Is the accelerator's memory nearly full in any variant?",
        holds="The accelerator's memory was nearly full",
        whether="the accelerator's memory is nearly full",
        measure="the most memory that was taken, as a share of the accelerator's,",
        label="memory taken at the peak",
    ),
    _rule(
        "launch-bound",
        question="Does launching work hold up the steps of any variant?",
        holds="Launching work held the step up",
        whether="launching work holds a step up",
        measure="the share of its steps' time in which the accelerator waits for the next launch",
        label="waiting for the next launch",
    ),
    _rule(
        "pageable copies",
        question="Do copies from or to pageable memory take enough of any variant's step to be worth pinning it?",
        holds="Copies from or to pageable memory took a part of the step that is worth pinning it",
        whether="copies from or to pageable memory take a part of a step that is worth pinning it",
        measure="the share of its steps' time that these copies take",
        label="copies from or to pageable memory",
    ),
    _rule(
        "synchronising calls",
        question="Does the loop of any variant wait for the accelerator in every step?",
        holds="The loop waited for the accelerator in every step",
        whether="the loop waits for the accelerator in every step",
        measure="the number of waits a step that one call of the loop asks for",
        label="waits for the accelerator",
    ),
    _rule(
        "short kernels",
        question="Are most kernels of any variant too short to outlast their launch?",
        holds="Most pieces of the accelerator's work were too short to outlast their launch",
        whether="most pieces of the accelerator's work are too short to outlast their launch",
        measure="the share of launches whose work runs for less than 10 µs",
        label="launches of work shorter than 10 µs",
        advised_by=("launch-bound",),
    ),
)
