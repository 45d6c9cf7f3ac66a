"""Whether any variant of a group learns worse than the baseline, asked of axes that should leave quality alone."""

from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import NOTHING_TO_COMPARE, QUALITY_THRESHOLD, QUALITY_TOLERANCE
from gpu_report.findings.rules.each import each_of
from gpu_report.findings.scope import Group


def _quality(group: Group) -> Outcome:
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    before = estimate(baseline, "quality")
    each = each_of(
        group,
        group.others,
        lambda row: estimate(row, "quality").minus(before),
        limit=-QUALITY_TOLERANCE,
        limit_in_words="a loss of 0.02",
    )
    if not each.figures:
        return not_measured(group.title, "trainings diverged, so that there are no two qualities", key=group.key)
    worst, _ = min(each.figures, key=lambda pair: pair[1].value)
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
            "compared": phrases.how_many(len(each.figures), len(each.figures), "other variant"),
            "doubt": each.doubt,
        },
        evidence=phrases.evidence_of_columns(
            group.measured,
            {"quality": f"held-out {baseline['quality_name']}"},
            group.table,
            first=[worst, baseline],
        ),
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
        supported="{subject} lost quality: held-out {quality_name} {lost}, against {before} with {baseline}.",
        contradicted="In {compared} {subject} lost no quality: the lowest held-out {quality_name} is {worst}, with"
        " {worst_value}, against {before} with {baseline}.",
        inconclusive="Whether {subject} loses quality stays open, because {doubt}; the lowest held-out {quality_name}"
        " is {worst}, with {worst_value}, against {before} with {baseline}.",
    ),
)
