"""Questions about the batch size: which trains fastest, whether a smaller one is close, and what quality does (E2)."""

import math
from dataclasses import replace
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate, listed, speedup
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import QUALITY_THRESHOLD, quality_outcome
from gpu_report.findings.rules.each import each_of
from gpu_report.findings.scope import Group

NEARLY_AS_FAST: Final = 0.95
"""Of the highest throughput: a twentieth is less than most would notice, and a smaller batch leaves memory free."""

FEWEST_STEPS: Final = 30
"""Optimizer steps: after fewer, a training has hardly begun, whatever its batch size."""


def _smaller(group: Group) -> Outcome:
    rows = group.measured
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, "it takes two batch sizes"), key=group.key)
    fastest = max(rows, key=lambda row: float(row["throughput_per_s"]))
    rate = estimate(fastest, "throughput_per_s")
    each = each_of(
        group,
        rows[: rows.index(fastest)],
        lambda row: estimate(row, "throughput_per_s").over(rate),
        limit=NEARLY_AS_FAST,
        limit_in_words="95 %",
    )
    close = each.on("above") or [pair for pair in each.figures if pair[1].value >= NEARLY_AS_FAST]
    near = close[:1] or sorted(each.figures, key=lambda pair: pair[1].value)[-1:]
    baseline = group.baseline
    gain = None if baseline is None or math.isnan(fastest["speedup"]) else speedup(fastest, baseline)
    verdict = each.any_on("above")
    return Outcome(
        verdict=verdict,
        words={
            "subject": group.title,
            "fastest": group.value_in_words(fastest),
            "rate": phrases.of_column(fastest, "throughput_per_s"),
            "near": "".join(group.value_in_words(row) for row, _ in near),
            "reached": "".join(
                f"; {group.value_in_words(row)} reached"
                f" {phrases.percent(share.mapped(lambda times: 100 * times), short=True)} of that"
                for row, share in near
            ),
            "doubt": next((share.why_unclear("95 %") for _, share in each.on("unclear")), ""),
        },
        evidence=phrases.evidence_of_columns(
            rows,
            {"throughput_per_s": "throughput", "memory_peak_mib": "peak memory"},
            group.table,
            first=[fastest, *(row for row, _ in near)],
        ),
        key=group.key,
        gain=None if verdict == "not resolved" else gain,
        advises=(gain is None or gain.against(1.0) == "above") and not _reached(group),
    )


def _quality(group: Group) -> Outcome:
    rows = [row for row in group.measured if row["optimizer_steps"] >= FEWEST_STEPS]
    few = [
        f"{group.value_in_words(row)} ({phrases.count(row['optimizer_steps'])})"
        for row in group.measured
        if row not in rows
    ]
    left_out = f"fewer than {FEWEST_STEPS} optimizer steps were made with {listed(few)}" if few else ""
    if len(rows) < 2:
        return not_measured(group.title, left_out or why_missing(group.rows, "it takes two batch sizes"), key=group.key)
    outcome = quality_outcome(group, rows[0], rows[-1])
    soonest = min(_reached(group), key=lambda row: float(row["time_to_target_s"]), default=None)
    gain = None if soonest is None or group.baseline is None else _time(group.baseline).over(_time(soonest))
    return replace(
        outcome,
        words={
            **outcome.words,
            "soonest": group.value_in_words(soonest) if soonest else "",
            "target": f"{rows[0]['target']:g}",
            "to_target": _to_target(group, soonest),
            "left_out": f" Others are left out: {left_out}." if left_out else "",
        },
        evidence=(
            *outcome.evidence,
            *phrases.evidence_of_columns(_reached(group), {"time_to_target_s": "time to target"}, group.table),
        ),
        gain=gain if gain and gain.known and outcome.verdict != "not resolved" else None,
        advises=soonest is not None and (not gain or not gain.known or gain.against(1.0) == "above"),
    )


def _reached(group: Group) -> list[Row]:
    """The variants that reached the experiment's target in every process; none where it has no target."""
    return [row for row in group.measured if _time(row).known]


def _time(row: Row) -> Estimate:
    return estimate(row, "time_to_target_s")


def _to_target(group: Group, soonest: Row | None) -> str:
    """A sentence, with the space before it, about the time to the target; empty without one."""
    target = group.measured[0]["target"]
    if math.isnan(target):
        return ""
    missed = [group.value_in_words(row) for row in group.measured if not _time(row).known]
    if soonest is None:
        return f" None reached {target:g} in every process."
    others = f"; {listed(missed)} did not reach it in every process" if missed else ""
    return (
        f" It reached {target:g} soonest with {group.value_in_words(soonest)}, after"
        f" {phrases.of_column(soonest, 'time_to_target_s', short=True)} of training{others}."
    )


RULES: Final = (
    Rule(
        name="smaller",
        about="batch_size",
        question="Is a smaller batch nearly as fast as the fastest?",
        test=per_group(_smaller),
        threshold="Nearly as fast means at least 95 % of the highest throughput, intervals included; the smallest such"
        " batch is named. What ran out of memory is left out.",
        wording=Wording(
            yes="{subject} trained fastest with {fastest}: {rate}{reached}, the smallest within 5 %.",
            no="{subject} trained fastest with {fastest}: {rate}. No smaller batch came within 5 %{reached}.",
            unresolved="{subject} trained fastest with {fastest}: {rate}{reached}. Whether a smaller batch is within"
            " 5 % is not resolved, because {doubt}.",
        ),
        advice={
            "yes": "Train {subject} with {fastest}, the fastest that fits; the smallest within 5 % of it is {near}.",
            **dict.fromkeys(("no", "not resolved"), "Train {subject} with {fastest}, the fastest that fits."),
        },
    ),
    Rule(
        name="quality",
        about="batch_size",
        question="Does held-out quality fall with the batch size?",
        test=per_group(_quality),
        threshold=QUALITY_THRESHOLD
        + f" A batch size that made fewer than {FEWEST_STEPS} optimizer steps says nothing about quality and is left"
        " out. Time to target is training time, without evaluation.",
        wording=Wording(
            yes="The quality of {subject} fell with the batch size: held-out {quality_name} {quality} with"
            " {value}, against {before} with {before_value}, after the same epochs{by_seed}.{to_target}{left_out}",
            no="The quality of {subject} did not fall with the batch size: held-out {quality_name} {quality}"
            " with {value}, against {before} with {before_value}{by_seed}.{to_target}{left_out}",
            unresolved="Whether the quality of {subject} falls with the batch size is not resolved, because {doubt}:"
            " held-out {quality_name} {quality} with {value}, against {before} with {before_value}{by_seed}."
            "{to_target}{left_out}",
        ),
        advice=dict.fromkeys(
            ("yes", "no", "not resolved"),
            "Train {subject} with {soonest}: it reaches {quality_name} {target} first.",
        ),
    ),
)
