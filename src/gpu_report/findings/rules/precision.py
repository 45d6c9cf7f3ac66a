"""Questions about the precision: is each other one faster, does it cost quality, does it save memory (B2)."""

from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate, speedup
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import MEMORY_TOLERANCE, NOTHING_TO_COMPARE
from gpu_report.findings.rules.each import each_of
from gpu_report.findings.rules.quality import QUALITY_OF_EACH
from gpu_report.findings.scope import Group, Scope

SCALED: Final = "fp16"
"""The format whose gradients are scaled, because small ones would vanish in it."""


def _faster(group: Group) -> Outcome:
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    measured = baseline
    each = each_of(group, group.others, lambda row: speedup(row, measured), limit=1.0, limit_in_words="1")
    if not each.figures:
        return not_measured(group.title, NOTHING_TO_COMPARE, key=group.key)
    return Outcome(
        verdict=each.all_on("above"),
        words={
            "subject": group.title,
            "baseline": group.value_in_words(baseline),
            "speedups": each.words(_times),
            "slower": each.words(_times, each.on("below")),
            "doubt": each.doubt,
        },
        evidence=phrases.evidence_of_columns(group.measured, {"throughput_per_s": "throughput"}, group.table),
        key=group.key,
    )


def _memory(group: Group) -> Outcome:
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    before = estimate(baseline, "memory_peak_mib")
    each = each_of(
        group,
        group.others,
        lambda row: estimate(row, "memory_peak_mib").over(before),
        limit=1 - MEMORY_TOLERANCE,
        limit_in_words="10 % less",
    )
    if not each.figures:
        return not_measured(group.title, NOTHING_TO_COMPARE, key=group.key)
    return Outcome(
        verdict=each.any_on("below"),
        words={
            "subject": group.title,
            "baseline": group.value_in_words(baseline),
            "before": phrases.of_column(baseline, "memory_peak_mib"),
            "saving": each.words(_of_memory, each.on("below")),
            "ratios": each.words(_of_memory),
            "doubt": each.doubt,
        },
        evidence=phrases.evidence_of_columns(group.measured, {"memory_peak_mib": "peak memory"}, group.table),
        key=group.key,
    )


def _times(_: Row, figure: Estimate) -> str:
    return phrases.times(figure, short=True)


def _of_memory(row: Row, figure: Estimate) -> str:
    return f"{phrases.of_column(row, 'memory_peak_mib', short=True)}, {phrases.times(figure, short=True)} as much"


def _skipped(scope: Scope) -> list[Outcome]:
    scaled = [(group, row) for group in scope.groups for row in group.rows if row["precision"] == SCALED]
    if not scaled:
        return [not_measured("the scaling of gradients", f"no variant is trained in {SCALED}")]
    return [_skipped_in(scope, group, row) for group, row in scaled]


def _skipped_in(scope: Scope, group: Group, row: Row) -> Outcome:
    if row["status"] != "ok" or row["skipped_steps"] != row["skipped_steps"]:
        return not_measured(group.title, why_missing([row], "its steps were not watched"), key=group.key)
    losses = scope.tables.losses
    steps = int((losses["variant"] == row["variant"]).sum())
    skipped = phrases.count(row["skipped_steps"])
    return Outcome(
        verdict="yes" if row["skipped_steps"] > 0 else "no",
        words={
            "subject": group.title,
            "format": group.value_in_words(row),
            "skipped": skipped,
            "steps": phrases.count(steps),
            "processes": phrases.count(row["processes"]),
            "scale": phrases.count(row["loss_scale_last"]),
        },
        evidence=(
            phrases.evidence("skipped steps, all processes", skipped, group.table, row),
            phrases.evidence("last factor of the loss", phrases.count(row["loss_scale_last"]), group.table, row),
        ),
        key=group.key,
    )


RULES: Final = (
    Rule(
        name="faster",
        about="precision",
        question="Does every other precision train faster?",
        test=per_group(_faster),
        threshold="A format is faster if the whole interval of its speedup over the baseline lies above 1, and"
        " the difference is significant beside the experiment's other comparisons (Holm).",
        wording=Wording(
            yes="Every other format trained {subject} faster than {baseline} did: {speedups}.",
            no="Not every other format trained {subject} faster than {baseline} did: {slower} the speed."
            " Of all formats: {speedups}.",
            unresolved="Whether every other format trains {subject} faster than {baseline} is not resolved, because"
            " {doubt}; measured were {speedups}.",
        ),
    ),
    QUALITY_OF_EACH,
    Rule(
        name="memory",
        about="precision",
        question="Does another precision save memory?",
        test=per_group(_memory),
        threshold="Saving means at least 10 % less at the peak, intervals included: allocators hand out memory in"
        " blocks, so that less than that is no property of the training.",
        wording=Wording(
            yes="{subject} needed {before} of memory at its peak with {baseline}, and less in another format:"
            " {saving}.",
            no="No other format saved memory for {subject}, which needed {before} with {baseline}: {ratios}.",
            unresolved="Whether another format saves memory for {subject} is not resolved, because {doubt}: {ratios},"
            " against {before} with {baseline}.",
        ),
    ),
    Rule(
        name="skipped",
        about="precision",
        question="Did the scaling of gradients skip steps?",
        test=_skipped,
        threshold="One skipped step is enough: there the scaled gradients were not finite, the weights stayed as they"
        " were, and the factor was halved. It starts too high on purpose and finds its value by skipping.",
        wording=Wording(
            yes="{subject} lost {skipped} of its {steps} steps with {format} to gradients that were not finite,"
            " in {processes} processes together; the factor of the loss was {scale} at the end.",
            no="{subject} lost none of its {steps} steps with {format}, in {processes} processes together;"
            " the factor of the loss was {scale} at the end.",
        ),
    ),
)
