"""What the comparison of machines says: which of two trains a workload faster, and what else
differs between them.
"""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from gpu_report.answers.estimate import Estimate, estimate
from gpu_report.answers.finding import Finding, Verdict
from gpu_report.answers.phrases import evidence, factor_alone, how_many, times
from gpu_report.answers.scope import key_of
from gpu_report.glossary import Row, capitalized, machine_words
from gpu_report.printing.number_format import counted
from gpu_report.tables.bundle import grouped, rows_of
from gpu_report.tables.variants import COMPARISON
from gpu_report.words import device_in_words, listed

if TYPE_CHECKING:
    import pandas as pd

MACHINES: Final = "machines"
"""In place of an experiment's name, in findings about machines side by side."""

BUSY: Final = 0.9
WAITING: Final = 0.5
"""Shares of a step: from which on the GPU limits it, and up to which the host does."""
_THRESHOLD: Final = (
    "Yes if the whole interval of the ratio of throughputs is above 1 in every configuration that "
    "both measured, no if it is below 1 in any. The ratio is between machines, not a speedup "
    "within one; where software differs too, it is that of machine and software together."
)


def derive_comparison(frame: "pd.DataFrame") -> list[Finding]:
    """One finding per pair of machines of the table COMPARISON, in the order of the table."""
    pairs = grouped(rows_of(frame), lambda row: (row["machine"], row["reference_machine"]))
    return [_faster(machine, reference, rows) for (machine, reference), rows in pairs.items()]


def _faster(machine: str, reference: str, rows: Sequence[Row]) -> Finding:
    ratios = [estimate(row, "ratio") for row in rows]
    sides = [ratio.against(1.0) for ratio in ratios]
    doubts = [ratio.why_unclear(1.0, "1") for ratio in ratios if ratio.against(1.0) == "unclear"]
    this, other = machine_words(machine), machine_words(reference)
    by_model = grouped(rows, lambda row: (row["workload_title"], row["device"]))
    parts = [
        f"{title} on {device_in_words(device)} "
        + _in_words([estimate(row, "ratio") for row in alike])
        for (title, device), alike in by_model.items()
    ]
    statement = f"throughput over that of {other}: {_by_limit(rows)}{'; '.join(parts)}."
    differing = Counter(
        part.strip() for row in rows for part in row["differences"].split(";") if part.strip()
    )
    if differing:
        differences = [
            difference
            if count == len(rows)
            else f"{difference} (in {how_many(count, len(rows), 'configuration')})"
            for difference, count in differing.items()
        ]
        statement += f" Other differences: {'; '.join(differences)}."
    verdict: Verdict = "no" if "below" in sides else "yes"
    if verdict == "yes" and doubts:
        verdict = "too close to call"
        statement = (
            f"Whether {this} is faster in every configuration is too close to call, because "
            f"{doubts[0]}; {statement}"
        )
    return Finding(
        id=f"{MACHINES}_faster/{key_of(f'{machine}_{reference}')}",
        experiment=MACHINES,
        question=f"Does {this} train every configuration that both measured faster than {other}?",
        subject=this,
        verdict=verdict,
        statement=capitalized(statement),
        evidence=tuple(
            evidence("throughput over the reference machine's", times(ratio), COMPARISON.name, row)
            for row, ratio in zip(rows, ratios, strict=True)
        ),
        threshold=_THRESHOLD,
    )


def _by_limit(rows: Sequence[Row]) -> str:
    """The ratios where the GPUs of both machines limit a step, and where one of them waits."""
    known = [row for row in rows if math.isfinite(row["ratio"])]
    on_gpu = [row["ratio"] for row in known if row["busy_share"] >= BUSY]
    on_host = [row["ratio"] for row in known if row["busy_share"] <= WAITING]
    found = {
        f"where both GPUs are busy for at least {100 * BUSY:g} % of a step": on_gpu,
        f"where either GPU is busy for at most {100 * WAITING:g} % of a step": on_host,
    }
    return "".join(
        f"a median of {factor_alone(median(ratios))}, from {factor_alone(min(ratios))} to "
        f"{factor_alone(max(ratios))}, in {counted(len(ratios), 'configuration')} {words}; "
        for words, ratios in found.items()
        if ratios
    )


def _in_words(ratios: Sequence[Estimate]) -> str:
    """The ratios of one workload on one device: the one, or the least and the greatest and how many
    are which way.
    """
    counts = Counter(ratio.against(1.0) for ratio in ratios)
    if len(ratios) == 1:
        return times(ratios[0]) + (" (too close to call)" if counts["unclear"] else "")
    ends = [choose(ratios, key=lambda ratio: ratio.value) for choose in (min, max)]
    span = " to ".join(dict.fromkeys(times(ratio, short=True) for ratio in ends))
    words = {"above": "faster", "below": "slower", "unclear": "too close to call"}
    if len(counts) == 1:
        ways = f"{words[next(iter(counts))]} in all {len(ratios)}"
    else:
        first, *others = (f"{words[side]} in {count}" for side, count in counts.items())
        ways = listed([f"{first} of {len(ratios)}", *others])
    return f"{span}, {ways} configurations"
