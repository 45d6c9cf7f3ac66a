"""Medians, their intervals, and ratios keep the promises of the field."""

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from gpu_report.tables.statistics import NOT_MEASURED, Summary, ratio_of_medians, summarise

TIMES = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=2, max_size=7)
few_examples = settings(max_examples=40)


@few_examples
@given(TIMES)
def test_the_interval_holds_the_median_and_lies_within_the_values(values: list[float]) -> None:
    summary = summarise(values)

    assert min(values) <= summary.low <= summary.median <= summary.high <= max(values)
    assert summary.count == len(values)


@few_examples
@given(TIMES, st.randoms(use_true_random=False))
def test_the_order_of_the_processes_does_not_matter(values: list[float], random: Random) -> None:
    mixed = list(values)
    random.shuffle(mixed)

    assert summarise(mixed) == summarise(values)


@few_examples
@given(TIMES, st.floats(min_value=1e-3, max_value=1e3))
def test_another_unit_scales_median_and_interval_alike(values: list[float], factor: float) -> None:
    summary = summarise(values)
    scaled = summarise([factor * value for value in values])

    assert (scaled.median, scaled.low, scaled.high) == pytest.approx(
        (factor * summary.median, factor * summary.low, factor * summary.high)
    )


@few_examples
@given(TIMES)
def test_a_ratio_of_values_with_themselves_is_one_and_its_interval_holds_it(values: list[float]) -> None:
    ratio = ratio_of_medians(values, values)

    assert ratio.median == 1
    assert ratio.low <= 1 <= ratio.high


@few_examples
@given(TIMES, TIMES)
def test_a_ratio_holds_its_quotient_and_does_not_depend_on_the_unit(
    values: list[float], reference: list[float]
) -> None:
    ratio = ratio_of_medians(values, reference)
    in_other_unit = ratio_of_medians([8 * value for value in values], [8 * value for value in reference])

    assert ratio.low <= ratio.median <= ratio.high
    assert ratio.median == pytest.approx(summarise(values).median / summarise(reference).median)
    assert in_other_unit == ratio


def of_scipy(*sides: list[float]) -> tuple[float, float]:
    found = bootstrap(
        [sorted(side) for side in sides],
        lambda *drawn, axis: np.median(drawn[0], axis) / (np.median(drawn[1], axis) if len(drawn) > 1 else 1),
        n_resamples=9999,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(20260504),
    )
    return found.confidence_interval.low, found.confidence_interval.high


DIFFERENT_TIMES = TIMES.filter(lambda values: len(set(values)) > 1)


@few_examples
@given(DIFFERENT_TIMES, DIFFERENT_TIMES)
def test_the_intervals_are_those_of_scipys_bootstrap(values: list[float], reference: list[float]) -> None:
    summary, ratio = summarise(values), ratio_of_medians(values, reference)

    assert (summary.low, summary.high) == pytest.approx(of_scipy(values), rel=1e-14)
    assert (ratio.low, ratio.high) == pytest.approx(of_scipy(values, reference), rel=1e-14)


def test_three_processes_span_from_the_least_to_the_greatest_value() -> None:
    assert summarise([3.0, 1.0, 2.0]) == Summary(median=2.0, low=1.0, high=3.0, count=3)


def test_an_interval_holds_its_median_to_the_last_digit() -> None:
    values = [4.096e-06, 3.324488817134298e-06, 3.324488817134298e-06]

    assert summarise(values).low == summarise(values).median


def test_more_processes_narrow_the_interval() -> None:
    few = summarise([1.0, 2.0, 3.0])
    many = summarise([1.0, 2.0, 3.0] * 10)

    assert many.high - many.low < few.high - few.low


def test_one_process_has_a_median_and_no_interval() -> None:
    summary = summarise([2.0])

    assert (summary.median, summary.count) == (2.0, 1)
    assert math.isnan(summary.low)
    assert math.isnan(summary.high)


def test_a_ratio_with_one_process_on_a_side_has_no_interval() -> None:
    ratio = ratio_of_medians([4.0, 5.0, 6.0], [2.0])

    assert (ratio.median, ratio.count) == (2.5, 1)
    assert math.isnan(ratio.low)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert summarise([0.3] * 3) == Summary(median=0.3, low=0.3, high=0.3, count=3)
    assert ratio_of_medians([6.0] * 3, [2.0] * 4) == Summary(median=3.0, low=3.0, high=3.0, count=3)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [1.0, math.inf, 2.0]])
def test_nothing_or_something_not_finite_is_not_measured(values: list[float]) -> None:
    assert summarise(values) is NOT_MEASURED
    assert ratio_of_medians(values, [1.0, 2.0]) is NOT_MEASURED
    assert ratio_of_medians([1.0, 2.0], values) is NOT_MEASURED


def test_a_ratio_to_zero_is_not_measured() -> None:
    assert ratio_of_medians([1.0, 2.0], [0.0, 0.0]) is NOT_MEASURED


def test_the_same_values_give_the_same_digits_every_time() -> None:
    assert summarise([1.1, 1.7, 1.2, 1.4]) == summarise([1.1, 1.7, 1.2, 1.4])
