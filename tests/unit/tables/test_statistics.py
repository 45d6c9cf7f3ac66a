"""Means, their intervals, and ratios keep the promises of the field."""

import math
import statistics
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from gpu_report.tables.statistics import (
    CONFIDENCE,
    NOT_MEASURED,
    Summary,
    deviation_of,
    difference,
    holm,
    ratio,
    ratio_of_means,
    students_p,
    students_t,
    summarise,
    varies_more,
)

POSITIVE = st.floats(min_value=1e-3, max_value=1e6)
TIMES = st.lists(POSITIVE, min_size=1, max_size=7)
MANY_TIMES = st.lists(POSITIVE, min_size=3, max_size=9).filter(
    lambda values: statistics.stdev(values) > 1e-9 * max(values)  # scipy divides by it
)


def by_seed(values: list[float], first: int = 0) -> dict[int, float]:
    return dict(enumerate(values, first))


@given(TIMES, st.sampled_from(["log", "linear"]))
def test_the_interval_holds_the_mean_which_is_among_the_values(
    values: list[float], scale: str
) -> None:
    summary = summarise(values, scale=scale)  # type: ignore[arg-type]

    assert min(values) <= summary.value <= max(values)
    assert math.isnan(summary.low) or summary.low <= summary.value <= summary.high
    assert summary.count == len(values)


@given(TIMES, st.randoms(use_true_random=False))
def test_the_order_of_the_processes_does_not_matter(values: list[float], random: Random) -> None:
    found, mixed = summarise(values), summarise(random.sample(values, len(values)))

    assert (mixed.value, mixed.low, mixed.high) == pytest.approx(
        (found.value, found.low, found.high), nan_ok=True
    )


@given(TIMES, st.floats(min_value=1e-3, max_value=1e3))
def test_another_unit_scales_mean_and_interval_alike(values: list[float], factor: float) -> None:
    summary = summarise(values)
    scaled = summarise([factor * value for value in values])

    assert (scaled.value, scaled.low, scaled.high) == pytest.approx(
        (factor * summary.value, factor * summary.low, factor * summary.high), nan_ok=True
    )


@given(MANY_TIMES)
def test_the_interval_is_students_t_on_the_logarithms(values: list[float]) -> None:
    logs = [math.log(value) for value in values]
    expected = stats.t.interval(
        CONFIDENCE, len(logs) - 1, loc=statistics.fmean(logs), scale=stats.sem(logs)
    )

    found = summarise(values)

    assert (math.log(found.low), math.log(found.high)) == pytest.approx(expected)
    assert found.value == pytest.approx(statistics.geometric_mean(values))


@given(MANY_TIMES)
def test_on_the_linear_scale_the_interval_is_students_t_on_the_values(values: list[float]) -> None:
    found = summarise(values, scale="linear")

    mean = statistics.fmean(values)
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(CONFIDENCE, len(values) - 1, loc=mean, scale=stats.sem(values)),
        rel=1e-6,
        abs=1e-6 * mean,
    )


@given(MANY_TIMES, MANY_TIMES)
def test_a_ratio_of_other_seeds_is_welchs(values: list[float], reference: list[float]) -> None:
    logs, reference_logs = ([math.log(value) for value in side] for side in (values, reference))
    expected = stats.ttest_ind(logs, reference_logs, equal_var=False)
    interval = expected.confidence_interval(CONFIDENCE)

    found = ratio(by_seed(values), by_seed(reference, first=100))

    assert (math.log(found.low), math.log(found.high)) == pytest.approx(
        (interval.low, interval.high), abs=1e-9
    )
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert found.value == pytest.approx(summarise(values).value / summarise(reference).value)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=3, max_size=9))
def test_a_ratio_of_the_same_seeds_is_the_paired_one(pairs: list[tuple[float, float]]) -> None:
    logs = [math.log(value) - math.log(reference) for value, reference in pairs]
    assume(statistics.stdev(logs) > 1e-6)
    expected = stats.ttest_1samp(logs, 0.0)
    interval = expected.confidence_interval(CONFIDENCE)

    values, reference = (by_seed([pair[side] for pair in pairs]) for side in (0, 1))
    found = ratio(values, reference)

    assert (math.log(found.low), math.log(found.high)) == pytest.approx(
        (interval.low, interval.high), abs=1e-9
    )
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert ratio(values, reference, paired=False) == ratio(
        values, by_seed([*reference.values()], first=100)
    )


