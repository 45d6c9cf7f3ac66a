"""What experiments claim: that a configuration trains so many times as fast as its baseline, and
that one is the fastest.

experiment, throughput of each process -> Claim with its interval and p, adjusted by Holm -> which
configurations need further processes

A study with a time budget looks at its claims after three processes and again after each further
one. A claim counts as decided before all processes are measured only at `EARLY`, so that all looks
before the last together add little to the 5 % at which the last one decides (Haybittle 1971; Peto
et al., British Journal of Cancer 1976). One whose sign would stay open in all processes that the
study asks for, as its interval is too wide, gets no further one either.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, Literal

from gpu_report.study.study import Experiment
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import grouped
from gpu_report.tables.experiments import baselines_of
from gpu_report.tables.statistics import SIGNIFICANCE, Summary, holm

FIRST_PROCESSES: Final = 3
"""Of every configuration, before any gets a further one; the fewest with an interval."""
EARLY: Final = 0.005
"""Below this p, adjusted, a claim is decided before all processes are measured."""
HOPELESS: Final = 2.0
"""A claim that would need so many times the processes that the study asks for stays open."""
_Z: Final = NormalDist().inv_cdf(1 - SIGNIFICANCE / 2)

ClaimKind = Literal["speedup", "fastest"]
Compare = Callable[[Variant, Variant], Summary]
"""The throughput of the first over that of the second, with its p."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """That a configuration trains faster or slower than another, by the figure's value."""

    kind: ClaimKind
    experiment: str
    variant: str
    reference: str
    figure: Summary

    def is_open(self, counts: Mapping[str, int], asked: int) -> bool:
        """Whether further processes could decide it: no look has, and not so few are left that the
        last would not either.
        """
        measured = min(counts[self.variant], counts[self.reference])
        if measured >= asked or not self.figure.count:
            return False
        p = self.figure.p
        if math.isnan(p):
            return True
        if p < EARLY:
            return False
        z = NormalDist().inv_cdf(1 - p / 2)
        return measured * (_Z / z) ** 2 <= HOPELESS * asked if z > 0 else False


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
    compared: list[tuple[ClaimKind, Variant, Variant, Summary]] = [
        ("speedup", variant, pairs[variant], replace(figure, p=p))
        for (variant, figure), p in zip(found.items(), adjusted, strict=True)
    ]
    for baseline, group in grouped(found, pairs.__getitem__).items():
        rates = {variant: found[variant].value for variant in group if found[variant].count}
        rates[baseline] = 1.0
        first, *others = sorted(rates, key=rates.__getitem__, reverse=True)
        if others and baseline not in (first, others[0]):
            compared.append(("fastest", first, others[0], compare(first, others[0])))
    return [
        Claim(
            kind=kind,
            experiment=experiment.name,
            variant=variant.slug,
            reference=reference.slug,
            figure=figure,
        )
        for kind, variant, reference, figure in compared
    ]


def wanting(claims: Iterable[Claim], counts: Mapping[str, int], asked: int) -> list[str]:
    """The configurations whose next process helps an open claim: of the claim that is nearest to
    being decided first, and of its two sides the one with fewer processes, or both.
    """
    nearest = sorted(
        (claim for claim in claims if claim.is_open(counts, asked)),
        key=lambda claim: claim.figure.p,
    )
    found: dict[str, None] = {}
    for claim in nearest:
        sides = (claim.variant, claim.reference)
        least = min(counts[side] for side in sides)
        found |= dict.fromkeys(side for side in sides if counts[side] == least)
    return [*found]
