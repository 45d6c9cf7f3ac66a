"""What the comparison of machines says: which of two trains a workload faster, and what else
differs between them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, estimate
from gpu_report.findings.finding import Finding
from gpu_report.findings.phrases import times
from gpu_report.findings.rule import Claim, Outcome
from gpu_report.findings.scope import key_of
from gpu_report.glossary import Row, machine_words
from gpu_report.tables.bundle import grouped, rows_of
from gpu_report.tables.variants import COMPARISON
from gpu_report.words import device_in_words, listed

if TYPE_CHECKING:
    import pandas as pd

MACHINES: Final = "machines"
"""In place of an experiment's name, in findings about machines side by side."""

FASTER: Final = Claim(
    name="faster",
    question="Does {machine} train every configuration that both measured faster than {reference}?",
    threshold="Yes if the whole interval of the ratio of throughputs is above 1 in every "
    "configuration that both measured, no if it is below 1 in any. The ratio is between machines, "
    "not a speedup within one; where software differs too, it is that of machine and software "
    "together.",
    yes="Throughput over that of {reference}: {parts}.{differences}",
    no="Throughput over that of {reference}: {parts}.{differences}",
    unresolved="Whether {subject} is",
    measured="; throughput over that of {reference}: {parts}.{differences}",
)


def derive_comparison(frame: "pd.DataFrame") -> list[Finding]:
    """One finding per pair of machines of the table COMPARISON, in the order of the table."""
    pairs = grouped(rows_of(frame), lambda row: (row["machine"], row["reference_machine"]))
    return [_faster(machine, reference, rows) for (machine, reference), rows in pairs.items()]


def _faster(machine: str, reference: str, rows: Sequence[Row]) -> Finding:
    names = {"machine": machine_words(machine), "reference": machine_words(reference)}
    ratios = [estimate(row, "ratio") for row in rows]
    sides = [ratio.against(1.0) for ratio in ratios]
    alike = grouped(rows, lambda row: (row["workload_title"], row["device"]))
    outcome = Outcome(
        verdict="yes" if {*sides} == {"above"} else "no" if "below" in sides else "not resolved",
        fields={
            **names,
            "subject": names["machine"],
            "parts": "; ".join(
                f"{title} on {device_in_words(device)} "
                + _in_words([estimate(row, "ratio") for row in found])
                for (title, device), found in alike.items()
            ),
            "doubt": next(
                (ratio.why_unclear("1") for ratio in ratios if ratio.against(1.0) == "unclear"), ""
            ),
            "differences": _differences(rows),
        },
        evidence=tuple(
            phrases.evidence(
                "throughput over the reference machine's", times(ratio), COMPARISON.name, row
            )
            for row, ratio in zip(rows, ratios, strict=True)
        ),
        key=key_of(f"{machine}_{reference}"),
    )
    return replace(FASTER, question=FASTER.question.format(**names)).finding(
        outcome, experiment=MACHINES
    )


def _in_words(ratios: Sequence[Estimate]) -> str:
    """The ratios of one workload on one device: the one, or the least and the greatest and how many
    are which way.
    """
    counts = Counter(ratio.against(1.0) for ratio in ratios)
    least, most = (choose(ratios, key=lambda ratio: ratio.value) for choose in (min, max))
    if len(ratios) == 1:
        return times(least) + (" (not resolved)" if counts["unclear"] else "")
    words = {"above": "faster", "below": "slower", "unclear": "not resolved"}
    span = list(dict.fromkeys(times(ratio, short=True) for ratio in (least, most)))
    first, *others = (f"{words[side]} in {count}" for side, count in counts.items())
    of_all = (
        f"{first} of {len(ratios)}"
        if others
        else f"{words[next(iter(counts))]} in all {len(ratios)}"
    )
    return f"{' to '.join(span)}, {listed([of_all, *others])} configurations"


def _differences(rows: Sequence[Row]) -> str:
    """A sentence about what differs besides the machine, each difference with the variants it is
    true of.
    """
    counts = Counter(
        part.strip() for row in rows for part in row["differences"].split(";") if part.strip()
    )
    if not counts:
        return ""
    parts = [
        difference
        if count == len(rows)
        else f"{difference} (in {phrases.how_many(count, len(rows), 'configuration')})"
        for difference, count in counts.items()
    ]
    return f" Other differences: {'; '.join(parts)}."
