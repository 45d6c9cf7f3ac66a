"""Every number a reader sees has as many digits as it deserves, and never reads nan."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.printing.number_format import (
    Quantity,
    count,
    duration,
    memory,
    percent,
    prefix_of,
    quantity,
    ratio,
    scaled,
    share,
    signed,
    size,
    tex_numbers,
    throughput,
)

NUMBERS = st.floats(min_value=-1e12, max_value=1e12, allow_subnormal=False)
DISTANCES = st.floats(min_value=0, max_value=1e6, allow_subnormal=False)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (quantity(12.3456, "ms", low=11.91, high=12.83), "12.35 ms (11.91 to 12.83)"),
        (quantity(12.3456, "ms", low=9.1, high=15.2), "12.3 ms (9.1 to 15.2)"),
        (quantity(1081.55, "s", low=960, high=1203), "1080 s (960 to 1200)"),
        (quantity(0.5, "s", low=0.4004, high=0.5996), "0.50 s (0.40 to 0.60)"),
        (ratio(20.65, low=19.8, high=21.5), "20.65× (19.80 to 21.50)"),
        (ratio(3.1234, low=3.1219, high=3.1246), "3.123× (3.122 to 3.125)"),
        (quantity(51.6718, "GB/s", low=51.6717, high=51.6794), "51.67 GB/s (51.67 to 51.68)"),
        (quantity(51_682, "MiB", low=51_679, high=51_695), "51,680 MiB (51,680 to 51,700)"),
        (percent(69.982, low=69.97, high=69.99), "69.98 % (69.97 to 69.99)"),
        (ratio(2.1, low=0.34, high=13.2), "2.1× (0.3 to 13.2)"),
        (quantity(53.13, "ms", low=1.2, high=2300), "53 ms (1 to 2300)"),
        (quantity(-20, "%", low=-41, high=-0.34), "−20 % (−41 to −0.3)"),
        (percent(-0.03, low=-3.2, high=3.1), "0.0 % (−3.2 to 3.1)"),
        (quantity(2.1, low=1e-15, high=13.2), "2.1 (0.0 to 13.2)"),
        (quantity(123456.78, "s", low=123456.77, high=123456.79), "123,457 s"),
    ],
)
def test_an_interval_leaves_two_digits_of_its_half_width_and_four_at_most(
    shown: Quantity, text: str
) -> None:
    assert shown.plain() == text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (share(0.6615, low=-0.818, high=14.2), "66 % (−82 to 1400)"),
        (share(0.45, low=-1.24, high=2.14), "45 % (−120 to 210)"),
        (quantity(1.4e7, low=0.002e7, high=1347e7), "1.4e7 (0.002e7 to 1347e7)"),
        (quantity(-1.4, low=-2300, high=-0.4), "−1.4 (−2300 to −0.4)"),
        (throughput(12e6, low=1.8e6, high=81e6), "12,000,000 samples/s (1,800,000 to 81,000,000)"),
    ],
)
def test_a_wide_interval_rounds_no_two_digits_before_the_point_and_no_value_to_one(
    shown: Quantity, text: str
) -> None:
    assert shown.plain() == text


@given(
    st.floats(min_value=-99.9, max_value=1e4),
    st.floats(min_value=0, max_value=1),
    st.floats(min_value=1, max_value=1e4),
)
def test_no_interval_of_a_change_reads_as_one_that_leaves_nothing(
    value: float, below: float, above: float
) -> None:
    low = value - below * (value + 99.95)

    shown = percent(value, low=low, high=value + above)

    assert float(shown.value.replace(",", "")) > -100
    assert not shown.low or float(shown.low.replace(",", "")) > -100


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (quantity(1081.55, "s"), "1082 s"),
        (quantity(0.0996), "0.0996"),
        (quantity(9.9999), "10.0"),
        (quantity(0), "0"),
        (throughput(2827.6), "2828 samples/s"),
        (throughput(12.3456, low=math.nan, high=math.nan), "12.3 samples/s"),
        (percent(-3.21), "−3.2 %"),
        (share(0.5625), "56.2 %"),
        (ratio(1, low=1, high=1), "1.00×"),
        (signed(share(0.041)), "+4.1 %"),
        (signed(share(-0.041)), "−4.1 %"),
        (signed(share(math.nan)), "not measured"),
        (count(31_037_763), "31,037,763"),
        (count(2048, "samples"), "2048 samples"),
    ],
)
def test_a_number_without_an_interval_has_three_digits_and_groups_from_five_on(
    shown: Quantity, text: str
) -> None:
    assert shown.plain() == text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (duration(52.38), "52.4 s"),
        (duration(0.00123), "1.23 ms"),
        (duration(4.5e-7), "0.450 µs"),
        (duration(-2.0), "−2.00 s"),
        (duration(0.0123, unit="s"), "0.0123 s"),
        (scaled(12.04e12, "FLOP/s"), "12.0 TFLOP/s"),
        (scaled(999.0, "W"), "999 W"),
        (scaled(1000.0, "J"), "1.00 kJ"),
        (scaled(0.0042, "J"), "4.20 mJ"),
        (scaled(0.0, "J"), "0 J"),
        (scaled(math.nan, "J"), "not measured"),
        (scaled(1.2e9, "B/s", low=0.9e9, high=1.5e9), "1.20 GB/s (0.90 to 1.50)"),
        (scaled(5e6, "B/s", prefix=prefix_of(2e9)), "0.00500 GB/s"),
        (size(512), "512 B"),
        (size(4096), "4 KiB"),
        (size(1536), "1.50 KiB"),
        (size(2**30), "1 GiB"),
        (size(2**41), "2048 GiB"),
        (memory(1023), "1023 MiB"),
        (memory(1024), "1.00 GiB"),
        (memory(6000), "5.86 GiB"),
        (memory(6000, unit="MiB"), "6000 MiB"),
    ],
)
def test_a_quantity_chooses_its_unit_unless_it_shares_that_of_its_column(
    shown: Quantity, text: str
) -> None:
    assert shown.plain() == text


def test_tex_leaves_signs_separators_and_powers_of_ten_to_the_document() -> None:
    assert tex_numbers("-13.00 to 1-2") == r"\gpurepnum{-13.00} to \gpurepnum{1}-\gpurepnum{2}"
    assert tex_numbers("14,700 of fp16") == r"\gpurepnum{14700} of fp16"
    for no_number in ("24.0GB", "1.2.3", "2.11.0+cu130"):
        assert tex_numbers(no_number).startswith(no_number)


def test_a_number_too_small_to_write_out_has_a_power_of_ten() -> None:
    tiny = quantity(1.234e-7, low=1.1e-7, high=1.3e-7)
    assert tiny.plain() == "1.23e-7 (1.10e-7 to 1.30e-7)"
    assert tex_numbers(tiny.value) == r"\gpurepnum{1.23e-7}"


def test_a_number_too_large_to_read_has_a_power_of_ten_and_a_count_never() -> None:
    huge = throughput(8.9e11, low=8.79e11, high=9.15e11)
    assert huge.plain() == "8.90e11 samples/s (8.79e11 to 9.15e11)"
    assert throughput(7.4e9, low=4e9, high=1.2e10).plain() == "7.4e9 samples/s (4.0e9 to 12.0e9)"
    assert tex_numbers(huge.high) == r"\gpurepnum{9.15e11}"
    assert throughput(999_000_000).plain() == "999,000,000 samples/s"
    assert count(40_000_000_000).plain() == "40,000,000,000"


@given(NUMBERS, DISTANCES, DISTANCES)
def test_the_value_and_the_distance_on_either_side_hold_the_whole_interval(
    value: float, below: float, above: float
) -> None:
    shown = quantity(value, low=value - below, high=value + above)
    low, middle, high = (
        float(text.replace(",", "") or "nan") for text in (shown.low, shown.value, shown.high)
    )
    distance = float(shown.either_side.replace(",", "") or "nan")

    assert not shown.either_side or (
        middle - distance <= low + abs(low) * 1e-9 and high - abs(high) * 1e-9 <= middle + distance
    )


@pytest.mark.parametrize(
    ("shown", "distance"),
    [
        (quantity(12.3456, "ms", low=11.91, high=12.83), "0.48"),
        (throughput(31_040, low=29_000, high=33_000), "2000"),
        (ratio(13, low=11, high=30), ""),
        (ratio(13, low=3, high=24), "11"),
        (ratio(13, low=12, high=16), "3.0"),
        (ratio(0.0, low=0.0, high=0.5), ""),
        (quantity(1.234e-7, low=1.1e-7, high=1.3e-7), ""),
    ],
)
def test_one_distance_for_both_sides_is_only_given_where_it_shows_the_interval(
    shown: Quantity, distance: str
) -> None:
    assert shown.either_side == distance


def test_an_interval_too_narrow_to_show_is_left_out() -> None:
    assert memory(520, low=520, high=520).plain() == "520 MiB"
    assert memory(520, low=519.9999, high=520.0001).plain() == "520 MiB"


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf])
def test_what_was_not_measured_says_so_in_every_rendering(missing: float) -> None:
    for shown in (
        quantity(missing, "ms"),
        duration(missing),
        memory(missing),
        share(missing),
        ratio(missing),
    ):
        assert not shown.is_measured
        assert shown.plain() == "not measured"
    assert count(missing).plain() == "not measured"


@given(NUMBERS, DISTANCES, DISTANCES)
def test_no_number_reads_nan_and_none_loses_its_size(
    value: float, below: float, above: float
) -> None:
    shown = quantity(value, low=value - below, high=value + above)
    assert "nan" not in shown.plain()
    read_back = float(shown.value.replace(",", ""))
    assert abs(read_back - value) <= max(abs(value) * 0.01, (below + above) / 10)


@given(NUMBERS.filter(lambda value: abs(value) >= 1e-4))
def test_three_digits_are_within_half_a_per_cent(value: float) -> None:
    assert float(quantity(value).value.replace(",", "")) == pytest.approx(value, rel=0.0051)
