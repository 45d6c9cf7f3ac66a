"""Rules about the hardware: how near trainings come to its ceilings (C5), how fast copies are (B1), its limits (C8)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate, listed, ratio_of
from gpu_report.findings.finding import Evidence
from gpu_report.findings.phrases import Named, device_in_words, model_in_words
from gpu_report.findings.rule import HALF, Compared, Comparison, Outcome, Rule, not_measured
from gpu_report.findings.scope import EFFICIENCY, ENERGY, TRANSFER, Group, Scope, key_of
from gpu_report.number_format import size
from gpu_report.tables.marks import MEANINGS, marks_in

FAR: Final = 0.1
PINNED: Final = "pinned"
PAGEABLE: Final = "pageable"
HELD_BACK: Final = ("throttled", "power capped", "clock drift", "shared device")
"""Marks of anything that lowered or moved the accelerator's speed."""

_ROOFS: Final = {"compute": "arithmetic", "memory": "the device's memory"}
_WAYS: Final = {"to device": "to {}", "to host": "from {} to the host"}


def _devices(scope: Scope) -> list[Group]:
    """The variants by device."""
    return [
        Group(
            title=device_in_words(device),
            key=key_of(device),
            axis="",
            table=scope.table,
            rows=tuple(row for row in scope.rows if row["device"] == device),
        )
        for device in dict.fromkeys(row["device"] for row in scope.rows)
    ]


def _farthest_and_nearest(group: Group) -> tuple[Row, Row] | None:
    known = [row for row in group.rows if estimate(row, "share_of_peak").known]
    farthest, nearest = (choose(known, key=_share_of_peak, default=None) for choose in (min, max))
    return (farthest, nearest) if farthest and nearest else None


def _share_of_peak(row: Row) -> float:
    return float(row["share_of_peak"])


def share_of_roof(row: Row) -> Estimate:
    """Achieved over roof, with the interval of the throughput alone."""
    roof = float(row["roof_flops_per_s"])
    return estimate(row, "achieved_flops_per_s").mapped(lambda achieved: min(1.0, achieved / roof))


def passes_roof(row: Row) -> bool:
    """Whether it took less time than its counted work needs, so that this is no roof of what it did."""
    return bool(row["achieved_flops_per_s"] > row["roof_flops_per_s"])


def _bound(scope: Scope) -> Iterable[Outcome]:
    """Of each model on each device the variant that comes nearest to its roof."""
    best: dict[tuple[str, str, str], Row] = {}
    for row in scope.rows:
        place = (row["device"], row["workload"], row["size"])
        if row["roof_flops_per_s"] > 0 and row["achieved_flops_per_s"] > 0:
            best[place] = max(
                best.get(place, row), row, key=lambda one: 0.0 if passes_roof(one) else share_of_roof(one).value
            )
    found = [_bound_on(group) for group in _devices(replace(scope, rows=tuple(best.values())))]
    return found or [not_measured("what bounds the trainings", "no variant has a roof")]


def _bound_on(group: Group) -> Outcome:
    shares = [(row, share_of_roof(row)) for row in group.rows if not passes_roof(row)]
    bound = [row for row, share in shares if share.against(HALF) == "above"]
    unclear = [share for _, share in shares if share.against(HALF) == "unclear"]
    by_roof: dict[str, list[str]] = {}
    for row, share in shares:
        told = f"{model_in_words(row)} {phrases.as_share(share, short=True)}"
        by_roof.setdefault(row["roof"], []).append(told)
    return Outcome(
        verdict="yes" if bound else "not resolved" if unclear or not shares else "no",
        fields={
            "device": group.title,
            "bound": _models(bound),
            "shares": "; ".join(f"at that of {_ROOFS[roof]} {', '.join(told)}" for roof, told in by_roof.items()),
            "rest": _rest(shares, beyond=[row for row in group.rows if passes_roof(row)]),
            "doubt": unclear[0].why_unclear("50 %") if unclear else "each took less time than its roof allows",
        },
        evidence=tuple(
            phrases.evidence(
                f"share of the roof, which is that of {_ROOFS[row['roof']]}", phrases.as_share(share), group.table, row
            )
            for row, share in sorted(shares, key=lambda pair: -pair[1].value)
        ),
        key=group.key,
    )


