"""Questions about the study as a whole: is it complete, and can its numbers be relied on."""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import DOUBTS, TIMING_DOUBTS, Row
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured
from gpu_report.findings.rules.frontier import OUT_OF_MEMORY
from gpu_report.findings.scope import CPU, Scope, device_in_words
from gpu_report.tables.marks import marks_in

RELIABLE_SHARE: Final = 0.5

UNRELIABLE: Final = ("noisy", *TIMING_DOUBTS, *DOUBTS)
"""Marks that cast doubt on a time; a noisy one still decides what its wide interval allows."""

_NO_VARIANT: Final = "no variant was measured"


def _complete(scope: Scope) -> Iterable[Outcome]:
    if not scope.rows:
        return [not_measured("the study", "it has no variants")]
    without = [row for row in scope.rows if row["status"] != "ok"]
    missing = [row for row in without if not _ends_a_series(row, scope)]
    return [
        Outcome(
            verdict="contradicted" if missing else "supported",
            words={
                "measured": phrases.how_many(len(scope.measured), len(scope.rows), "variant"),
                "missing": _named(missing),
                "ends": f"; beyond the largest batch that fits lies {_named(without)}" if without else "",
            },
            evidence=tuple(_evidence_of_text("status", phrases.why_no_numbers(row), row) for row in missing or without),
        )
    ]


def _ends_a_series(row: Row, scope: Scope) -> bool:
    """Whether it ran out of memory beyond every batch size that was measured, which such a series is to find out."""
    series = [
        group
        for frame in scope.tables.experiments.values()
        for _, group in frame.groupby("group")
        if row["variant"] in set(group["variant"]) and group["batch_size"].nunique() > 1
    ]
    measured = [group[group["status"] == "ok"]["batch_size"] for group in series]
    return row["status"] == OUT_OF_MEMORY and any(
        len(sizes) > 0 and sizes.max() < row["batch_size"] for sizes in measured
    )


def _named(rows: Iterable[Row]) -> str:
    return "; ".join(f"{row['variant']} ({phrases.why_no_numbers(row)})" for row in rows)


def _accelerator(scope: Scope) -> Iterable[Outcome]:
    there = [row for row in scope.rows if row["device"] != CPU]
    if not there:
        return [not_measured("an accelerator", "this study has the CPU alone")]
    measured = [row for row in there if row["status"] == "ok"]
    return [
        Outcome(
            verdict="supported" if measured else "contradicted",
            words={
                "measured": phrases.how_many(len(measured), len(there), "variant"),
                "devices": ", ".join(dict.fromkeys(device_in_words(row["device"]) for row in there)),
                "reason": "; ".join(dict.fromkeys(phrases.why_no_numbers(row) for row in there)),
            },
            evidence=tuple(_evidence_of_text("status", row["status"], row) for row in there),
        )
    ]


def _reliable(scope: Scope) -> Iterable[Outcome]:
    if not scope.measured:
        return [not_measured("the reliability of the results", _NO_VARIANT)]
    doubted = [row for row in scope.measured if _unreliable_marks(row)]
    marked = [row for row in scope.measured if marks_in(row["marks"])]
    trusted = 1 - len(doubted) / len(scope.measured)
    projected = sum(bool(row["epoch_time_projected"]) for row in scope.measured)
    return [
        Outcome(
            verdict="supported" if not doubted else "inconclusive" if trusted >= RELIABLE_SHARE else "contradicted",
            words={
                "doubted": phrases.how_many(len(doubted), len(scope.measured), "variant"),
                "marks": _counted_marks(doubted),
                "measured": phrases.how_many(len(scope.measured), len(scope.measured), "variant"),
                "projected": _projected_in_words(projected),
                "again": _MEASURE_LONGER if all(_unreliable_marks(r) == ["noisy"] for r in doubted) else _MEASURE_AGAIN,
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


def _same_code(scope: Scope) -> Iterable[Outcome]:
    if not scope.measured:
        return [not_measured("which code measured", _NO_VARIANT)]
    older = [row for row in scope.measured if not row["same_code"]]
    return [
        Outcome(
            verdict="contradicted" if older else "supported",
            words={
                "older": phrases.how_many(len(older), len(scope.measured), "variant"),
                "measured": phrases.how_many(len(scope.measured), len(scope.measured), "variant"),
            },
            evidence=tuple(_evidence_of_text("measured at", row["measured_at"], row) for row in older),
        )
    ]


def _evidence_of_text(label: str, value: str, row: Row) -> Evidence:
    return phrases.evidence(label, value or "none", "variants", row)


_MEASURE_LONGER: Final = (
    "Give the noisy variants more repetitions or longer epochs where a small difference matters: their processes differ"
    " too much to show one."
)
_MEASURE_AGAIN: Final = "Measure again with nothing else running on the machine: the marked times decide little."

RULES: Final = (
    Rule(
        name="complete",
        about="study",
        question="Was every variant measured?",
        test=_complete,
        threshold="A variant that ran out of memory, failed or was skipped is named. One that ran out of memory beyond"
        " the batch sizes that fitted is what a series of batch sizes is there to find, so that nothing is missing.",
        wording=Wording(
            supported="{measured} of the study were measured{ends}.",
            contradicted="{measured} of the study were measured; {missing}.",
        ),
    ),
    Rule(
        name="accelerator",
        about="study",
        question="Was an accelerator measured?",
        test=_accelerator,
        threshold="One measured variant on a device other than the CPU is enough to speak of it.",
        wording=Wording(
            supported="Beside the CPU this study measured {devices}: {measured} there.",
            contradicted="No variant on {devices} was measured: {reason}.",
            not_measured="No accelerator was measured, because {reason}; the report makes no statement about one.",
        ),
    ),
    Rule(
        name="reliable",
        about="study",
        question="Can the times be relied on?",
        test=_reliable,
        threshold="They can if no variant is noisy, disturbed by other programs or by the hypervisor, slowed down by"
        " heat, not settled, measured by another protocol, or measured in one process only; with doubts about more than"
        " half of the variants they cannot.",
        wording=Wording(
            supported="The times of {measured} carry no mark that casts doubt on them. {projected}",
            contradicted="The times of {doubted} are in doubt ({marks}), so that this study decides little."
            " {projected}",
            inconclusive="The times of {doubted} are in doubt ({marks}). A noisy time decides what its wide interval"
            " allows, the others decide nothing. {projected}",
        ),
        advice={"contradicted": "{again}", "inconclusive": "{again}"},
    ),
    Rule(
        name="same_code",
        about="study",
        question="Was everything measured by the code of today?",
        test=_same_code,
        threshold="The code is the same if the digest of the measuring code and of the workloads is.",
        wording=Wording(
            supported="{measured} were measured by the code of today.",
            contradicted="{older} were measured by other code than that of today.",
        ),
        advice={"contradicted": "Measure the variants of older code again before comparing them with the others."},
    ),
)
