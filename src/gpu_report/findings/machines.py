"""What the comparison of machines says: which of two trains a workload faster, and what else differs between them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.finding import Finding
from gpu_report.findings.phrases import device_in_words
from gpu_report.findings.rule import Claim, Outcome
from gpu_report.findings.scope import key_of
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.schema import COMPARISON

if TYPE_CHECKING:
    import pandas as pd

MACHINES: Final = "machines"
"""In place of an experiment's name, in findings about machines side by side."""

FASTER: Final = Claim(
    name="faster",
    question="Which machine trains the same variants faster?",
    threshold="A machine is faster if the whole interval of the ratio of throughputs lies above 1 in every variant that"
    " both measured. The ratio is between machines and no speedup within one; where software differs too, it is that of"
    " machine and software together.",
    yes="On {machine}, {subject} trained faster than on {reference} in {all}{measured}",
    no="On {machine}, {subject} trained more slowly than on {reference} in {all}{measured}",
    unresolved="Whether {subject} trains faster on {machine} than on {reference}",
    measured=": {span} the throughput.{differences}",
)


def derive_comparison(frame: "pd.DataFrame") -> list[Finding]:
    """One finding per workload, device and pair of machines of the table COMPARISON, in the order of the table."""
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in rows_of(frame):
        same = (row["machine"], row["reference_machine"], row["workload"], row["device"])
        alike.setdefault(same, []).append(row)
    return [FASTER.finding(_faster(rows, key="_".join(same)), experiment=MACHINES) for same, rows in alike.items()]


def _faster(rows: Sequence[Row], *, key: str) -> Outcome:
    first = rows[0]
    ratios = [estimate(row, "ratio") for row in rows]
    sides = {ratio.against(1.0) for ratio in ratios}
    return Outcome(
        verdict="yes" if sides == {"above"} else "no" if sides == {"below"} else "not resolved",
        fields={
            "subject": f"{first['workload_title']} ({device_in_words(first['device'])})",
            "machine": first["machine"],
            "reference": first["reference_machine"],
            "all": phrases.how_many(len(rows), len(rows), "variant"),
            "span": _span(ratios),
            "doubt": _doubt(ratios),
            "differences": _differences(rows),
        },
        evidence=tuple(
            phrases.evidence("throughput over the reference machine's", phrases.times(ratio), COMPARISON.name, row)
            for row, ratio in zip(rows, ratios, strict=True)
        ),
        key=key_of(key),
    )


def _span(ratios: Sequence[Estimate]) -> str:
    least, most = (choose(ratios, key=lambda ratio: ratio.value) for choose in (min, max))
    first, last = phrases.times(least, short=True), phrases.times(most, short=True)
    return phrases.times(most) if first == last else f"from {first} to {last}"


def _doubt(ratios: Sequence[Estimate]) -> str:
    """Why the variants together decide nothing."""
    sides = [ratio.against(1.0) for ratio in ratios]
    unclear = next((ratio for ratio in ratios if ratio.against(1.0) == "unclear"), None)
    if "above" in sides and "below" in sides:
        return (
            f"it was faster in {phrases.how_many(sides.count('above'), len(sides), 'variant')}"
            f" and slower in {sides.count('below')}"
        )
    if unclear is None:
        return ""
    part = phrases.how_many(sides.count("unclear"), len(sides), "variant")
    return f"in {part} {unclear.why_unclear('1')}" if len(sides) > 1 else unclear.why_unclear("1")


def _differences(rows: Sequence[Row]) -> str:
    """A sentence about what differs besides the machine, each difference with the variants it is true of."""
    counts: dict[str, int] = {}
    for row in rows:
        for difference in filter(None, (part.strip() for part in row["differences"].split(";"))):
            counts[difference] = counts.get(difference, 0) + 1
    if not counts:
        return ""
    parts = [
        difference if count == len(rows) else f"{difference} (in {phrases.how_many(count, len(rows), 'variant')})"
        for difference, count in counts.items()
    ]
    return f" Besides the machine there differed: {'; '.join(parts)}."
