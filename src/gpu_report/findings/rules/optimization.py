"""Questions about what speeds training up: which option alone, which nothing, and what the whole ladder brings (B5)."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate, speedup
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import VERDICT_OF, Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import BEST, MEMORY_COST, NOTHING_TO_COMPARE, best, memory_cost
from gpu_report.findings.rules.each import Each, each_of
from gpu_report.findings.scope import Group, optimization_in_words
from gpu_report.options import NO_OPTIONS, SEPARATOR, ladder, option_names

SAVES_MEMORY: Final = "checkpoint"
"""The option that makes a training slower on purpose."""


@dataclass(frozen=True, kw_only=True)
class Climb:
    """A step up the ladder: the variant, the one below it, and what was added."""

    row: Row
    below: Row
    added: str

    @property
    def gain(self) -> Estimate:
        """Throughput over that of the variant below; where that is the baseline, as the table compares them."""
        if self.below["is_baseline"]:
            return speedup(self.row, self.below)
        return estimate(self.row, "throughput_per_s").over(estimate(self.below, "throughput_per_s"))


def saves_memory(row: Row) -> bool:
    """Whether a variant trains in less memory rather than in less time."""
    return bool(row["accumulation"] > 1 or SAVES_MEMORY in option_names(row["options"]))


def for_speed(group: Group) -> Group | None:
    """The group without the variants that save memory; None where it is about them alone."""
    rows = tuple(row for row in group.rows if row["is_baseline"] or not saves_memory(row))
    return replace(group, rows=rows) if any(not row["is_baseline"] for row in rows) else None


def _chain(group: Group) -> list[str]:
    """The ladder's variants from the eager baseline up; none where the group's variants are no ladder."""
    names = {str(row["optimization"]) for row in group.rows}
    alone = [str(row["optimization"]) for row in group.rows if _is_alone(row) and row["optimization"] != NO_OPTIONS]
    chain = [NO_OPTIONS, *alone[:1], *ladder(alone)[1 + len(alone) :]]
    return chain if len(chain) > 2 and names >= set(chain) else []


def climbs(group: Group) -> list[Climb]:
    """The steps up the ladder of which both ends were measured."""
    rows = {str(row["optimization"]): row for row in group.measured}
    return [
        Climb(row=rows[name], below=rows[below], added=_added_to(below, name))
        for below, name in itertools.pairwise(_chain(group))
        if name in rows and below in rows
    ]


def _added_to(below: str, name: str) -> str:
    return SEPARATOR.join(part for part in option_names(name) if part not in option_names(below))


def _is_alone(row: Row) -> bool:
    return SEPARATOR not in row["optimization"]


def asked_for_speed(test: Callable[[Group], Outcome | None]) -> Callable[[Group], Outcome | None]:
    """A test of the variants that are there for speed; a group without any is left out."""

    def test_for_speed(group: Group) -> Outcome | None:
        speeding = for_speed(group)
        return None if speeding is None else test(speeding)

    return test_for_speed


def _alone(group: Group) -> Outcome:
    return best(replace(group, rows=tuple(row for row in group.rows if _is_alone(row))))


def _useless(group: Group) -> Outcome:
    baseline = group.baseline
    alone = [row for row in group.others if _is_alone(row)]
    if baseline is None or not alone:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    measured = baseline
    each = each_of(group, alone, lambda row: speedup(row, measured), limit=1.0, limit_in_words="1")
    if not each.figures:
        return not_measured(group.title, NOTHING_TO_COMPARE, key=group.key)
    undecided = [pair for pair in each.figures if pair[1].doubts or not pair[1].has_interval]
    idle = [pair for pair in each.figures if pair not in undecided and pair[1].against(1.0) != "above"]
    return Outcome(
        verdict="yes" if idle else "not resolved" if undecided else "no",
        words={
            "subject": group.title,
            "idle": each.words(_times, idle),
            "count": phrases.how_many(len(idle), len(each.figures), "optimization"),
            "all": each.words(_times),
            "doubt": each.doubt,
        },
        evidence=_speedups(each, first=idle or undecided),
        key=group.key,
    )


def _times(_: Row, figure: Estimate) -> str:
    return phrases.times(figure, short=True)


def _speedups(each: Each, *, first: Sequence[tuple[Row, Estimate]]) -> tuple[Evidence, ...]:
    figures = [*first, *(pair for pair in each.figures if pair not in first)]
    return tuple(phrases.evidence("speedup", phrases.times(figure), each.group.table, row) for row, figure in figures)


def _whole_ladder(group: Group) -> Outcome | None:
    if not _chain(group):
        return None
    steps, baseline = climbs(group), group.baseline
    if baseline is None or not steps:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    top, ratio = steps[-1].row, speedup(steps[-1].row, baseline)
    if not ratio.known:
        return not_measured(group.title, NOTHING_TO_COMPARE, key=group.key)
    most = max(steps, key=lambda step: step.gain.value)
    side = ratio.against(1.0)
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": group.title,
            "top": group.value_in_words(top),
            "speedup": phrases.times(ratio),
            "baseline": group.value_in_words(baseline),
            "most": optimization_in_words(most.added),
            "most_gain": phrases.times(most.gain, short=True),
            "doubt": ratio.why_unclear("1"),
        },
        evidence=_gains(sorted(steps, key=lambda step: -step.gain.value), group.table),
        key=group.key,
    )


def _every_step(group: Group) -> Outcome | None:
    if not _chain(group):
        return None
    steps = climbs(group)
    if not steps:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    sides = [step.gain.against(1.0) for step in steps]
    costly, unclear = ([step for step, at in zip(steps, sides, strict=True) if at == side] for side in _NOT_ABOVE)
    return Outcome(
        verdict="no" if costly else "not resolved" if unclear else "yes",
        words={
            "subject": group.title,
            "gains": _added(steps),
            "costly": _added(costly),
            "unclear": _added(unclear),
        },
        evidence=_gains([*costly, *unclear, *(step for step in steps if step not in [*costly, *unclear])], group.table),
        key=group.key,
    )


_NOT_ABOVE: Final = ("below", "unclear")


def _added(steps: Iterable[Climb]) -> str:
    parts = [f"{optimization_in_words(step.added)} {phrases.times(step.gain, short=True)}" for step in steps]
    return "; ".join(parts)


def _gains(steps: Iterable[Climb], table: str) -> tuple[Evidence, ...]:
    return tuple(
        phrases.evidence(f"speedup from adding {step.added}", phrases.times(step.gain), table, step.row)
        for step in steps
    )


RULES: Final = (
    replace(BEST, about="optimization", test=per_group(asked_for_speed(best))),
    replace(
        BEST,
        name="alone",
        about="optimization",
        question="Which optimization alone trains fastest?",
        test=per_group(asked_for_speed(_alone)),
        wording=Wording(
            yes="Of what was switched on alone, {best} made {subject} fastest: {rate}, {speedup} the throughput"
            " of {baseline}{rivals}.",
            no="Nothing that was switched on alone made {subject} faster than {baseline}, {baseline_rate};"
            " the next, {best}, reached {speedup} that.",
            unresolved="Whether anything alone makes {subject} faster than {baseline} is not resolved, because {doubt};"
            " {best} reached {speedup} the throughput.",
        ),
        advice={},
    ),
    Rule(
        name="useless",
        about="optimization",
        question="Which optimizations bring no significant gain by themselves?",
        test=per_group(asked_for_speed(_useless)),
        threshold="One brings nothing if the interval of its speedup over the eager baseline is not wholly above 1:"
        " then it is not significant, or costs time. Together with others it may yet bring something.",
        wording=Wording(
            yes="By themselves {count} showed no significant gain for {subject}: {idle}.",
            no="Every optimization sped {subject} up by itself: {all}.",
            unresolved="Whether every optimization speeds {subject} up by itself is not resolved, because {doubt};"
            " measured were {all}.",
        ),
    ),
    Rule(
        name="ladder",
        about="optimization",
        question="Do all optimizations together pay?",
        test=per_group(asked_for_speed(_whole_ladder)),
        threshold="They pay if the whole interval of the last step's speedup over the eager baseline lies above 1, and"
        " the difference is significant beside the experiment's other comparisons (Holm).",
        wording=Wording(
            yes="Together the optimizations paid for {subject}: with {top} it trained {speedup} as fast as with"
            " {baseline}. Most came from adding {most}: {most_gain}.",
            no="Together the optimizations did not pay for {subject}: with {top} it trained {speedup} as fast"
            " as with {baseline}.",
            unresolved="Whether the optimizations together pay for {subject} is not resolved, because {doubt}:"
            " with {top}"
            " it trained {speedup} as fast as with {baseline}.",
        ),
    ),
    Rule(
        name="every_step",
        about="optimization",
        question="Does every step of the optimization ladder add speed to those below?",
        test=per_group(asked_for_speed(_every_step)),
        threshold="A step adds speed if the ratio of its throughput to that of the step below is above 1 with the most"
        " and the least that both intervals allow. Options made redundant by a step are dropped.",
        wording=Wording(
            yes="Every step made {subject} faster than the one below: {gains}.",
            no="Not every step made {subject} faster than the one below; these made it slower: {costly}.",
            unresolved="Steps of {subject} without a significant gain over the one below: {unclear}.",
        ),
    ),
    replace(MEMORY_COST, about="optimization", test=per_group(asked_for_speed(memory_cost))),
)
