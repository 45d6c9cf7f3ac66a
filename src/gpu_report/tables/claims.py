"""What experiments claim: by which factor a configuration trains faster than its baseline, and
which is the fastest.

experiment, throughput of each process -> Claim with its interval and p, adjusted by Holm -> which
configurations need further processes

A study with a time budget looks at its claims after three processes and again after each further
one. A claim counts as decided before all processes are measured only at `EARLY`, so that all looks
before the last together add little to the 5 % at which the last one decides (Haybittle 1971; Peto
et al., British Journal of Cancer 1976). One that all processes would not decide, as its interval is
too wide, gets no further one either; that is judged by the p that is not adjusted, which more
processes do lower.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, Literal

from gpu_report.records.batch_sizes import SearchRecord
from gpu_report.records.record import Record
from gpu_report.study.study import Experiment
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import grouped
from gpu_report.tables.experiments import baselines_of
from gpu_report.tables.processes import preparation_cold_s, speedup
from gpu_report.tables.sessions import Sessions
from gpu_report.tables.statistics import SIGNIFICANCE, Summary, holm

FIRST_PROCESSES: Final = 3
"""Of every configuration, before any gets a further one; the fewest with an interval."""
EARLY: Final = 0.005
"""Below this p, adjusted, a claim is decided before all processes are measured."""
HOPELESS: Final = 2.0
"""A claim that would need this multiple of the processes that the study asks for gets no more."""
Z: Final = NormalDist().inv_cdf(1 - SIGNIFICANCE / 2)

ClaimKind = Literal["speedup", "fastest", "throughput", "held-out metric"]
"""Those of a single configuration have no reference and no experiment; only another measurement on
the same machine can test them.
"""
Compare = Callable[[Variant, Variant], Summary]
"""The throughput of the first over that of the second, with its p."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """That a configuration trains faster or slower than another, by the figure's value; or what it
    reaches alone.

    The p of the figure is adjusted for the other claims of its experiment; `own_p` is not.
    """

    kind: ClaimKind
    experiment: str = ""
    variant: str
    reference: str = ""
    figure: Summary
    own_p: float = math.nan
    rivals: frozenset[str] = frozenset()
    """Of the fastest of a group, the others in it but for the next."""

    @property
    def sides(self) -> frozenset[str]:
        """The configurations that it is about."""
        return frozenset(filter(None, (self.variant, self.reference)))

    @property
    def needs(self) -> frozenset[str]:
        """The configurations that another measurement of it needs."""
        return self.sides | self.rivals

    def behind(self, counts: Mapping[str, int]) -> list[str]:
        """The side with fewer processes, or both."""
        least = min(counts[side] for side in self.sides)
        return [side for side in sorted(self.sides) if counts[side] == least]

    @property
    def is_significant(self) -> bool:
        """Whether it differs from 1, by the level of the report."""
        return self.figure.p < SIGNIFICANCE

    def is_open(self, processes: int, asked: int) -> bool:
        """Whether further processes are worth their time: no look has decided it, and those that
        are left may; both sides have as many `processes`, or more.
        """
        if processes >= asked or not self.figure.count or self.figure.p < EARLY:
            return False
        if math.isnan(self.own_p):
            return True
        z = NormalDist().inv_cdf(self.own_p / 2)
        return z**2 * HOPELESS * asked >= Z**2 * processes


def speed_claims(experiment: Experiment, compare: Compare) -> list[Claim]:
    """Each variant over its baseline, adjusted for one another, and in each group the fastest over
    the next.
    """
    pairs = {
        variant: baseline
        for variant, baseline in baselines_of(experiment).items()
        if baseline is not None and baseline is not variant
    }
    found = {variant: compare(variant, baseline) for variant, baseline in pairs.items()}
    adjusted = holm([each.p for each in found.values()])
    claims = [
        Claim(
            kind="speedup",
            experiment=experiment.name,
            variant=variant.slug,
            reference=pairs[variant].slug,
            figure=replace(figure, p=p),
            own_p=figure.p,
        )
        for (variant, figure), p in zip(found.items(), adjusted, strict=True)
    ]
    for baseline, group in grouped(found, pairs.__getitem__).items():
        rates = {variant: found[variant].value for variant in group if found[variant].count}
        rates[baseline] = 1.0
        first, *others = sorted(rates, key=rates.__getitem__, reverse=True)
        if others and baseline not in (first, others[0]):
            figure = compare(first, others[0])
            claims.append(
                Claim(
                    kind="fastest",
                    experiment=experiment.name,
                    variant=first.slug,
                    reference=others[0].slug,
                    figure=figure,
                    own_p=figure.p,
                    rivals=frozenset(each.slug for each in others[1:]),
                )
            )
    return claims


def open_claims(
    experiments: Iterable[Experiment], records: Mapping[str, Record], sessions: Sessions
) -> list[Claim]:
    """The claims of these experiments that further processes may decide, the nearest to being
    decided first; the records of their variants are given by name.
    """

    def compare(one: Variant, other: Variant) -> Summary:
        return speedup(records[one.slug], records[other.slug], sessions)

    found = [
        claim
        for experiment in experiments
        for claim in speed_claims(experiment, compare)
        if claim.is_open(
            min(len(records[side].repetitions) for side in claim.sides),
            min(asked_processes(records[side]) for side in claim.sides),
        )
    ]
    return sorted(found, key=lambda claim: claim.figure.p)


def wanting(claims: Iterable[Claim], counts: Mapping[str, int]) -> list[str]:
    """The configurations whose next process helps these claims, in their order."""
    return [*dict.fromkeys(side for claim in claims for side in claim.behind(counts))]


def asked_processes(record: Record) -> int:
    """As many as its protocol asks for; a time budget may have left it with fewer."""
    return record.measurement["protocol"]["repetitions"]


def is_short(record: Record) -> bool:
    """Whether it has fewer processes than were asked for, though all went well."""
    return record.status == "ok" and len(record.repetitions) < asked_processes(record)


def spent_s(measured: Iterable[Record | SearchRecord]) -> float:
    """Seconds that measuring these took."""
    return sum(each.provenance.measuring_s or 0.0 for each in measured)


def process_s(record: Record) -> float:
    """Seconds that each of its processes took, the profiled one as the others."""
    return spent_s([record]) / max(len(record.repetitions) + (record.profile is not None), 1)


def further_process_s(record: Record) -> float:
    """An estimate of how long one more process takes, which compiles with an empty cache."""
    cold_s = preparation_cold_s(record)
    return process_s(record) + (cold_s if cold_s > 0 else 0.0)


def seconds_to_complete(claims: Iterable[Claim], records: Mapping[str, Record]) -> float:
    """An estimate of how long all processes take that these claims lack."""
    sides = {side for claim in claims for side in claim.sides}
    return sum(
        (asked_processes(record) - len(record.repetitions)) * further_process_s(record)
        for record in map(records.__getitem__, sides)
    )
