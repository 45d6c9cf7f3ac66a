import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.answers.estimate import Estimate, Side, doubts_about, estimate, ratio_of, speedup
from gpu_report.glossary import Row
from gpu_report.tables.bundle import Tables
from gpu_report.tables.marks import UNKNOWN_SPREAD, WEAKENING
from gpu_report.tables.statistics import difference_of_means
from tests.unit.answers.editing import figure

ROW: Row = {
    "variant": "lstm-cpu-b64-w0-fp32-e3",
    "marks": "",
    "processes": 5,
    "session": 1,
    **figure("throughput_per_s", 60.0, 2.0),
    **figure("quality", 0.8, 0.01),
    **figure("speedup", 2.0, 0.1),
}


def of(value: float, spread: float = 0.0, doubts: tuple[str, ...] = ()) -> Estimate:
    return Estimate(value=value, low=value - spread, high=value + spread, count=5, doubts=doubts)


positive = st.builds(
    lambda low, first, second: Estimate(
        value=low + first, low=low, high=low + first + second, count=5
    ),
    st.floats(0.1, 1e6),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)


@pytest.mark.parametrize(
    ("figures", "side"),
    [
        (of(1.2, 0.1), "above"),
        (of(0.8, 0.1), "below"),
        (of(1.2, 0.3), "unclear"),
        (of(1.0), "unclear"),
        (of(1.2, math.nan), "unclear"),
        (of(1.9, 0.1, doubts=("background load",)), "unclear"),
        (of(204.0, 50.0, doubts=("unsettled",)), "above"),
        (of(204.0, 50.0, doubts=("heavy load",)), "unclear"),
        (of(204.0, 50.0, doubts=("other protocol",)), "unclear"),
        (of(math.nan), "unclear"),
    ],
)
def test_an_interval_on_one_side_decides_and_a_flag_widens_it(
    figures: Estimate, side: Side
) -> None:
    assert figures.against(1.0) == side


def test_why_nothing_is_decided_is_reported_by_the_doubt_before_the_interval() -> None:
    assert of(1.2, 0.3).why_unclear(1, "1").startswith("the interval includes 1")
    assert of(1.2, math.nan).why_unclear(1, "1").startswith("5 processes give no 95 % interval")
    doubts = ("CPU steal", "background load")
    assert of(1.2, 0.3, doubts=doubts).why_unclear(1, "1") == (
        f"{WEAKENING['CPU steal']} and {WEAKENING['background load']}"
    )


def test_what_is_too_close_to_call_says_how_many_processes_would_decide() -> None:
    adjusted = Estimate(value=1.2, low=1.1, high=1.3, count=5, p=0.2, null=1.0)

    # Half the interval is 1.5 times the distance from the limit, and shrinks with the root.
    assert "(about 12 processes would decide)" in of(1.2, 0.3).why_unclear(1, "1")
    assert "(more than 100 processes would be needed)" in of(1.01, 0.3).why_unclear(1, "1")
    # 1.96 / 1.28 standard errors, squared, times 5.
    assert "(about 12 processes would decide)" in adjusted.why_unclear(1, "1")


def test_any_p_value_has_its_words_even_the_least() -> None:
    almost_certain = Estimate(value=1.2, low=1.1, high=1.3, count=5, p=1e-300, null=1.0)

    assert almost_certain.against(1.25) == "unclear"
    assert "(about 20 processes would decide)" in almost_certain.why_unclear(1.25, "1.25")


@given(positive, positive)
def test_a_ratio_and_its_inverse_are_reciprocal(one: Estimate, other: Estimate) -> None:
    forth, back = one.over(other), other.over(one)

    assert math.isclose(forth.low * back.high, 1.0)
    assert math.isclose(forth.high * back.low, 1.0)
    assert forth.low <= forth.value <= forth.high


@pytest.mark.parametrize(
    ("other", "side"), [(1.5, "below"), (1.15, "below"), (1.05, "unclear"), (0.6, "above")]
)
def test_two_means_differ_by_welchs_t_even_where_their_intervals_overlap_a_little(
    other: float, side: str
) -> None:
    assert of(1.0, 0.1).over(of(other, 0.1)).against(1.0) == side
    less = difference_of_means(of(1.0, 0.1), of(other, 0.1))
    assert Estimate(**vars(less)).against(0.0) == side


