"""Questions about DataLoader workers: do they help, how many suffice, and what the training waited before (E4)."""

from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate, speedup
from gpu_report.findings.rule import VERDICT_OF, Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.scope import Group

SUFFICES: Final = 0.95
WAIT_FALLS_BY: Final = 0.05


def _fastest(rows: list[Row]) -> Row:
    return max(rows, key=lambda row: float(row["throughput_per_s"]))


def _help(group: Group) -> Outcome:
    baseline = group.baseline
    if baseline is None or not group.others:
        reason = why_missing(group.rows, "there is nothing to compare with")
        return not_measured(group.title, reason, key=group.key)
    best = _fastest(group.others)
    ratio = speedup(best, baseline)
    side = ratio.against(1.0)
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": group.title,
            "best": group.value_in_words(best),
            "baseline": group.value_in_words(baseline),
            "speedup": phrases.times(ratio),
            "doubt": ratio.why_unclear("1"),
        },
        evidence=phrases.evidence_of_columns(group.measured, {"throughput_per_s": "throughput"}, group.table),
        key=group.key,
        gain=ratio.mapped(lambda times: 1 / times) if side == "below" else None,
    )


def _enough(group: Group) -> Outcome:
    rows = group.measured
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, "it takes two numbers of processes"), key=group.key)
    row, best, share = next(
        found
        for row in rows
        if (found := _against_the_others(row, rows))[2].against(SUFFICES) != "below" or row is rows[-1]
    )
    unclear = row is not rows[-1] and share.against(SUFFICES) == "unclear"
    return Outcome(
        verdict="not resolved" if unclear else "no" if row is rows[-1] else "yes",
        words={
            "subject": group.title,
            "enough": group.value_in_words(row),
            "rate": phrases.of_column(row, "throughput_per_s"),
            "share": phrases.percent(share.mapped(lambda part: 100 * part), short=True),
            "best": group.value_in_words(best),
            "doubt": share.why_unclear("95 %"),
        },
        evidence=phrases.evidence_of_columns(rows, {"throughput_per_s": "throughput"}, group.table),
        key=group.key,
        gain=_gain(group, row),
    )


def _against_the_others(row: Row, rows: list[Row]) -> tuple[Row, Row, Estimate]:
    """A variant, the fastest of the others, and the share of its throughput that the variant reaches."""
    best = _fastest([other for other in rows if other is not row])
    return row, best, estimate(row, "throughput_per_s").over(estimate(best, "throughput_per_s"))


def _gain(group: Group, row: Row) -> Estimate | None:
    return None if group.baseline is None else speedup(row, group.baseline)


def _data_wait(group: Group) -> Outcome:
    baseline = group.baseline
    if baseline is None or not group.others:
        reason = why_missing(group.rows, "there is nothing to compare with")
        return not_measured(group.title, reason, key=group.key)
    best = _fastest(group.others)
    fall = estimate(baseline, "data_wait_share").minus(estimate(best, "data_wait_share"))
    side = fall.against(WAIT_FALLS_BY)
    return Outcome(
        verdict=VERDICT_OF[side],
        words={
            "subject": group.title,
            "best": group.value_in_words(best),
            "baseline": group.value_in_words(baseline),
            "before": phrases.of_column(baseline, "data_wait_share"),
            "after": phrases.of_column(best, "data_wait_share", short=True),
            "doubt": fall.why_unclear("a fall by 5 percentage points"),
        },
        evidence=phrases.evidence_of_columns(group.measured, {"data_wait_share": "time waiting for data"}, group.table),
        key=group.key,
    )


RULES: Final = (
    Rule(
        name="help",
        about="workers",
        question="Do DataLoader workers help?",
        test=per_group(_help),
        threshold="They help if the whole interval of the fastest's speedup over loading in the training process lies"
        " above 1.",
        wording=Wording(
            yes="DataLoader workers helped {subject}: with {best} it trained {speedup} as fast as with {baseline}.",
            no="DataLoader workers did not help {subject}: even with {best}, the fastest, it trained {speedup}"
            " as fast as with {baseline}.",
            unresolved="Whether DataLoader workers help {subject} is not resolved, because {doubt}: with {best}"
            " it trained"
            " {speedup} as fast as with {baseline}.",
        ),
        advice={"no": "Load {subject} with {baseline}."},
    ),
    Rule(
        name="enough",
        about="workers",
        question="How many DataLoader workers suffice?",
        test=per_group(_enough),
        threshold="A number suffices if it reaches at least 95 % of the throughput of any other, intervals included;"
        " each further process costs memory and a core, which 5 % would not repay.",
        wording=Wording(
            yes="{enough} sufficed for {subject}: it trained {rate}, {share} of what {best} gave, the fastest of"
            " the others.",
            no="No fewer than {enough}, the most that were measured, sufficed for {subject}: with them it"
            " trained {rate}, {share} of what {best} gave.",
            unresolved="How many DataLoader workers suffice for {subject} is not resolved, because {doubt}:"
            " with {enough} it"
            " reached {share} of what {best} gave, the fastest of the others.",
        ),
        advice={
            "yes": "Load {subject} with {enough}.",
            "no": "Load {subject} with {enough}, the most that were measured.",
        },
    ),
    Rule(
        name="data_wait",
        about="workers",
        question="Does the training wait less for data with DataLoader workers?",
        test=per_group(_data_wait),
        threshold="Less means that the share of time spent waiting falls by more than 5 percentage points, intervals"
        " included; less could not speed training up by more than 5 %.",
        wording=Wording(
            yes="{subject} waited less for data: {before} of the time with {baseline}, {after} with {best}.",
            no="{subject} did not wait clearly less for data: {before} of the time with {baseline}, {after}"
            " with {best}.",
            unresolved="Whether {subject} waits less for data is not resolved, because {doubt}: {before} of the"
            " time with"
            " {baseline}, {after} with {best}.",
        ),
    ),
)
