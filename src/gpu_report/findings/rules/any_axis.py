"""Questions about any axis, so that an experiment that is only a configuration entry has findings too."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate, is_paired, listed, quality_change, speedup
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import ANY_AXIS, VERDICT_OF, Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.scope import Group

OWN_RULES: Final = ("device", "size", "workers", "batch_size", "workload", "precision", "optimization")
"""Axes with rules of their own for what these ask, or between whose values quality is not comparable."""

QUALITY_TOLERANCE: Final = 0.02
MEMORY_TOLERANCE: Final = 0.10
_MOST_RIVALS_NAMED: Final = 2

NOTHING_TO_COMPARE: Final = "there is nothing to compare with"


def _fastest_other(group: Group, baseline: Row) -> tuple[Row, Estimate]:
    """The fastest variant beside the baseline."""
    return max(((row, speedup(row, baseline)) for row in group.others), key=lambda pair: pair[1].value)


def best(group: Group) -> Outcome:
    """Whether the fastest variant beside the baseline is faster than it."""
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    best, ratio = _fastest_other(group, baseline)
    side = ratio.against(1.0)
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": group.title,
            "best": group.value_in_words(best),
            "baseline": group.value_in_words(baseline),
            "speedup": phrases.times(ratio),
            "rate": phrases.of_column(best, "throughput_per_s", short=True),
            "baseline_rate": phrases.of_column(baseline, "throughput_per_s", short=True),
            "doubt": ratio.why_unclear("1"),
            "rivals": _rivals(group, best),
        },
        evidence=phrases.evidence_of_columns(
            group.measured, {"throughput_per_s": "throughput"}, group.table, first=[best, baseline]
        ),
        key=group.key,
        gain=ratio if side == "above" else None,
    )


def _rivals(group: Group, best: Row) -> str:
    """The others that may be as fast as the best, as the end of a sentence that names it the fastest.

    A time in doubt is too long if anything, so that its variant may be faster than measured.
    """
    rate = estimate(best, "throughput_per_s")
    others = [(row, rate.over(estimate(row, "throughput_per_s"))) for row in group.others if row is not best]
    alike = [row for row, ratio in others if not ratio.doubts and ratio.against(1.0) == "unclear"]
    doubted = [row for row, ratio in others if ratio.doubts]
    return "".join(
        (
            f"; not significantly slower: {_named(group, alike)}" if alike else "",
            f"; compared with doubts: {_named(group, doubted)}" if doubted else "",
        )
    )


def _named(group: Group, rows: Sequence[Row]) -> str:
    names = [group.value_in_words(row) for row in rows]
    return listed(names) if len(names) <= _MOST_RIVALS_NAMED else f"{len(names)} others"


def _best_at_one_task(group: Group) -> Outcome | None:
    """None where the workloads solve different tasks, by their metric and chance: neither is faster than the other."""
    tasks = {(row["quality_name"], float(row["quality_chance"])) for row in group.measured}
    return best(group) if len(tasks) < 2 else None


def _quality_cost(group: Group) -> Outcome:
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    best, _ = _fastest_other(group, baseline)
    return quality_outcome(group, baseline, best)


def quality_outcome(group: Group, before: Row, after: Row) -> Outcome:
    """Whether quality is lower in one variant than in another."""
    change = quality_change(after, before)
    if not change.known:
        return not_measured(group.title, "a training diverged, so that its quality is no number", key=group.key)
    side = change.against(-QUALITY_TOLERANCE)
    return Outcome(
        verdict="yes" if side == "below" else "no" if side == "above" else "not resolved",
        words={
            "subject": group.title,
            "quality_name": after["quality_name"],
            "quality": phrases.of_column(after, "quality"),
            "value": group.value_in_words(after),
            "before": phrases.of_column(before, "quality", short=True),
            "before_value": group.value_in_words(before),
            "by_seed": same_seeds(after, before),
            "doubt": change.why_unclear("a loss of 0.02"),
        },
        evidence=quality_evidence(group, after, before),
        key=group.key,
    )


def same_seeds(after: Row, before: Row) -> str:
    """The end of a sentence that gave both qualities, where the same seeds tell what became of each."""
    if not is_paired(after, before):
        return ""
    change = quality_change(after, before)
    if change.low == change.high == 0:
        return "; seed by seed it did not change"
    return f"; seed by seed it changed by {phrases.change_by_seed(after, before)}"


def quality_evidence(group: Group, after: Row, before: Row) -> tuple[Evidence, ...]:
    """What decides about two variants, and the quality of all."""
    name, change = f"held-out {after['quality_name']}", phrases.change_by_seed(after, before, short=False)
    decisive = [phrases.evidence(f"change of {name} by seed", change, group.table, after)] if change else []
    return (
        *decisive,
        *phrases.evidence_of_columns(group.measured, {"quality": name}, group.table, first=[after, before]),
    )


def memory_cost(group: Group) -> Outcome:
    """Whether the fastest variant beside the baseline needs clearly more memory than it."""
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    best, _ = _fastest_other(group, baseline)
    return memory_outcome(group, baseline, best)


def memory_outcome(group: Group, before: Row, after: Row) -> Outcome:
    """Whether one variant needs clearly more memory than another."""
    growth = estimate(after, "memory_peak_mib").over(estimate(before, "memory_peak_mib"))
    side = growth.against(1 + MEMORY_TOLERANCE)
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": group.title,
            "memory_kind": "device memory" if after["memory_kind"] == "allocator" else "main memory",
            "memory": phrases.of_column(after, "memory_peak_mib"),
            "value": group.value_in_words(after),
            "before": phrases.of_column(before, "memory_peak_mib", short=True),
            "before_value": group.value_in_words(before),
            "growth": phrases.times(growth, short=True),
            "doubt": growth.why_unclear("10 % more"),
        },
        evidence=phrases.evidence_of_columns(
            group.measured, {"memory_peak_mib": "peak memory"}, group.table, first=[after, before]
        ),
        key=group.key,
    )


MEMORY_THRESHOLD: Final = (
    "More memory means more than 10 % more, intervals included: allocators hand out memory in blocks, so that less than"
    " that is no property of the training."
)
MEMORY_WORDING: Final = Wording(
    yes="{subject} needed {memory} of {memory_kind} at its peak with {value}, {growth} the {before} with"
    " {before_value}.",
    no="{subject} needed hardly more {memory_kind} with {value} than with {before_value}: {memory} at its"
    " peak, against {before}.",
    unresolved="Whether {subject} needs more {memory_kind} with {value} than with {before_value} is not"
    " resolved, because"
    " {doubt}: {memory} at its peak, against {before}.",
)
QUALITY_THRESHOLD: Final = (
    "A fall means that the difference, intervals included, is more than 0.02: about what a few held-out samples make."
    " It is taken between processes of the same seed, which began alike, where both variants have the same seeds."
)

BEST: Final = Rule(
    name="best",
    about=ANY_AXIS,
    unless=OWN_RULES,
    question="Which {axis} trains fastest?",
    test=per_group(best),
    threshold="Another value is faster if the whole interval of its speedup over the baseline lies above 1, and"
    " the difference is significant beside the experiment's other comparisons (Holm).",
    wording=Wording(
        yes="{subject} was fastest with {best}: {rate}, {speedup} the throughput with {baseline}{rivals}.",
        no="{subject} was fastest with {baseline}: {baseline_rate}. The next, {best}, reached {speedup} that.",
        unresolved="Whether {subject} is faster with {best} than with {baseline} is not resolved, because {doubt};"
        " measured were {speedup} the throughput.",
    ),
    advice={"yes": "Train {subject} with {best} instead of {baseline}."},
)

MEMORY_COST: Final = Rule(
    name="memory_cost",
    about=ANY_AXIS,
    unless=OWN_RULES,
    question="Does the fastest {axis} cost memory?",
    test=per_group(memory_cost),
    threshold=MEMORY_THRESHOLD,
    wording=MEMORY_WORDING,
)

RULES: Final = (
    BEST,
    replace(BEST, about="workload", advice={}, test=per_group(_best_at_one_task)),
    replace(BEST, about="precision"),
    Rule(
        name="quality_cost",
        about=ANY_AXIS,
        unless=OWN_RULES,
        question="Does the fastest {axis} cost quality?",
        test=per_group(_quality_cost),
        threshold=QUALITY_THRESHOLD,
        wording=Wording(
            yes="{subject} lost quality with {value}: held-out {quality_name} {quality}, against {before} with"
            " {before_value}{by_seed}.",
            no="{subject} lost no quality with {value}: held-out {quality_name} {quality}, against {before}"
            " with {before_value}{by_seed}.",
            unresolved="Whether {subject} loses quality with {value} is not resolved, because {doubt}: held-out"
            " {quality_name} {quality}, against {before} with {before_value}{by_seed}.",
        ),
    ),
    MEMORY_COST,
)