@given(TIMES, st.booleans())
def test_a_ratio_with_itself_is_exactly_one(values: list[float], paired: bool) -> None:  # noqa: FBT001
    found = ratio(by_seed(values), by_seed(values), paired=paired)

    assert found.value == 1
    assert math.isnan(found.low) or found.low <= 1 <= found.high


@given(TIMES, TIMES)
def test_a_ratio_and_its_inverse_are_reciprocal(
    values: list[float], reference: list[float]
) -> None:
    forth, back = (
        ratio(by_seed(values), by_seed(reference)),
        ratio(by_seed(reference), by_seed(values)),
    )

    assert forth.value * back.value == pytest.approx(1)
    assert forth.low == pytest.approx(1 / back.high, nan_ok=True)
    assert forth.p == pytest.approx(back.p, nan_ok=True)


@given(st.floats(1, 5000), st.floats(0, 200))
def test_students_distribution_is_that_of_scipy(freedom: float, t: float) -> None:
    assert students_p(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-6, abs=1e-300)
    assert students_t(freedom) == pytest.approx(
        stats.t.ppf((1 + CONFIDENCE) / 2, freedom), rel=1e-9
    )


@given(MANY_TIMES)
def test_the_deviation_of_processes_is_that_of_their_logarithms(values: list[float]) -> None:
    logs = [*map(math.log, values)]

    assert deviation_of(summarise(values)) == pytest.approx(statistics.stdev(logs), rel=1e-6)


def test_too_few_processes_have_an_infinite_deviation_and_equal_ones_none() -> None:
    assert deviation_of(summarise([5.0, 5.1])) == deviation_of(NOT_MEASURED) == math.inf
    assert deviation_of(summarise([5.0, 5.0, 5.0])) == 0
    assert varies_more(1e-6, 4, 0.0, 2)


@given(st.floats(1e-3, 10), st.integers(1, 30), st.floats(1e-3, 10), st.integers(1, 30))
def test_deviations_are_compared_by_the_f_test_of_scipy(
    deviation: float, freedom: int, other: float, other_freedom: int
) -> None:
    p = float(stats.f.sf((deviation / other) ** 2, freedom, other_freedom))
    assume(abs(p - 0.05) > 1e-6)

    assert varies_more(deviation, freedom, other, other_freedom) == (p < 0.05)


def test_three_processes_have_students_interval_of_two_degrees_of_freedom() -> None:
    # 4.30265 is the quantile in the tables of the distribution.
    found = summarise([9.0, 10.0, 11.0], scale="linear")

    assert (found.low, found.high) == pytest.approx(
        (10 - 4.30265 / math.sqrt(3), 10 + 4.30265 / math.sqrt(3)), rel=1e-5
    )
    assert found.low < 9 < 11 < found.high


def test_of_three_processes_a_large_difference_is_significant_and_a_small_one_is_not() -> None:
    slow = by_seed([1.0, 1.02, 0.98])
    for first in (0, 5):  # paired, and Welch
        twice, hardly = (
            ratio(by_seed([factor * 1.01, factor, factor * 0.99], first), slow)
            for factor in (2.0, 1.005)
        )
        assert 1 < twice.low < 2 < twice.high
        assert twice.p < 0.01
        assert hardly.low < 1 < hardly.high
        assert hardly.p > 0.05


def test_a_quotient_of_the_means_of_three_processes_is_welchs() -> None:
    values, reference = [3.0, 1.0, 2.0], [1.0, 1.0, 4.0]
    found = ratio_of_means(summarise(values), summarise(reference))

    assert vars(found) == pytest.approx(vars(ratio(by_seed(values), by_seed(reference, first=5))))


