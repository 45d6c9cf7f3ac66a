"""Digits: fewer of them, and never more time than was measured."""

from hypothesis import given
from hypothesis import strategies as st

from gpu_report.measure.timing import float32_values, times_in_ms


@given(st.lists(st.floats(0, 1e6)))
def test_times_lose_less_than_a_tenth_of_a_microsecond_and_never_gain(
    times_ms: list[float],
) -> None:
    for cut_ms, time_ms in zip(times_in_ms(times_ms), times_ms, strict=True):
        assert 0 <= time_ms - cut_ms < 1.001e-4


def test_times_are_written_with_four_decimals() -> None:
    assert times_in_ms([0.123456, 12.0]) == [0.1234, 12.0]


def test_values_keep_the_seven_digits_of_single_precision() -> None:
    assert float32_values([0.69314718246, 12345.678711]) == [0.6931472, 12345.68]
