"""Whether the fastest variant keeps the accelerator busier than the baseline does, as its driver tells in timed runs.

The driver's utilisation is the share of time in which any kernel ran; it says nothing of how much of the device that
kernel used.
"""

from dataclasses import replace
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import estimate
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import NOTHING_TO_COMPARE
from gpu_report.findings.rules.optimization import asked_for_speed
from gpu_report.findings.scope import CPU, Group

BUSIER_BY_PERCENT: Final = 5.0
_COLUMN: Final = "utilisation_percent"


def _busier(group: Group) -> Outcome | None:
    """None on a CPU, which no driver watches."""
    if all(row["device"] == CPU for row in group.rows):
        return None
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    best = max(group.others, key=lambda row: float(row["throughput_per_s"]))
    before, after = estimate(baseline, _COLUMN), estimate(best, _COLUMN)
    rise = after.minus(before)
    if not rise.known:
        return not_measured(group.title, "the driver told nothing of how busy the accelerator was", key=group.key)
    side = rise.against(BUSIER_BY_PERCENT)
    return Outcome(
        verdict="supported" if side == "above" else "contradicted" if side == "below" else "inconclusive",
        words={
            "subject": group.title,
            "best": group.value_in_words(best),
            "baseline": group.value_in_words(baseline),
            "before": phrases.of_column(baseline, _COLUMN, short=True),
            "after": phrases.of_column(best, _COLUMN),
            "doubt": rise.why_unclear("a rise by 5 percentage points"),
        },
        evidence=phrases.evidence_of_columns(
            group.measured, {_COLUMN: "accelerator at work"}, group.table, first=[baseline, best]
        ),
        key=group.key,
    )


_WITH_WORKERS: Final = Rule(
    name="busier",
    about="workers",
    question="Is the accelerator kept busier by what trains fastest?",
    test=per_group(_busier),
    threshold="Busier means that the share of time in which a kernel ran, as the accelerator's driver tells it of the"
    " timed epochs, rises by more than 5 percentage points, intervals included: the driver looks in windows far longer"
    " than a step and tells whole per cents, so that less says little.",
    wording=Wording(
        supported="The accelerator was busier when it trained {subject} with {best}: a kernel ran in {after} of the"
        " time, instead of {before} with {baseline}.",
        contradicted="The accelerator was not clearly busier when it trained {subject} with {best}: a kernel ran in"
        " {after} of the time, against {before} with {baseline}.",
        inconclusive="Whether the accelerator is busier when it trains {subject} with {best} stays open, because"
        " {doubt}: a kernel ran in {after} of the time, against {before} with {baseline}.",
    ),
)

RULES: Final = (_WITH_WORKERS, replace(_WITH_WORKERS, about="optimization", test=per_group(asked_for_speed(_busier))))
