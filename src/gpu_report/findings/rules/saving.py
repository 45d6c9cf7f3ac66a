"""Questions about training in less memory: what checkpointing and accumulation save, and what time they cost (B4)."""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate, speedup
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import MEMORY_TOLERANCE, NOTHING_TO_COMPARE
from gpu_report.findings.rules.each import each_of
from gpu_report.findings.rules.optimization import saves_memory
from gpu_report.findings.scope import Group, Scope, key_of

WORKSPACE_SHARE: Final = 0.25
"""Of the peak: from there on a convolution's workspace is named, since it can hide what saving activations saves."""


def _saves(scope: Scope) -> Iterable[Outcome]:
    return [_saves_in(group, row) for group in scope.groups for row in group.rows if _is_asked(row)]


def _is_asked(row: Row) -> bool:
    return saves_memory(row) and not row["is_baseline"]


def _saves_in(group: Group, row: Row) -> Outcome:
    baseline, key = group.baseline, f"{group.key}_{key_of(row['optimization'])}"
    if baseline is None or row["status"] != "ok":
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=key)
    ratio = estimate(row, "memory_peak_mib").over(estimate(baseline, "memory_peak_mib"))
    if not ratio.known:
        return not_measured(group.title, NOTHING_TO_COMPARE, key=key)
    side = ratio.against(1 - MEMORY_TOLERANCE)
    return Outcome(
        verdict="yes" if side == "below" else "no" if side == "above" else "not resolved",
        words={
            "subject": group.title,
            "value": group.value_in_words(row),
            "baseline": group.value_in_words(baseline),
            "memory": phrases.of_column(row, "memory_peak_mib"),
            "workspace": _workspace(row),
            "before": phrases.of_column(baseline, "memory_peak_mib", short=True),
            "saved": phrases.percent(ratio.mapped(lambda times: 100 * (1 - times)), short=True),
            "time": phrases.times(_time(row, baseline), short=True),
            "cost": _cost(_time(row, baseline)),
            "doubt": ratio.why_unclear("10 % less"),
        },
        evidence=phrases.evidence_of_columns([baseline, row], {"memory_peak_mib": "peak memory"}, group.table),
        key=key,
    )


def _workspace(row: Row) -> str:
    """The workspace of convolutions where it is much of the peak, which nothing that saves activations can save."""
    workspace_mib = float(row["convolution_workspace_mib"])
    if not workspace_mib >= WORKSPACE_SHARE * float(row["memory_peak_mib"]):
        return ""
    return f"; a convolution's workspace took up to {phrases.mebibytes(workspace_mib)}"


def _cost(time: Estimate) -> str:
    """What is known of the time that it costs."""
    told = f"{phrases.times(time, short=True)} as long"
    return f"what that costs in time stayed open, {told}" if time.against(1.0) == "unclear" else f"it took {told}"


def _time(row: Row, baseline: Row) -> Estimate:
    """Time per sample over that of the baseline."""
    return speedup(row, baseline).mapped(lambda times: 1 / times)


def _costs_time(group: Group) -> Outcome | None:
    asked = [row for row in group.rows if _is_asked(row)]
    if not asked:
        return None
    baseline, measured = group.baseline, [row for row in asked if row["status"] == "ok"]
    if baseline is None or not measured:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    known = baseline
    each = each_of(group, measured, lambda row: _time(row, known), limit=1.0, limit_in_words="equal times")
    if not each.figures:
        return not_measured(group.title, NOTHING_TO_COMPARE, key=group.key)
    return Outcome(
        verdict=each.any_on("above"),
        words={
            "subject": group.title,
            "slower": each.words(_times, each.on("above")),
            "all": each.words(_times),
            "baseline": group.value_in_words(baseline),
            "doubt": each.doubt,
        },
        evidence=phrases.evidence_of_columns([baseline, *measured], {"throughput_per_s": "throughput"}, group.table),
        key=group.key,
    )


def _times(_: Row, figure: Estimate) -> str:
    return phrases.times(figure, short=True)


RULES: Final = (
    Rule(
        name="saves",
        about="optimization",
        question="Which options save memory?",
        test=_saves,
        threshold="Less means at least 10 % less at the peak, intervals included: allocators hand out memory in blocks,"
        " so that less than that is no property of the training.",
        wording=Wording(
            yes="{value} saved {subject} {saved} of its memory: {memory} at the peak, instead of {before} with"
            " {baseline}{workspace}; {cost}.",
            no="{value} saved {subject} hardly any memory: {memory} at the peak, against {before} with"
            " {baseline}{workspace}. Training took {time} as long.",
            unresolved="Whether {value} saves {subject} memory is not resolved, because {doubt}: {memory} at the"
            " peak, against {before} with {baseline}{workspace}. Training took {time} as long.",
        ),
        advice={"yes": "Train {subject} with {value} where memory is short."},
    ),
    Rule(
        name="costs_time",
        about="optimization",
        question="Does training in less memory cost time?",
        test=per_group(_costs_time),
        threshold="It costs time if the whole interval of the ratio of times lies above 1 for one variant at least.",
        wording=Wording(
            yes="Less memory cost {subject} time: {slower} as long as with {baseline}.",
            no="Less memory cost {subject} no time: {all} as long as with {baseline}.",
            unresolved="Whether less memory costs {subject} time is not resolved, because {doubt}: {all} as"
            " long as with"
            " {baseline}.",
        ),
    ),
)
