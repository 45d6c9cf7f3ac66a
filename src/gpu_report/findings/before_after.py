"""What the comparison of two sets of results says: what got worse, of each thing compared, and what
else differs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_report.findings.estimate import listed
from gpu_report.findings.finding import Evidence, Finding
from gpu_report.findings.phrases import how_many
from gpu_report.findings.rule import Claim, Outcome
from gpu_report.glossary import QUALITY_TOLERANCE, TIME_TOLERANCE, Row, machine_words
from gpu_report.printing.number_format import counted, exact, share
from gpu_report.tables.before_after import (
    BEFORE_AFTER,
    MEMORY,
    MEMORY_TOLERANCES,
    NO_VERDICT,
    QUALITY,
    REGRESSIONS,
    STATUS,
    TIME,
    UNREMARKABLE,
    in_words,
    rank,
)

_MOST_DIFFERENCES: Final = 6
_ALLOCATED, _RESIDENT = (share(tolerance).plain() for tolerance in MEMORY_TOLERANCES.values())
_TOLERANCES: Final = {
    TIME: share(TIME_TOLERANCE).plain(),
    MEMORY: f"{_ALLOCATED}, or {_RESIDENT} for a resident set",
    QUALITY: exact(QUALITY_TOLERANCE).plain(),
}


def _claim(name: str, question: str, *, threshold: str) -> Claim:
    return Claim(
        name=name,
        question=question,
        threshold=threshold,
        yes="{said}.",
        no="{said}.",
        unresolved="{said}.",
    )


def _claim_about(what: str, name: str, question: str) -> Claim:
    threshold = (
        "Yes if any configuration is worse; not resolved if none is worse and at least one has no "
        "verdict."
    )
    if what in _TOLERANCES:
        threshold += (
            " A configuration is worse if the whole interval of its change is above "
            f"{_TOLERANCES[what]}, and the"
            " change is significant after correction for all configurations (Holm)."
        )
    return _claim(name, question, threshold=threshold)


_CLAIMS: Final = {
    TIME: _claim_about(TIME, "slower", "Did any configuration get slower?"),
    MEMORY: _claim_about(MEMORY, "memory", "Does any configuration need more memory?"),
    QUALITY: _claim_about(QUALITY, "quality", "Did any held-out metric get worse?"),
    STATUS: _claim_about(STATUS, "status", "Does any configuration that ran before fail now?"),
}
_DIFFERENCES: Final = _claim(
    "differences",
    "What is compared, and what else differs?",
    threshold="Software, hardware and clocks in the records of both sides.",
)


def derive_before_after(
    rows: Sequence[Row],
    *,
    machine: str,
    sides: str,
    remarks: Sequence[str],
    differences: Sequence[str],
) -> list[Finding]:
    """A finding per thing compared of the rows of BEFORE_AFTER, then one about the sides.

    Args:
        rows: The table.
        machine: Its id; both sides are of it.
        sides: What each is.
        remarks: What is to be said of all times together.
        differences: What else differs between the sides, a sentence each.
    """
    found = [
        (claim, _outcome(of_it, remarks if what == TIME else ()))
        for what, claim in _CLAIMS.items()
        if (of_it := [row for row in rows if row["compared"] == what])
        and (what != STATUS or any(rank(row) < UNREMARKABLE for row in of_it))
    ]
    shown = [*differences[:_MOST_DIFFERENCES]]
    if more := len(differences) - len(shown):
        shown.append(f"{counted(more, 'more difference')}, which gpu-report compare lists")
    said = f"{sides}. " + (
        f"Different: {'; '.join(shown)}" if shown else "The records show no other difference"
    )
    found.append((_DIFFERENCES, Outcome(verdict="yes", fields={"said": said})))
    return [
        claim.finding(
            replace(outcome, fields={**outcome.fields, "subject": machine_words(machine)}),
            experiment=BEFORE_AFTER.name,
        )
        for claim, outcome in found
    ]


def _outcome(rows: Sequence[Row], remarks: Sequence[str]) -> Outcome:
    verdicts = Counter(row["verdict"] for row in sorted(rows, key=rank))
    *others, (last, count) = verdicts.items()
    counts = [f"{verdict} in {number}" for verdict, number in others]
    counts.append(f"{last} in {how_many(count, len(rows), 'configuration')}")
    return Outcome(
        verdict="yes"
        if REGRESSIONS & {*verdicts}
        else "not resolved"
        if NO_VERDICT in verdicts
        else "no",
        fields={"said": "; ".join([listed(counts), *remarks])},
        evidence=tuple(
            Evidence(
                label=row["verdict"],
                value=in_words(row)["change"] or row["why"],
                table=BEFORE_AFTER.name,
                variant=row["configuration"],
            )
            for row in rows
            if rank(row) < UNREMARKABLE
        ),
    )
