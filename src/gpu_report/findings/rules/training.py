"""A question about each workload: does it learn."""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, estimate
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured
from gpu_report.findings.scope import Scope, described, key_of

ABOVE_CHANCE: Final = 0.05
PERFECT: Final = 0.995


def _learns(scope: Scope) -> Iterable[Outcome]:
    workloads = dict.fromkeys(row["workload"] for row in scope.rows)
    return [_learns_in(scope, [row for row in scope.rows if row["workload"] == workload]) for workload in workloads]


def _learns_in(scope: Scope, rows: list[Row]) -> Outcome:
    key = key_of(rows[0]["workload"])
    known = [row for row in rows if row["status"] == "ok" and estimate(row, "quality").known]
    if not known:
        return not_measured(rows[0]["workload_title"], "none of its variants has a quality", key=key)
    chance = float(known[0]["quality_chance"])
    level = chance + ABOVE_CHANCE * (1 - chance)
    learnt = [row for row in known if estimate(row, "quality").against(level) == "above"]
    open_ones = [row for row in known if estimate(row, "quality").against(level) == "unclear"]
    perfect = [row for row in known if estimate(row, "quality").value >= PERFECT]
    flat = len(perfect) == len(known)
    best = max(known, key=lambda row: float(row["quality"]))
    return Outcome(
        verdict="yes" if learnt and not flat else "not resolved" if open_ones and not flat else "no",
        words={
            "subject": rows[0]["workload_title"],
            "quality_name": best["quality_name"],
            "quality": phrases.of_column(best, "quality"),
            "best": described(best),
            "chance": phrases.number(chance),
            "learnt": phrases.how_many(len(learnt), len(known), "variant"),
            "fault": "every variant solves the task, so that it tells nothing"
            if flat
            else "no variant got above chance",
            "doubt": estimate(best, "quality").why_unclear("chance"),
        },
        evidence=phrases.evidence_of_columns(known, {"quality": f"held-out {best['quality_name']}"}, scope.table),
        key=key,
    )


RULES: Final = (
    Rule(
        name="learns",
        about="study",
        question="Does the workload learn something that can tell variants apart?",
        test=_learns,
        threshold="It does if the held-out quality of a variant, interval included, is above chance by 5 % of what lies"
        " between chance and perfect, and not every variant reaches 0.995: a task that all solve shows no difference.",
        wording=Wording(
            yes="{subject} learns: {learnt} got above chance ({chance}); the best held-out {quality_name}, that"
            " of {best}, is {quality}.",
            no="{subject} does not tell variants apart: {fault}; the best held-out {quality_name} is"
            " {quality}, chance is {chance}.",
            unresolved="Whether {subject} learns is not resolved, because {doubt}: the best held-out {quality_name} is"
            " {quality}, chance is {chance}.",
        ),
    ),
)
