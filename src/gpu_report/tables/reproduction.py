"""Whether another measurement reproduces what a bundle claims: the verdicts of `gpu-report
reproduce`, and which configuration to measure next for them.

records, experiments -> Claim; values of each process there and here -> Tested -> Holm over all
claims -> reproduced, contradicted or too close to call

On the same machine the new 95 % interval must be within the claimed one, which two equally good
measurements often miss; so the claimed one is widened by the spread between sessions and by what
does not matter. On other hardware a ratio has another size, and its sign alone is tested.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gpu_report.glossary import QUALITY_TOLERANCE, STATUS_WORDS, TIME_TOLERANCE, Row
from gpu_report.records.record import Record
from gpu_report.study.study import Experiment
from gpu_report.tables.claims import Claim, speed_claims
from gpu_report.tables.processes import same_threads, speedup, values_by_seed
from gpu_report.tables.sessions import Sessions
from gpu_report.tables.statistics import (
    FEWEST_FOR_INTERVAL,
    NOT_MEASURED,
    SIGNIFICANCE,
    BySeed,
    Spread,
    Summary,
    difference,
    holm,
    ratio,
    ratio_of_means,
    summarise,
)
from gpu_report.tables.verdicts import QUALITY, metric_scale, side_of

REPRODUCED: Final = "reproduced"
CONTRADICTED: Final = "contradicted"
TOO_CLOSE: Final = "too close to call"
NOT_TESTED: Final = "not tested"
_CONTRADICTING: Final = 0.01  # it accuses a result, so it takes more than the 5 % of a difference
_MANY: Final = 10_000
_UNKNOWN_SESSIONS: Final = 0.2
"""A difference that sessions may make where their spread is not known: sentinels that the host
limits have differed by 0.14.
"""
_NO_TIME: Final = "no time was left; raise --minutes"
_UNITS: Final = {"speedup": "×", "fastest": "×", "throughput": "samples/s"}

Sides = tuple[BySeed, BySeed]
"""A value of each process of a configuration, and of what it is compared with."""


class Tested(NamedTuple):
    """What was measured of a claim: one is reproduced by an interval from `low` to `high`, and
    contradicted by one wholly outside; of a metric that of its change.

    `change` is from claimed to measured, with the p of none. Where the sign alone is tested it is
    not measured, and has the p of a ratio of 1. `margin` is by which share farther outside it must
    be.
    """

    measured: Summary
    change: Summary
    low: float
    high: float
    margin: float = 0.0


_UNTESTED: Final = Tested(NOT_MEASURED, NOT_MEASURED, math.nan, math.nan)


def weighed(
    claim: Claim,
    then: Sides,
    now: Sides,
    *,
    spread: Spread | None = None,
    is_same_machine: bool = True,
    tolerance: float = TIME_TOLERANCE,
) -> Tested:
    """A claim beside the values that were measured here.

    A metric is compared seed by seed, so that what seeds differ in cancels; its tolerance is in its
    own unit.
    """
    claimed = claim.figure
    if claim.kind == QUALITY:
        measured = summarise([*now[0].values()], scale="linear")
        return Tested(measured, difference(now[0], then[0]), -tolerance, tolerance)
    measured = ratio(*now)
    if not is_same_machine:
        limits = (1.0, math.inf) if claimed.value > 1 else (0.0, 1.0)
        return Tested(measured, replace(NOT_MEASURED, p=measured.p), *limits)
    # Few sessions make the limits no wider, or anything would be reproduced; they raise p.
    widened = ratio(*then, spread=spread and Spread(spread.deviation, _MANY))
    change = ratio_of_means(measured, claimed, spread).mapped(lambda times: times - 1)
    limits = widened.low / (1 + tolerance), widened.high * (1 + tolerance)
    return Tested(measured, change, *limits, margin=0.0 if spread else _UNKNOWN_SESSIONS)


def verdicts_on(tests: Mapping[Claim, Tested]) -> dict[Claim, str]:
    """The verdict on each of all claims that were tested; p is adjusted for all of them (Holm).

    A ratio must also be on the claimed side of 1, and on other hardware significantly so.
    """
    found = {}
    adjusted = holm([test.change.p for test in tests.values()])
    for (claim, test), p in zip(tests.items(), adjusted, strict=True):
        tested = test.change if claim.kind == QUALITY else test.measured
        low, high = tested.low, tested.high
        has_sign = not claim.reference or (low > 1 if claim.figure.value > 1 else high < 1)
        is_sure = test.change.count > 0 or p < SIGNIFICANCE
        if test.low <= low and high <= test.high and has_sign and is_sure:
            found[claim] = REPRODUCED
        else:
            far = 1 + test.margin
            is_outside = high * far < test.low or low / far > test.high
            found[claim] = CONTRADICTED if is_outside and p < _CONTRADICTING else TOO_CLOSE
    return found


def claims_of(
    experiments: Iterable[Experiment],
    records: Mapping[str, Record],
    sessions: Sessions,
    *,
    is_same_machine: bool,
) -> list[Claim]:
    """What the records show significantly about speed, each claim once; on the same machine also
    the throughput and the held-out metric of each configuration, with an interval.
    """
    found = {
        (claim.kind, *sorted(claim.sides)): claim
        for each in experiments
        for claim in speed_claims(
            each, lambda one, other: speedup(records[one.slug], records[other.slug], sessions)
        )
        if claim.is_significant
    }
    for slug, record in records.items() if is_same_machine else ():
        speeds, metrics = (
            [*values_by_seed(record, name).values()] for name in ("throughput_per_s", "quality")
        )
        of_one = (
            Claim(kind="throughput", variant=slug, figure=summarise(speeds)),
            Claim(kind=QUALITY, variant=slug, figure=summarise(metrics, scale="linear")),
        )
        found |= {
            (claim.kind, slug): claim
            for claim in of_one
            if claim.figure.count >= FEWEST_FOR_INTERVAL
        }
    return [*found.values()]


def why_not_testable(claim: Claim, before: Mapping[str, Record], known: Mapping[str, str]) -> str:
    """Why nothing that is measured here can test a claim, with what is `known` of some
    configurations, or the quality flags of the bundle; empty if it can.
    """
    flags = [
        f"{mark} in the bundle"
        for side in sorted(claim.needs)
        if claim.kind != QUALITY
        for mark in side_of(before[side]).doubts
    ]
    return next(iter([*(known[side] for side in sorted(claim.needs & known.keys())), *flags]), "")


def tabulate_reproduction(
    claims: Iterable[Claim],
    before: Mapping[str, Record],
    here: Mapping[str, Record],
    *,
    untestable: Mapping[str, str],
    sessions: Sessions,
    is_same_machine: bool,
) -> dict[Claim, Row]:
    """A row of VERDICTS for each claim: `before` is what was claimed, `after` what was measured.

    `untestable` says of some configurations why they cannot be measured here.
    """
    tests: dict[Claim, Tested] = {}
    why: dict[Claim, str] = {}
    for claim in claims:
        stopped = [
            f"{STATUS_WORDS[here[side].status]} here: {here[side].reason}"
            for side in sorted(claim.needs & here.keys())
            if here[side].status != "ok"
        ]
        reason = why_not_testable(claim, before, untestable)
        if reason or stopped or not here.keys() >= claim.needs:
            why[claim] = [*filter(None, [reason]), *stopped, _NO_TIME][0]
            continue
        tests[claim] = _weighed_records(
            claim, before, here, sessions=sessions, is_same_machine=is_same_machine
        )
        why[claim] = _doubt(claim, tests[claim], before, here)
    adjusted = dict(zip(tests, holm([test.change.p for test in tests.values()]), strict=True))
    verdicts = verdicts_on(tests)
    rows: dict[Claim, Row] = {}
    for claim, reason in why.items():
        test, facts = tests.get(claim, _UNTESTED), before[claim.variant].workload
        unit = _UNITS.get(claim.kind) or (facts.quality_name if facts else "")
        rows[claim] = {
            "configuration": claim.variant,
            "compared": claim.kind,
            "unit": " ".join(unit.split()),
            **claim.figure.as_columns("before"),
            **test.measured.as_columns("after"),
            **test.change.as_columns("change"),
            "p": adjusted.get(claim, math.nan),
            "detectable": math.nan,
            "verdict": NOT_TESTED
            if claim not in tests
            else TOO_CLOSE
            if reason
            else verdicts[claim],
            "why": reason,
        }
    return rows


def _weighed_records(
    claim: Claim,
    before: Mapping[str, Record],
    here: Mapping[str, Record],
    *,
    sessions: Sessions,
    is_same_machine: bool,
) -> Tested:
    tolerance = TIME_TOLERANCE
    if claim.kind == QUALITY:
        tolerance = QUALITY_TOLERANCE * metric_scale(
            *(side_of(records[claim.variant]) for records in (before, here))
        )
    then, now = (_values(claim, records) for records in (before, here))
    return weighed(
        claim,
        then,
        now,
        spread=sessions.spread_of(*then),
        is_same_machine=is_same_machine,
        tolerance=tolerance,
    )


def _doubt(
    claim: Claim, test: Tested, before: Mapping[str, Record], here: Mapping[str, Record]
) -> str:
    """Why no verdict follows from a test: quality flags here, a metric that is not finite, or a
    rival of the fastest that is faster here.
    """
    if claim.kind == QUALITY:
        return "" if math.isfinite(test.change.value) else "not finite or not measured here"
    found = [f"{mark} here" for side in sorted(claim.needs) for mark in side_of(here[side]).doubts]
    if not all(same_threads(here[side], before[side]) for side in claim.needs):
        found.append("a different thread setting here")
    first = values_by_seed(here[claim.variant], "throughput_per_s")
    found += [
        f"{rival} is faster here"
        for rival in sorted(claim.rivals)
        if ratio(values_by_seed(here[rival], "throughput_per_s"), first).low > 1
    ]
    return "; ".join(dict.fromkeys(found))


def _values(claim: Claim, records: Mapping[str, Record]) -> Sides:
    if claim.kind == QUALITY:
        return values_by_seed(records[claim.variant], "quality"), {}
    speeds = values_by_seed(records[claim.variant], "throughput_per_s")
    if not claim.reference:
        return speeds, dict.fromkeys(speeds, 1.0)
    return speeds, values_by_seed(records[claim.reference], "throughput_per_s")


def wanting(
    rows: Mapping[Claim, Row], before: Mapping[str, Record], here: Mapping[str, Record]
) -> list[frozenset[str]]:
    """For each claim that further processes may decide its configurations with fewer of them, as
    long as the bundle has more.
    """
    counts = {slug: len(record.repetitions) for slug, record in here.items()}
    return [
        frozenset(
            side for side in claim.behind(counts) if counts[side] < len(before[side].repetitions)
        )
        for claim, row in rows.items()
        if row["verdict"] == TOO_CLOSE and not row["why"]
    ]


def most_useful(
    wanted: Sequence[frozenset[str]], seconds: Mapping[str, float], left_s: float
) -> str | None:
    """The configuration to measure next, where `wanted` has for each claim those that it waits for:
    one of the claim with which most claims per second are served; None where no claim fits into the
    time that is left.
    """
    costs_s = {sides: sum(seconds[side] for side in sides) for sides in wanted if sides}
    fitting = [sides for sides, cost_s in costs_s.items() if cost_s <= left_s]
    best = max(
        fitting,
        key=lambda sides: sum(each <= sides for each in wanted if each) / costs_s[sides],
        default=None,
    )
    return min(best) if best else None
