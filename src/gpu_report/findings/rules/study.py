"""The question about the study as a whole: can its numbers be relied on."""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import DOUBTS, TIMING_DOUBTS, Row
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured
from gpu_report.findings.scope import Scope
from gpu_report.tables.marks import marks_in

UNRELIABLE: Final = ("high variance", *TIMING_DOUBTS, *DOUBTS)
"""Marks that cast doubt on a time; one of high variance still decides what its wide interval allows."""

_NO_VARIANT: Final = "no variant was measured"


def _reliable(scope: Scope) -> Iterable[Outcome]:
    if not scope.measured:
        return [not_measured("the reliability of the results", _NO_VARIANT)]
    doubted = [row for row in scope.measured if _unreliable_marks(row)]
    marked = [row for row in scope.measured if marks_in(row["marks"])]
    projected = sum(bool(row["epoch_time_projected"]) for row in scope.measured)
    return [
        Outcome(
            verdict="no" if doubted else "yes",
            words={
                "doubted": phrases.how_many(len(doubted), len(scope.measured), "variant"),
                "marks": _counted_marks(doubted),
                "measured": phrases.how_many(len(scope.measured), len(scope.measured), "variant"),
                "projected": _projected_in_words(projected),
                "again": _MEASURE_LONGER
                if all(_unreliable_marks(r) == ["high variance"] for r in doubted)
                else _MEASURE_AGAIN,
            },
            evidence=tuple(_evidence_of_text("marks", ", ".join(marks_in(row["marks"])), row) for row in marked),
        )
    ]


def _counted_marks(rows: list[Row]) -> str:
    marks = [mark for row in rows for mark in _unreliable_marks(row)]
    return ", ".join(f"{mark}: {phrases.count(marks.count(mark))}" for mark in dict.fromkeys(marks))


def _unreliable_marks(row: Row) -> list[str]:
    marks = [mark for mark in marks_in(row["marks"]) if mark in UNRELIABLE]
    return marks + (["one process only"] if row["processes"] < 2 else [])


def _projected_in_words(projected: int) -> str:
    if not projected:
        return "No epoch time is projected."
    variants = "1 variant" if projected == 1 else f"{projected} variants"
    return f"The time of a whole epoch is projected from shortened epochs for {variants}."


def _evidence_of_text(label: str, value: str, row: Row) -> Evidence:
    return phrases.evidence(label, value or "none", "variants", row)


_MEASURE_LONGER: Final = (
    "Give the variants of high variance more repetitions or longer epochs where a small difference matters:"
    " their processes differ"
    " too much to show one."
)
_MEASURE_AGAIN: Final = "Measure again with nothing else running on the machine: the marked times do not count."

RULES: Final = (
    Rule(
        name="reliable",
        about="study",
        question="Can all times be relied on?",
        test=_reliable,
        threshold="They can if no variant has high variance, is disturbed by other programs or by the"
        " hypervisor, slowed down by"
        " heat, not settled, measured by another protocol, or measured in one process only.",
        wording=Wording(
            yes="The times of {measured} carry no mark that casts doubt on them. {projected}",
            no="The times of {doubted} are in doubt ({marks}). A time of high variance counts as far as its"
            " wide interval"
            " allows, the others do not count. {projected}",
        ),
        advice={"no": "{again}"},
    ),
)
