"""Rules about the hardware: how near trainings come to its ceilings (C5), how fast copies are (B1),
its limits (C8).
"""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, estimate, ratio_of
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import HALF, Comparison, Outcome, Rule, not_measured
from gpu_report.findings.scope import EFFICIENCY, ENERGY, TRANSFER, Group, Scope, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import size
from gpu_report.tables.marks import MEANINGS, marks_in
from gpu_report.words import device_in_words

PINNED: Final = "pinned"
PAGEABLE: Final = "pageable"
HELD_BACK: Final = ("throttled", "power capped", "clock drift", "shared device")
"""Quality flags of anything that lowered or moved the GPU's speed."""

_WAYS: Final = {"to device": "to {}", "to host": "from {} to the host"}


def _farthest_and_nearest(group: Group) -> tuple[Row, Row] | None:
    known = [row for row in group.rows if estimate(row, "share_of_peak").known]
    farthest, nearest = (
        choose(known, key=lambda row: float(row["share_of_peak"]), default=None)
        for choose in (min, max)
    )
    return (farthest, nearest) if farthest and nearest else None


def share_of_roof(row: Row) -> Estimate:
    """Achieved over roof, with the interval of the throughput alone."""
    roof = float(row["roof_flops_per_s"])
    return estimate(row, "achieved_flops_per_s").mapped(lambda achieved: min(1.0, achieved / roof))


def passes_roof(row: Row) -> bool:
    """Whether it took less time than its counted work needs, so that its roof does not hold."""
    return bool(row["achieved_flops_per_s"] > row["roof_flops_per_s"])


def _ways(scope: Scope) -> list[Group]:
    """The copies by device and direction, by growing size."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(scope.rows, key=lambda row: int(row["bytes"])):
        found.setdefault((row["device"], row["direction"]), []).append({**row, "status": "ok"})
    return [
        Group(
            title=f"copies {_WAYS[direction].format(device_in_words(device))}",
            key=key_of(f"{device} {direction}"),
            axis="bytes",
            table=scope.table,
            rows=tuple(rows),
        )
        for (device, direction), rows in found.items()
    ]


def _pageable_and_pinned(group: Group) -> tuple[Row, Row] | None:
    """Of the largest size that was copied from both."""
    pinned, pageable = (
        {row["bytes"]: row for row in group.rows if row["memory"] == memory}
        for memory in (PINNED, PAGEABLE)
    )
    both = sorted(pinned.keys() & pageable.keys())
    return (pageable[both[-1]], pinned[both[-1]]) if both else None


def _held_back(scope: Scope) -> Iterable[Outcome]:
    watched = [row for row in scope.rows if row["power_w"] > 0]
    if not watched:
        return [not_measured("what slowed the GPU", "its driver reported nothing")]
    marked = {
        mark: [row for row in watched if mark in marks_in(row["marks"])] for mark in HELD_BACK
    }
    affected = {mark: rows for mark, rows in marked.items() if rows}
    return [
        Outcome(
            verdict="yes" if affected else "no",
            fields={
                "marks": "; ".join(
                    f"{mark} in {phrases.how_many(len(rows), len(watched), 'configuration')} "
                    f"({MEANINGS[mark]})"
                    for mark, rows in affected.items()
                ),
                "watched": phrases.how_many(len(watched), len(watched), "configuration"),
            },
            evidence=tuple(
                phrases.evidence(
                    "quality flags", ", ".join(marks_in(row["marks"])), "variants", row
                )
                for row in watched
                if any(row in rows for rows in affected.values())
            ),
        )
    ]


RULES: Final = (
    Rule(
        name="nearest",
        about=EFFICIENCY,
        question="Does any training reach half of the device's measured peak?",
        threshold="Half of the rate of a large matrix product in the same precision, intervals "
        "included: beyond it, no change of the program that keeps its arithmetic can make it "
        "twice as fast.",
        test=Comparison(
            groups=lambda scope: [
                Group(
                    title=device_in_words(device),
                    key=key_of(device),
                    axis="",
                    table=scope.table,
                    rows=tuple(row for row in scope.rows if row["device"] == device),
                )
                for device in dict.fromkeys(row["device"] for row in scope.rows)
            ],
            choose=_farthest_and_nearest,
            figure=lambda nearest, _: estimate(nearest, "share_of_peak"),
            limit=HALF,
            limit_in_words="50 %",
            lacking="no share of its peak is known",
            evidence={"share_of_peak": "share of the measured peak"},
        ),
        yes="{after} reached the most, {after.share_of_peak} of the measured {after.precision} "
        "peak of {subject}; {before} the least, {before.share_of_peak:short} of the "
        "{before.precision} peak.",
        no="No training reached half of the measured peak of {subject}: {after} reached the most, "
        "{after.share_of_peak} in {after.precision}, {before} the least, "
        "{before.share_of_peak:short} in {before.precision}.",
        unresolved="Whether a training reaches half of the measured peak of {subject}",
        measured=": {after} reached {after.share_of_peak} of that in {after.precision}.",
    ),
    Rule(
        name="pinned",
        about=TRANSFER,
        question="Does pinned memory make copies faster?",
        threshold="It does if the ratio of both bandwidths at the largest size is above 1, "
        "intervals included. What a training gains from it is another question.",
        test=Comparison(
            groups=_ways,
            choose=_pageable_and_pinned,
            figure=ratio_of("bandwidth_gb_per_s"),
            lacking="no size was copied from both kinds of memory",
            unknown="their bandwidth is not known",
            evidence=lambda compared: tuple(
                Evidence(
                    label=f"bandwidth {row['direction']}, {row['memory']}, "
                    f"{size(row['bytes']).plain()}",
                    value=phrases.of_column(row, "bandwidth_gb_per_s"),
                    table=TRANSFER + "s",
                    variant="",
                )
                for row in [compared.before, compared.after]
                if estimate(row, "bandwidth_gb_per_s").known
            ),
            more=lambda compared: {"size": size(compared.after["bytes"]).plain()},
        ),
        yes="Pinned memory made {subject} faster{measured}",
        no="Pinned memory made {subject} slower{measured}",
        unresolved="Whether pinned memory makes {subject} faster",
        measured=": {after.bandwidth_gb_per_s:short} with copies of {size}, {figure} the"
        " {before.bandwidth_gb_per_s:short} from pageable memory.",
    ),
    Rule(
        name="held_back",
        about=ENERGY,
        question="Was the GPU slowed down or shared while it was measured?",
        threshold="It was if one configuration has a quality flag that says so. Under a power cap "
        "a device works as it always does under full load; heat and other programs invalidate its "
        "times.",
        test=_held_back,
        yes="Quality flags: {marks}.",
        no="In {watched} whose GPU was watched, there was no sign of heat, a power cap, drifting "
        "clocks or other programs.",
    ),
)