def _models(rows: Iterable[Row]) -> str:
    return listed([model_in_words(row) for row in rows] or ["none"])


def _rest(shares: Iterable[tuple[Row, Estimate]], *, beyond: Sequence[Row]) -> str:
    """What the shares that are near nothing mean, and what is `beyond` its roof."""
    far = [row for row, share in shares if share.against(FAR) == "below"]
    told = ""
    if far:
        told += (
            f" Nearly all the time of {_models(far)} goes by with neither at its ceiling, as when starting operations,"
            " the host or waiting for data bounds a step."
        )
    if beyond:
        told += (
            f" Less than the ceiling's time was taken by {_models(beyond)}: the ceiling is that of operations and"
            " bytes counted one operator at a time, and caches and fused operations spare the memory some of them."
        )
    return told


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


def _of_peak(row: Row) -> Estimate:
    """The bandwidth over the highest of its direction."""
    peak = row["bandwidth_gb_per_s"] / row["share_of_peak"]
    return estimate(row, "bandwidth_gb_per_s").mapped(lambda rate: rate / peak)


def _pinned_of_known_share(group: Group) -> list[Row]:
    return [row for row in group.rows if row["memory"] == PINNED and _of_peak(row).known]


def _largest_and_smallest_pinned(group: Group) -> tuple[Row, Row] | None:
    pinned = _pinned_of_known_share(group)
    return (pinned[-1], pinned[0]) if len(pinned) > 1 else None


def _half_of_peak(compared: Compared) -> dict[str, Any]:
    rows = compared.group.rows
    pinned = _pinned_of_known_share(compared.group)
    fast = next((row for row in pinned if _of_peak(row).against(HALF) == "above"), None)
    highest = max(rows, key=lambda row: float(row["bandwidth_gb_per_s"]))
    return {
        "way": compared.group.title.removeprefix("copies "),
        "smallest": size(compared.after["bytes"]).plain(),
        "highest": Named(highest),
        "fast": f"half of that takes copies of {size(fast['bytes']).plain()}" if fast else "no size reached half",
    }


def _pageable_and_pinned(group: Group) -> tuple[Row, Row] | None:
    """Of the largest size that was copied from both."""
    pinned, pageable = (
        {row["bytes"]: row for row in group.rows if row["memory"] == memory} for memory in (PINNED, PAGEABLE)
    )
    both = sorted(pinned.keys() & pageable.keys())
    return (pageable[both[-1]], pinned[both[-1]]) if both else None


def _bandwidths(rows: Iterable[Row]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            label=f"bandwidth {row['direction']}, {row['memory']}, {size(row['bytes']).plain()}",
            value=phrases.of_column(row, "bandwidth_gb_per_s"),
            table=TRANSFER + "s",
            variant="",
        )
        for row in rows
        if estimate(row, "bandwidth_gb_per_s").known
    )


