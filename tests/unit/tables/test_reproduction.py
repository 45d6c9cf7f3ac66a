"""Whether a new measurement reproduces a claim, and what is measured first for that."""

import math

import pytest

from gpu_report.tables.claims import Claim
from gpu_report.tables.reproduction import (
    CONTRADICTED,
    REPRODUCED,
    TOO_CLOSE,
    Sides,
    claims_of,
    most_useful,
    tabulate_reproduction,
    verdicts_on,
    weighed,
)
from gpu_report.tables.sessions import ONE_SESSION, Sessions
from gpu_report.tables.statistics import Spread, ratio, summarise
from tests.factories import make_record, make_records, make_study

SPREAD = Spread(0.001, 20)
NOISE = (0.4, -1.0, 0.9, -0.7, 0.4)
"""Of the first side of a ratio, in standard deviations, about."""


def sides(speedup: float, *, noise: float = 0.004, processes: int = 5) -> Sides:
    values = {index: speedup * math.exp(noise * NOISE[index]) for index in range(processes)}
    return values, dict.fromkeys(values, 1.0)


def claim_of(then: Sides, variant: str = "a") -> Claim:
    return Claim(
        kind="speedup", experiment="precision", variant=variant, reference="b", figure=ratio(*then)
    )


def verdict(then: Sides, now: Sides, **options: object) -> str:
    claim = claim_of(then)
    return verdicts_on({claim: weighed(claim, then, now, **options)})[claim]  # type: ignore[arg-type]


@pytest.mark.parametrize("processes", [3, 4, 5])
def test_a_ratio_that_comes_out_alike_is_reproduced(processes: int) -> None:
    assert verdict(sides(1.5), sides(1.51, noise=0.002, processes=processes)) == REPRODUCED


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_ratio_that_is_a_tenth_off_is_contradicted(factor: float) -> None:
    now = sides(1.5 * factor, noise=0.001, processes=3)

    assert verdict(sides(1.5), now, spread=SPREAD) == CONTRADICTED


@pytest.mark.parametrize(("factor", "expected"), [(0.9, TOO_CLOSE), (0.7, CONTRADICTED)])
def test_where_it_is_not_known_how_much_sessions_differ_only_a_large_difference_contradicts(
    factor: float, expected: str
) -> None:
    assert verdict(sides(1.5), sides(1.5 * factor, noise=0.001, processes=3)) == expected


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (sides(1.5, noise=0.05), "the interval ends outside"),
        (sides(1.35, noise=0.05, processes=3), "the interval includes part of the claimed one"),
        (sides(1.5, processes=2), "two processes have no interval"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_neither_agrees_nor_differs_is_too_close_to_call(now: Sides, why: str) -> None:
    assert verdict(sides(1.5), now) == TOO_CLOSE, why


def test_a_ratio_near_1_is_not_reproduced_by_none() -> None:
    then = sides(1.02)

    assert verdict(then, sides(1.021, noise=0.002)) == REPRODUCED
    assert verdict(then, sides(1.0, noise=0.002)) == TOO_CLOSE


def test_sessions_that_differ_widen_what_agrees_and_forbid_to_contradict() -> None:
    then, now = sides(1.5), sides(1.35, noise=0.001, processes=3)

    assert verdict(then, now, spread=SPREAD) == CONTRADICTED
    assert verdict(then, now, spread=Spread(0.02, 4)) != CONTRADICTED
    assert verdict(then, sides(1.46, noise=0.004), spread=Spread(0.02, 4)) == REPRODUCED


def test_two_sessions_forbid_to_contradict_and_make_no_far_number_reproduced() -> None:
    then, now = sides(1.5), sides(1.2, noise=0.001, processes=3)

    assert verdict(then, now, spread=Spread(0.03, 2)) == TOO_CLOSE
    assert verdict(then, now, spread=Spread(0.03, 20)) == CONTRADICTED


def test_a_contradiction_must_be_significant_among_all_claims() -> None:
    then, odd = sides(1.5, noise=0.01), sides(1.37, noise=0.012, processes=3)
    first, *others = (claim_of(then, variant=f"{index}") for index in range(1000))

    alone = {first: weighed(first, then, odd, spread=SPREAD)}
    among = {**alone, **{claim: weighed(claim, then, then, spread=SPREAD) for claim in others}}

    assert verdicts_on(alone)[first] == CONTRADICTED
    assert verdicts_on(among)[first] == TOO_CLOSE


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (sides(40.0), REPRODUCED),
        (sides(1.1), REPRODUCED),
        (sides(0.9), CONTRADICTED),
        (sides(1.001), TOO_CLOSE),
        (sides(1.1, noise=0.2), TOO_CLOSE),
    ],
)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["faster", "slower"])
def test_on_other_hardware_the_sign_of_a_ratio_decides(
    now: Sides, expected: str, order: tuple[int, int]
) -> None:
    then = sides(1.5)
    first, second = order

    found = verdict((then[first], then[second]), (now[first], now[second]), is_same_machine=False)

    assert found == expected


