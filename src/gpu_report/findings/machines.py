"""What the comparison of machines says: which of two trains a workload faster, and what else differs between them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.finding import Finding
from gpu_report.findings.phrases import device_in_words, times
from gpu_report.findings.rule import Claim, Outcome
from gpu_report.findings.scope import key_of
from gpu_report.glossary import machine_words
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.comparison import COMPARISON

if TYPE_CHECKING:
    import pandas as pd

MACHINES: Final = "machines"
"""In place of an experiment's name, in findings about machines side by side."""

FASTER: Final = Claim(
    name="faster",
    question="Which machine trains the same configurations faster?",
    threshold="A machine is faster if the whole interval of the ratio of throughputs is above 1 in every configuration"
    " that both measured. The ratio is between machines, not a speedup within one; where software differs too, it is"
    " that of machine and software together.",
    yes="In {all}, {subject} trained faster on {machine} than on {reference}{measured}",
    no="In {all}, {subject} trained more slowly on {machine} than on {reference}{measured}",
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
    least, most = (choose(ratios, key=lambda ratio: ratio.value) for choose in (min, max))
    span = [times(ratio, short=True) for ratio in (least, most)]
    return Outcome(
        verdict="yes" if sides == {"above"} else "no" if sides == {"below"} else "not resolved",
        fields={
            "subject": f"{first['workload_title']} ({device_in_words(first['device'])})",
            "machine": machine_words(first["machine"]),
            "reference": machine_words(first["reference_machine"]),
            "all": phrases.how_many(len(rows), len(rows), "configuration"),
            "span": times(most) if span[0] == span[1] else f"from {span[0]} to {span[1]}",
            "doubt": _doubt(ratios),
            "differences": _differences(rows),
        },
        evidence=tuple(
            phrases.evidence("throughput over the reference machine's", times(ratio), COMPARISON.name, row)
            for row, ratio in zip(rows, ratios, strict=True)
        ),
        key=key_of(key),
    )


def _doubt(ratios: Sequence[Estimate]) -> str:
    """Why the variants together do not resolve it."""
    sides = [ratio.against(1.0) for ratio in ratios]
    if {"above", "below"} <= {*sides}:
        faster = phrases.how_many(sides.count("above"), len(sides), "configuration")
        return f"it was faster in {faster} and slower in {sides.count('below')}"
    if "unclear" not in sides:
        return ""
    why = ratios[sides.index("unclear")].why_unclear("1")
    part = phrases.how_many(sides.count("unclear"), len(sides), "configuration")
    return f"in {part} {why}" if len(sides) > 1 else why


def _differences(rows: Sequence[Row]) -> str:
    """A sentence about what differs besides the machine, each difference with the variants it is true of."""
    counts: dict[str, int] = {}
    for row in rows:
        for difference in filter(None, (part.strip() for part in row["differences"].split(";"))):
            counts[difference] = counts.get(difference, 0) + 1
    if not counts:
        return ""
    parts = [
        difference if count == len(rows) else f"{difference} (in {phrases.how_many(count, len(rows), 'configuration')})"
        for difference, count in counts.items()
    ]
    return f" Other differences: {'; '.join(parts)}."
