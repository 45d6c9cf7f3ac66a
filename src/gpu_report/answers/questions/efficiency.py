"""The question about the ceilings of the hardware: how near do trainings come to them (C5)?"""

from collections.abc import Iterator
from typing import Final

from gpu_report.answers.estimate import Estimate, estimate
from gpu_report.answers.phrases import shown
from gpu_report.answers.question import HALF, Answer, decided, evidence_of, missing, question
from gpu_report.answers.scope import EFFICIENCY, Group, Scope, key_of
from gpu_report.glossary import Row
from gpu_report.tables.bundle import grouped
from gpu_report.words import device_in_words

_SHARE: Final = "share_of_peak"


def share_of_roof(row: Row) -> Estimate:
    """Achieved over roof, with the interval of the throughput alone."""
    roof = float(row["roof_flops_per_s"])
    return estimate(row, "achieved_flops_per_s").mapped(lambda achieved: min(1.0, achieved / roof))


@question("Does any training reach half of the device's measured peak?", EFFICIENCY)
def nearest(scope: Scope) -> Iterator[Answer]:
    """Half of the rate of a large matrix product in the same precision, intervals included: beyond
    it, no change of the program that keeps its arithmetic can make it twice as fast.
    """
    for device, rows in grouped(scope.rows, lambda row: row["device"]).items():
        group = Group(
            title=device_in_words(device),
            key=key_of(device),
            axis="",
            table=scope.table,
            rows=tuple(rows),
        )
        known = sorted(
            (row for row in rows if estimate(row, _SHARE).known), key=lambda row: float(row[_SHARE])
        )
        if not known:
            yield missing(group, "no share of its peak is known")
            continue
        least, most = known[0], known[-1]
        yield decided(
            group,
            estimate(most, _SHARE),
            limit=HALF,
            limit_in_words="50 %",
            yes=f"At least one configuration reached half of the measured peak of {group.title}",
            no=f"No configuration reached half of the measured peak of {group.title}",
            whether=f"a training reaches half of the measured peak of {group.title}",
            measured=f": {group.words(most)} reached the most, {shown(most, _SHARE)} of the "
            f"{most['precision']} peak; {group.words(least)} the least, "
            f"{shown(least, _SHARE, short=True)} of the {least['precision']} peak.",
            evidence=evidence_of(group, {_SHARE: "share of the measured peak"}, [most, least]),
        )
