"""Whether any variant of a group learns worse than the baseline, asked of axes that should leave quality alone."""

from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, quality_change
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import (
    NOTHING_TO_COMPARE,
    QUALITY_THRESHOLD,
    QUALITY_TOLERANCE,
    quality_evidence,
    same_seeds,
)
from gpu_report.findings.rules.each import each_of
from gpu_report.findings.scope import Group


def _quality(group: Group) -> Outcome:
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    known = baseline
    each = each_of(
        group,
        group.others,
        lambda row: quality_change(row, known),
        limit=-QUALITY_TOLERANCE,
        limit_in_words="a loss of 0.02",
    )
    if not each.figures:
        return not_measured(group.title, "trainings diverged, so that there are no two qualities", key=group.key)
    worst = min((row for row, _ in each.figures), key=lambda row: float(row["quality"]))
    return Outcome(
        verdict=each.any_on("below"),
        words={
            "subject": group.title,
            "quality_name": worst["quality_name"],
            "lost": each.words(_quality_of, each.on("below")),
            "worst": phrases.of_column(worst, "quality", short=True),
            "worst_value": group.value_in_words(worst),
            "before": phrases.of_column(baseline, "quality", short=True),
            "baseline": group.value_in_words(baseline),
            "by_seed": same_seeds(worst, baseline),
            "compared": phrases.how_many(len(each.figures), len(each.figures), "other variant"),
            "doubt": each.doubt,
        },
        evidence=quality_evidence(group, worst, baseline),
        key=group.key,
    )


def _quality_of(row: Row, _: Estimate) -> str:
    return phrases.of_column(row, "quality", short=True)


QUALITY_OF_EACH: Final = Rule(
    name="quality",
    about="precision",
    question="Does any {axis} cost quality?",
    test=per_group(_quality),
    threshold=QUALITY_THRESHOLD,
    wording=Wording(
        yes="{subject} lost quality: held-out {quality_name} {lost}, against {before} with {baseline}.",
        no="In {compared} {subject} lost no quality: the lowest held-out {quality_name} is {worst}, with"
        " {worst_value}, against {before} with {baseline}{by_seed}.",
        unresolved="Whether {subject} loses quality is not resolved, because {doubt}; the lowest held-out"
        " {quality_name}"
        " is {worst}, with {worst_value}, against {before} with {baseline}{by_seed}.",
    ),
)