def _held_back(scope: Scope) -> Iterable[Outcome]:
    watched = [row for row in scope.rows if row["power_w"] > 0]
    if not watched:
        return [not_measured("what held the accelerator back", "its driver told nothing")]
    marked = {mark: [row for row in watched if mark in marks_in(row["marks"])] for mark in HELD_BACK}
    affected = {mark: rows for mark, rows in marked.items() if rows}
    return [
        Outcome(
            verdict="yes" if affected else "no",
            fields={
                "marks": "; ".join(
                    f"{phrases.how_many(len(rows), len(watched), 'variant')} {mark} ({MEANINGS[mark]})"
                    for mark, rows in affected.items()
                ),
                "watched": phrases.how_many(len(watched), len(watched), "variant"),
            },
            evidence=tuple(
                phrases.evidence("marks", ", ".join(marks_in(row["marks"])), "variants", row)
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
        threshold="Half of the rate of a large matrix product in the same precision, intervals included: beyond it, no"
        " change of the program that keeps its arithmetic can make it twice as fast.",
        test=Comparison(
            groups=_devices,
            choose=_farthest_and_nearest,
            figure=lambda nearest, _: estimate(nearest, "share_of_peak"),
            limit=HALF,
            limit_in_words="50 %",
            lacking="no share of its peak is known",
            evidence={"share_of_peak": "share of the measured peak"},
        ),
        yes="{subject} is used well by {after}, which reached {after.share_of_peak} of the measured peak in"
        " {after.precision}; {before} reached least, {before.share_of_peak:short}.",
        no="No training came near the measured peak of {subject}: {after} reached most, {after.share_of_peak} of"
        " that in {after.precision}, and {before} least, {before.share_of_peak:short}.",
        unresolved="Whether a training reaches half of the measured peak of {subject}",
        measured=": {after} reached {after.share_of_peak} of that in {after.precision}.",
    ),
    Rule(
        name="bound",
        about=EFFICIENCY,
        question="Does arithmetic or memory bound any workload?",
        threshold="One does if the roof, the lower of the two ceilings, accounts for at least half of a step's time,"
        " the interval of the throughput included. Below a tenth, nine tenths of the time go by with neither at its"
        " ceiling.",
        test=_bound,
        yes="A ceiling bounds {bound} on {device}{measured}",
        no="No ceiling bounds a workload on {device}{measured}",
        unresolved="Whether a ceiling bounds a workload on {device}",
        measured=". At its lower ceiling a step would take this part of the time that it took, in the variant of each"
        " workload that comes nearest: {shares}.{rest}",
    ),
    Rule(
        name="small_copies",
        about=TRANSFER,
        question="Do small copies waste the link between host and device?",
        threshold="They waste it if the smallest size, from pinned memory, reaches less than half of the highest"
        " bandwidth of its direction, intervals included: then starting a copy takes longer than the copy.",
        test=Comparison(
            groups=_ways,
            choose=_largest_and_smallest_pinned,
            figure=lambda smallest, _: _of_peak(smallest),
            limit=HALF,
            limit_in_words="half of the peak",
            holds="below",
            lacking="it takes two sizes from pinned memory",
            evidence=lambda compared: _bandwidths(_pinned_of_known_share(compared.group)),
            more=_half_of_peak,
        ),
        yes="Small {subject} waste the link: those of {smallest} reached {figure:%short} of the highest bandwidth,"
        " {highest.bandwidth_gb_per_s:short}; {fast}.",
        no="Even copies of {smallest} {way} reached {figure:%short} of the highest bandwidth,"
        " {highest.bandwidth_gb_per_s:short}.",
        unresolved="Whether small {subject} waste the link",
        measured=": those of {smallest} reached {figure:%short} of the highest bandwidth,"
        " {highest.bandwidth_gb_per_s:short}.",
    ),
    Rule(
        name="pinned",
        about=TRANSFER,
        question="Does pinned memory make copies faster?",
        threshold="It does if the ratio of both bandwidths at the largest size is above 1 with the most and the least"
        " that their intervals allow. What a training gains is another question, told where it was trained with it.",
        test=Comparison(
            groups=_ways,
            choose=_pageable_and_pinned,
            figure=ratio_of("bandwidth_gb_per_s"),
            lacking="no size was copied from both kinds of memory",
            unknown="their bandwidth is not known",
            evidence=lambda compared: _bandwidths([compared.before, compared.after]),
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
        question="Was the accelerator held back or shared while it was measured?",
        threshold="It was if one variant carries a mark that says so. Under a cap on power a device works as it always"
        " does under full load; heat and other programs make its times unfit for a decision.",
        test=_held_back,
        yes="Marked were {marks}.",
        no="Nothing held the accelerator back: no mark of {watched} that its driver was watched with tells of heat, a"
        " cap on power, moving clocks or other programs.",
    ),
)
