"""Rules about the study as a whole: can its times be relied on, and does each workload learn?"""

from collections.abc import Iterable, Sequence
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import DOUBTS, TIMING_DOUBTS, Row, estimate
from gpu_report.findings.finding import STUDY
from gpu_report.findings.phrases import Named, described
from gpu_report.findings.rule import Outcome, Rule, not_measured
from gpu_report.findings.scope import Scope, key_of
from gpu_report.number_format import counted, quantity
from gpu_report.tables.marks import marks_in

UNRELIABLE: Final = ("high variance", *TIMING_DOUBTS, *DOUBTS)
"""Marks that cast doubt on a time; one of high variance still decides what its wide interval allows."""

ABOVE_CHANCE: Final = 0.05
PERFECT: Final = 0.995

_MEASURE_LONGER: Final = (
    "Give the variants of high variance more repetitions or longer epochs where a small difference matters: their"
    " processes differ too much to show one."
)
_MEASURE_AGAIN: Final = "Measure again with nothing else running on the machine: the marked times do not count."


def _reliable(scope: Scope) -> Iterable[Outcome]:
    measured = scope.measured
    if not measured:
        return [not_measured("the reliability of the results", "no variant was measured")]
    doubted = [marks for row in measured if (marks := _unreliable_marks(row))]
    all_marks = [mark for marks in doubted for mark in marks]
    projected = sum(bool(row["epoch_time_projected"]) for row in measured)
    return [
        Outcome(
            verdict="no" if doubted else "yes",
            fields={
                "doubted": phrases.how_many(len(doubted), len(measured), "variant"),
                "marks": ", ".join(f"{mark}: {all_marks.count(mark)}" for mark in dict.fromkeys(all_marks)),
                "count": phrases.how_many(len(measured), len(measured), "variant"),
                "projected": "The time of a whole epoch is projected from shortened epochs for"
                f" {counted(projected, 'variant')}."
                if projected
                else "No epoch time is projected.",
                "again": _MEASURE_LONGER if set(all_marks) == {"high variance"} else _MEASURE_AGAIN,
            },
            evidence=tuple(
                phrases.evidence("marks", ", ".join(marks), "variants", row)
                for row in measured
                if (marks := marks_in(row["marks"]))
            ),
        )
    ]


def _unreliable_marks(row: Row) -> list[str]:
    marks = [mark for mark in marks_in(row["marks"]) if mark in UNRELIABLE]
    return marks + (["one process only"] if row["processes"] < 2 else [])


def _learns(scope: Scope) -> Iterable[Outcome]:
    workloads = dict.fromkeys(row["workload"] for row in scope.rows)
    return [_learns_in(scope, [row for row in scope.rows if row["workload"] == workload]) for workload in workloads]


def _learns_in(scope: Scope, rows: Sequence[Row]) -> Outcome:
    title, key = rows[0]["workload_title"], key_of(rows[0]["workload"])
    known = [(row, estimate(row, "quality")) for row in rows if row["status"] == "ok"]
    known = [pair for pair in known if pair[1].known]
    if not known:
        return not_measured(title, "none of its variants has a quality", key=key)
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
            "learnt": phrases.how_many(sides.count("above"), len(known), "variant"),
            "fault": "every variant solves the task, so that it tells nothing"
            if is_solved
            else "no variant got above chance",
            "doubt": quality.why_unclear("chance"),
        },
        evidence=phrases.evidence_of_columns(
            [row for row, _ in known], {"quality": f"held-out {best['quality_name']}"}, scope.table
        ),
        key=key,
    )


RULES: Final = (
    Rule(
        name="reliable",
        about=STUDY,
        question="Can all times be relied on?",
        threshold="They can if no variant has high variance, is disturbed by other programs or by the hypervisor,"
        " slowed down by heat, not settled, measured by another protocol, or measured in one process only.",
        test=_reliable,
        yes="The times of {count} carry no mark that casts doubt on them. {projected}",
        no="The times of {doubted} are in doubt ({marks}). A time of high variance counts as far as its wide interval"
        " allows, the others do not count. {projected}",
        advice={"no": "{again}"},
    ),
    Rule(
        name="learns",
        about=STUDY,
        question="Does the workload learn something that can tell variants apart?",
        threshold="It does if the held-out quality of a variant, interval included, is above chance by 5 % of what lies"
        " between chance and perfect, and not every variant reaches 0.995: a task that all solve shows no difference.",
        test=_learns,
        yes="{subject} learns: {learnt} got above chance ({chance}); the best held-out {best.quality_name}, that of"
        " {best}, is {best.quality}.",
        no="{subject} does not tell variants apart: {fault}; the best held-out {best.quality_name} is {best.quality},"
        " chance is {chance}.",
        unresolved="Whether {subject} learns",
        measured=": the best held-out {best.quality_name} is {best.quality}, chance is {chance}.",
    ),
)