@given(positive, positive)
def test_what_is_made_of_two_estimates_lies_within_its_interval(
    one: Estimate, other: Estimate
) -> None:
    for made in (one.over(other), difference_of_means(one, other)):
        assert made.low <= made.value <= made.high


def test_a_ratio_over_nothing_is_missing() -> None:
    assert not of(1.0).over(of(0.0)).known
    assert not of(1.0).over(of(0.1, 0.2)).known


def test_a_falling_function_swaps_the_ends() -> None:
    inverse = of(2.0, 1.0).mapped(lambda value: 1 / value)

    assert (inverse.low, inverse.value, inverse.high) == (1 / 3, 0.5, 1.0)


def test_a_joined_estimate_has_the_doubts_of_both_once_and_the_fewer_processes() -> None:
    one = Estimate(value=1, low=1, high=1, count=5, doubts=("high variance",))
    other = Estimate(
        value=1,
        low=1,
        high=1,
        count=2,
        doubts=("high variance", "other protocol"),
    )

    joined = one.over(other)

    assert joined.doubts == ("high variance", "other protocol")
    assert joined.count == 2


def test_a_mark_casts_doubt_on_what_it_invalidates_and_on_nothing_else() -> None:
    busy, older = (
        {**ROW, "marks": f"projected;{m}"} for m in ("background load", "other protocol")
    )

    assert estimate(busy, "throughput_per_s").doubts
    assert not estimate(busy, "quality").doubts
    assert doubts_about("quality", older) == ("other protocol",)
    for mark in ("high variance", "clock drift", "power capped"):  # the interval has it already
        assert doubts_about("throughput_per_s", {"variant": "x", "marks": mark}) == ()
    assert doubts_about("bandwidth_gb_per_s", {"bandwidth_gb_per_s": 1.0}) == ()


def test_the_spread_between_two_sessions_widens_a_ratio_and_no_number_of_processes_narrows_it() -> (
    None
):
    sentinel = {"protocol_version": 4, "sessions": 3, "process_freedom": 4}
    spread = {"deviation_between": 0.02, "deviation_of_processes": 0.01}
    tables = Tables(
        by_name={"sentinels": lambda: pd.DataFrame([{**sentinel, **spread}])}, experiments={}
    )
    over = ratio_of("throughput_per_s", tables)
    slower = {**ROW, **figure("throughput_per_s", 57.0, 0.5)}

    together, apart = over(ROW, slower), over(ROW, {**slower, "session": 2})

    assert together.against(1.0) == "above"
    assert apart.against(1.0) == "unclear"
    assert "in one session" in apart.why_unclear(1.0, "1")
    assert "processes" not in apart.why_unclear(1.0, "1")


def test_an_unknown_spread_between_sessions_is_a_doubt_of_a_comparison_across_them_alone() -> None:
    tables = Tables(
        by_name={"sentinels": lambda: pd.DataFrame([{"protocol_version": 4, "sessions": 1}])},
        experiments={},
    )
    over = ratio_of("throughput_per_s", tables)
    flagged = {**ROW, "session": 2, "marks": UNKNOWN_SPREAD}  # against a baseline of session 1
    slower = {**flagged, **figure("throughput_per_s", 50.0, 0.5)}

    assert over(flagged, slower).doubts == ()
    assert over(flagged, {**slower, "session": 1, "marks": ""}).doubts == (UNKNOWN_SPREAD,)
    assert speedup(flagged, ROW).doubts == (UNKNOWN_SPREAD,)
    assert estimate(flagged, "throughput_per_s").doubts == ()


def test_a_speedup_is_doubted_with_either_of_its_variants() -> None:
    assert speedup(ROW, {**ROW, "marks": "background load"}).doubts
    assert speedup({**ROW, "marks": "background load"}, ROW).doubts
    assert not speedup(ROW, ROW).doubts
