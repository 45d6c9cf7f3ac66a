"""The rule about the study as a whole: does each workload learn?"""

from collections.abc import Iterable, Sequence
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, estimate
from gpu_report.findings.finding import STUDY
from gpu_report.findings.phrases import Named, described
from gpu_report.findings.rule import Outcome, Rule, not_measured
from gpu_report.findings.scope import Scope, key_of
from gpu_report.number_format import quantity

ABOVE_CHANCE: Final = 0.05
PERFECT: Final = 0.995


def _learns(scope: Scope) -> Iterable[Outcome]:
    workloads = dict.fromkeys(row["workload"] for row in scope.rows)
    return [_learns_in(scope, [row for row in scope.rows if row["workload"] == workload]) for workload in workloads]


def _learns_in(scope: Scope, rows: Sequence[Row]) -> Outcome:
    title, key = rows[0]["workload_title"], key_of(rows[0]["workload"])
    known = [(row, estimate(row, "quality")) for row in rows if row["status"] == "ok"]
    known = [pair for pair in known if pair[1].known]
    if not known:
        return not_measured(title, "none of its configurations has a quality", key=key)
    chance = float(known[0][0]["quality_chance"])
    sides = [quality.against(chance + ABOVE_CHANCE * (1 - chance)) for _, quality in known]
    is_solved = all(quality.value >= PERFECT for _, quality in known)
    best, quality = max(known, key=lambda pair: pair[1].value)
    is_open = "unclear" in sides and not is_solved
    return Outcome(
        verdict="yes" if "above" in sides and not is_solved else "not resolved" if is_open else "no",
        fields={
            "subject": title,
            "best": Named(best, described(best)),
            "chance": quantity(chance).plain(),
            "above": phrases.how_many(sides.count("above"), len(known), "configuration"),
            "fault": "every configuration solves the task" if is_solved else "no configuration beats chance",
            "doubt": quality.why_unclear("chance"),
        },
        evidence=phrases.evidence_of_columns(
            [row for row, _ in known], {"quality": f"held-out {best['quality_name']}"}, scope.table
        ),
        key=key,
    )


RULES: Final = (
    Rule(
        name="learns",
        about=STUDY,
        question="Does the workload beat chance, and could its quality differ between configurations?",
        threshold="It does if the held-out quality of a configuration, interval included, is above chance by 5 % of the"
        " way from chance to perfect, and not every configuration reaches 0.995: a task that all solve shows no"
        " difference.",
        test=_learns,
        yes="{subject} beats chance ({chance}) in {above}; the best held-out {best.quality_name}, that of {best}, is"
        " {best.quality}.",
        no="{subject} shows no difference in quality: {fault}; the best held-out {best.quality_name} is {best.quality},"
        " chance is {chance}.",
        unresolved="Whether {subject} beats chance",
        measured=": the best held-out {best.quality_name} is {best.quality}, chance is {chance}.",
    ),
)