@pytest.mark.parametrize(
    ("moved", "expected"), [(0.0, REPRODUCED), (0.001, REPRODUCED), (-0.09, CONTRADICTED)]
)
def test_a_metric_is_compared_seed_by_seed(moved: float, expected: str) -> None:
    then = {(index, index): 0.8 + 0.1 * NOISE[index] for index in range(5)}
    now = {seed: value + moved + 0.0001 * seed[0] for seed, value in [*then.items()][:3]}
    figure = summarise([*then.values()], scale="linear")
    claim = Claim(kind="held-out metric", variant="a", figure=figure)

    test = weighed(claim, (then, {}), (now, {}), tolerance=0.02)

    assert test.change.value == pytest.approx(moved + 0.0001)
    assert test.measured == summarise([*now.values()], scale="linear")
    assert verdicts_on({claim: test}) == {claim: expected}


def test_a_metric_that_is_the_same_has_the_interval_that_was_claimed() -> None:
    values = dict(enumerate((0.38, 0.41, 0.44)))
    figure = summarise([*values.values()], scale="linear")
    claim = Claim(kind="held-out metric", variant="a", figure=figure)

    test = weighed(claim, (values, {}), (values, {}), tolerance=0.02)

    assert test.measured == figure
    assert verdicts_on({claim: test}) == {claim: REPRODUCED}


def test_only_what_is_significant_is_claimed_and_numbers_only_of_the_same_machine() -> None:
    study = make_study(devices=["cpu"])
    records = {record.variant: record for record in make_records(study, noise=0.02)}

    here, elsewhere = (
        claims_of(study.experiments, records, ONE_SESSION, is_same_machine=is_same)
        for is_same in (True, False)
    )

    assert {claim.kind for claim in elsewhere} <= {"speedup", "fastest"}
    assert elsewhere == [claim for claim in here if claim.reference]
    assert all(claim.figure.p < 0.05 for claim in elsewhere)
    assert len({(claim.kind, claim.sides) for claim in here}) == len(here)
    assert sum(claim.kind == "throughput" for claim in here) == len(records)


@pytest.mark.parametrize(("noise", "expected"), [(0.002, CONTRADICTED), (0.1, REPRODUCED)])
def test_a_sentinel_that_varies_more_excuses_only_what_varies_like_it(
    noise: float, expected: str
) -> None:
    slug = "cnn-small-cpu-b8-w0-fp32-e3"
    then, now = (
        {slug: make_record(slug, throughput_per_s=speed, noise=noise)} for speed in (1000.0, 800.0)
    )
    speeds = [each.throughput_per_s for each in then[slug].repetitions]
    claim = Claim(kind="throughput", variant=slug, figure=summarise(speeds))
    sentinels = [Spread(0.005, 20, 0.001, 20), Spread(0.15, 20, 0.1, 20)]

    rows = tabulate_reproduction(
        [claim],
        then,
        now,
        untestable={},
        sessions=Sessions(spreads=sentinels),
        is_same_machine=True,
    )

    assert rows[claim]["verdict"] == expected


SECONDS = {"cpu": 30.0, "eager": 3.0, "graphs": 4.0, "compile": 5.0}


def wanted(*names: str) -> list[frozenset[str]]:
    return [frozenset(name.split()) for name in names]


def test_most_claims_per_second_come_first_and_what_does_not_fit_is_left_out() -> None:
    claims = wanted("cpu eager", "eager graphs", "eager compile", "graphs")

    assert most_useful(claims, SECONDS, 60) == "eager"  # 2 claims in 7 s, graphs with it
    assert most_useful(wanted("cpu eager", "eager compile"), SECONDS, 10) == "compile"
    assert most_useful(wanted("cpu eager"), SECONDS, 32.9) is None


def test_the_other_side_of_a_ratio_follows_and_what_is_tested_waits_for_nothing() -> None:
    assert most_useful(wanted("graphs", "cpu", ""), SECONDS, 60) == "graphs"
    assert most_useful(wanted("", ""), SECONDS, 60) is None
