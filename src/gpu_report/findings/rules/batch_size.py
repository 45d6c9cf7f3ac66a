"""Questions about the batch size: which trains fastest, whether a smaller one is close, and what quality does (E2)."""

import math
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import estimate, speedup
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import QUALITY_THRESHOLD, quality_outcome
from gpu_report.findings.rules.each import each_of
from gpu_report.findings.scope import Group

NEARLY_AS_FAST: Final = 0.95
"""Of the highest throughput: a twentieth is less than most would notice, and a smaller batch leaves memory free."""


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
            "doubt": each.doubt,
        },
        evidence=phrases.evidence_of_columns(
            rows,
            {"throughput_per_s": "throughput", "memory_peak_mib": "peak memory"},
            group.table,
            first=[fastest, *(row for row, _ in near)],
        ),
        key=group.key,
        gain=None if verdict == "inconclusive" else gain,
        advises=gain is None or gain.against(1.0) == "above",
    )


def _quality(group: Group) -> Outcome:
    rows = group.measured
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, "it takes two batch sizes"), key=group.key)
    return quality_outcome(group, rows[0], rows[-1])


RULES: Final = (
    Rule(
        name="smaller",
        about="batch_size",
        question="Is a smaller batch nearly as fast as the fastest?",
        test=per_group(_smaller),
        threshold="Nearly as fast means at least 95 % of the highest throughput, intervals included; the smallest such"
        " batch is named. What ran out of memory is left out.",
        wording=Wording(
            supported="{subject} trained fastest with {fastest}: {rate}{reached}, the smallest within 5 %.",
            contradicted="{subject} trained fastest with {fastest}: {rate}. No smaller batch came within 5 %{reached}.",
            inconclusive="{subject} trained fastest with {fastest}: {rate}{reached}. Whether a smaller batch is within"
            " 5 % is not resolved, because {doubt}.",
        ),
        advice={
            "supported": "Train {subject} with {fastest}, the fastest that fits; the smallest within 5 % of it is"
            " {near}.",
            "contradicted": "Train {subject} with {fastest}, the fastest that fits.",
            "inconclusive": "Train {subject} with {fastest}, the fastest that fits.",
        },
    ),
    Rule(
        name="quality",
        about="batch_size",
        question="Does held-out quality fall with the batch size?",
        test=per_group(_quality),
        threshold=QUALITY_THRESHOLD
        + " In whole epochs larger batches make fewer updates over the same samples; in epochs of a fixed number of"
        " steps they make as many updates and see more samples.",
        wording=Wording(
            supported="The quality of {subject} fell with the batch size: held-out {quality_name} {quality} with"
            " {value}, against {before} with {before_value}, after the same epochs{by_seed}.",
            contradicted="The quality of {subject} did not fall with the batch size: held-out {quality_name} {quality}"
            " with {value}, against {before} with {before_value}{by_seed}.",
            inconclusive="Whether the quality of {subject} falls with the batch size stays open, because {doubt}:"
            " held-out {quality_name} {quality} with {value}, against {before} with {before_value}{by_seed}.",
        ),
    ),
)