def test_the_interval_of_three_processes_holds_the_truth_as_often_as_it_says() -> None:
    random, draws = Random(0), 4000
    found = [summarise([random.lognormvariate(0, 0.05) for _ in range(3)]) for _ in range(draws)]

    covered = sum(each.low <= 1 <= each.high for each in found) / draws

    assert covered == pytest.approx(CONFIDENCE, abs=0.01)  # three standard errors


@pytest.mark.parametrize("values", [[2.0], [1.0, 4.0]])
def test_fewer_have_a_mean_alone(values: list[float]) -> None:
    many, few = by_seed([4.0, 5.0, 6.0, 7.0]), by_seed(values)
    summary, changed = summarise(values), difference(few, dict.fromkeys(few, 1.0))
    found = [summary, changed, ratio(many, few), ratio(few, few)]
    found.append(ratio_of_means(summarise([*many.values()]), summary))

    assert summary.value == pytest.approx(2.0)
    assert {each.count for each in found} == {len(values)}
    assert all(math.isnan(end) for each in found for end in (each.low, each.high, each.p))


@pytest.mark.parametrize("count", [3, 4, 7])
def test_equal_values_have_bounds_of_no_width(count: int) -> None:
    for scale in ("log", "linear", "share"):
        found = summarise([0.3] * count, scale=scale)
        assert found == Summary(value=0.3, low=0.3, high=0.3, count=count)


def test_the_interval_of_a_share_ends_where_the_whole_does() -> None:
    assert summarise([0.9, 0.99, 1.0, 1.0], scale="share").high == 1
    assert summarise([0.0, 0.0, 1.0, 2.0], scale="percent").low == 0


@pytest.mark.parametrize(
    "values", [[], [1.0, math.nan], [1.0, math.inf, 2.0], [1.0, 0.0], [1.0, -1.0, 3.0, 4.0]]
)
def test_what_has_no_logarithm_is_not_measured(values: list[float]) -> None:
    assert summarise(values) is NOT_MEASURED
    assert ratio(by_seed(values), by_seed([1.0, 2.0])) is NOT_MEASURED
    assert ratio(by_seed([1.0, 2.0]), by_seed(values)) is NOT_MEASURED


def test_a_training_that_diverged_is_not_measured_on_any_scale() -> None:
    assert summarise([0.5, math.nan, 0.6], scale="linear") is NOT_MEASURED
    assert difference(by_seed([0.5, 0.6]), by_seed([0.5, math.nan])) is NOT_MEASURED


def test_values_too_far_apart_for_a_float_still_have_an_interval() -> None:
    found = summarise([1e-300, 1e300, 1e-300, 1e300])

    assert found.low <= found.value <= found.high < math.inf


def test_differences_are_taken_seed_by_seed_and_only_between_the_same_seeds() -> None:
    before, after = [0.5, 0.7, 0.9, 0.6], [0.4, 0.61, 0.8, 0.51]
    expected = stats.ttest_rel(after, before)

    found = difference(by_seed(after), by_seed(before))

    interval = expected.confidence_interval(CONFIDENCE)
    assert (found.value, found.low, found.high) == pytest.approx(
        (-0.095, interval.low, interval.high)
    )
    assert found.p == pytest.approx(expected.pvalue)
    assert difference(by_seed(after), by_seed(before, first=1)) is NOT_MEASURED


def test_holms_adjustment_is_that_of_its_paper() -> None:
    # Ordered 0.005, 0.01, 0.03, 0.04 they count four-, three-, two- and onefold, and never less
    # than the one before.
    assert holm([0.01, 0.04, math.nan, 0.03, 0.005]) == pytest.approx(
        [0.03, 0.06, math.nan, 0.06, 0.02], nan_ok=True
    )
    assert holm([0.6, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=8))
def test_an_adjusted_p_is_never_less_than_the_plain_one(p_values: list[float]) -> None:
    assert all(
        plain <= adjusted <= 1 for plain, adjusted in zip(p_values, holm(p_values), strict=True)
    )
