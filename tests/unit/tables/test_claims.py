"""What experiments claim, and which of their claims further processes can decide."""

import math
from dataclasses import replace

import pytest

from gpu_report.study.study import Experiment
from gpu_report.study.variant import Variant
from gpu_report.tables.claims import EARLY, Claim, speed_claims, wanting
from gpu_report.tables.statistics import SIGNIFICANCE, Summary

SLUGS = [f"unet-128px-cuda-b{size}-w0-fp32-e3" for size in (8, 16, 32)]
BASELINE, SECOND, FIRST = map(Variant.from_slug, SLUGS)
EXPERIMENT = Experiment(
    name="batch_size",
    question="Which?",
    axis="batch_size",
    baseline=8,
    variants=(BASELINE, SECOND, FIRST),
)
RATES = {BASELINE: 100.0, SECOND: 150.0, FIRST: 200.0}


def compare(one: Variant, other: Variant, p: float = 0.02) -> Summary:
    value = RATES[one] / RATES[other]
    return Summary(value=value, low=value - 0.1, high=value + 0.1, count=5, p=p)


def claim(p: float) -> Claim:
    figure = Summary(value=1.2, low=1.0, high=1.4, count=3, p=p)
    return Claim(
        kind="speedup",
        experiment="x",
        variant=SLUGS[1],
        reference=SLUGS[0],
        figure=figure,
        own_p=p,
    )


def test_speedups_are_adjusted_for_one_another_and_the_fastest_is_compared_with_the_next() -> None:
    found = speed_claims(EXPERIMENT, compare)

    assert [(each.kind, each.variant, each.reference, each.figure.p) for each in found] == [
        ("speedup", SLUGS[1], SLUGS[0], 0.04),
        ("speedup", SLUGS[2], SLUGS[0], 0.04),
        ("fastest", SLUGS[2], SLUGS[1], 0.02),
    ]


def test_the_fastest_is_no_claim_of_its_own_where_the_baseline_is_one_of_the_first_two() -> None:
    two = replace(EXPERIMENT, variants=(BASELINE, FIRST))

    assert [each.kind for each in speed_claims(two, compare)] == ["speedup"]


@pytest.mark.parametrize(
    ("p", "processes", "is_open"),
    [
        (EARLY / 2, 3, False),
        (SIGNIFICANCE / 2, 3, True),
        (0.2, 3, True),
        (0.9, 3, False),
        (1.0, 3, False),
        (math.nan, 3, True),
        (0.2, 5, False),
    ],
)
def test_a_claim_is_open_while_it_is_neither_decided_nor_hopeless_nor_fully_measured(
    p: float, processes: int, *, is_open: bool
) -> None:
    assert claim(p).is_open(processes, 5) == is_open


def test_what_was_not_measured_is_not_open() -> None:
    nothing = replace(claim(math.nan).figure, count=0)

    assert not replace(claim(0.1), figure=nothing).is_open(3, 5)


def test_the_side_with_fewer_processes_is_measured_next() -> None:
    counts = dict(zip(SLUGS, (4, 3, 3), strict=True))

    assert wanting([claim(0.2)], counts) == [SLUGS[1]]
    assert wanting([claim(0.2)], {**counts, SLUGS[1]: 4}) == sorted(SLUGS[:2])


def test_a_claim_among_many_is_judged_hopeless_by_its_own_p() -> None:
    among_many = replace(claim(0.05), figure=replace(claim(0.05).figure, p=1.0))

    assert among_many.is_open(3, 5)
