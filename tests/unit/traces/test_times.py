"""Times are exact to the nanosecond, whatever clock they come from."""

from decimal import Decimal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.chunks import DamagedDocumentError, RawEvent
from gpu_report.traces.times import durations_ns, starts_ns

YEAR_2026_US = 1_763_719_234_567_890
BASES_US = st.sampled_from([0, 5_812_345_678_901, YEAR_2026_US, 9_999_999_999, -3_000_000_000_000])
TIMES_NS = st.lists(st.integers(0, 10**12), min_size=1, max_size=9)


def at(text: str) -> RawEvent:
    return RawEvent(name="aten::add", ts=msgspec.Raw(text.encode()))


def lasting(duration_us: float | None) -> RawEvent:
    return RawEvent(name="aten::add", dur=duration_us)


def microseconds(time_ns: int, *, decimals: int = 3) -> str:
    return f"{Decimal(time_ns) / 1000:.{decimals}f}"


@given(BASES_US, TIMES_NS)
def test_microseconds_with_three_decimals_are_exact_for_any_base(base_us: int, times_ns: list[int]) -> None:
    expected = [base_us * 1000 + time_ns for time_ns in times_ns]

    assert starts_ns([at(microseconds(time_ns)) for time_ns in expected]).tolist() == expected


@given(BASES_US, st.lists(st.integers(0, 10**12), min_size=1, max_size=9))
def test_whole_microseconds_are_exact_for_any_base(base_us: int, times_us: list[int]) -> None:
    expected = [(base_us + time_us) * 1000 for time_us in times_us]

    assert starts_ns([at(str(time_ns // 1000)) for time_ns in expected]).tolist() == expected


@given(st.lists(st.integers(-39 * 10**17, 39 * 10**17), min_size=1, max_size=9))
def test_times_of_several_clocks_in_one_chunk_are_exact(times_ns: list[int]) -> None:
    assert starts_ns([at(microseconds(time_ns)) for time_ns in times_ns]).tolist() == times_ns


@given(BASES_US, TIMES_NS, st.integers(1, 8))
def test_times_do_not_depend_on_the_chunk_they_come_in(base_us: int, times_ns: list[int], size: int) -> None:
    events = [at(microseconds(base_us * 1000 + time_ns)) for time_ns in times_ns]

    parts = [starts_ns(events[begin : begin + size]) for begin in range(0, len(events), size)]

    assert np.concatenate(parts).tolist() == starts_ns(events).tolist()


@pytest.mark.parametrize(
    ("texts", "expected_ns"),
    [
        (["1763719234567890.123", "1763719234567890.124"], [1763719234567890123, 1763719234567890124]),
        (["1763719234567890.12", "1763719234567890"], [1763719234567890120, 1763719234567890000]),
        (["1763719234567890.1239"], [1763719234567890124]),
        (["1.763719234567890e15", "0.001"], [1763719234567890000, 1]),
        (["1763719999999999.999", "1763720000000000.000"], [1763719999999999999, 1763720000000000000]),
        (["-0.001", "0.001"], [-1, 1]),
    ],
)
def test_every_way_of_writing_a_number_is_exact(texts: list[str], expected_ns: list[int]) -> None:
    assert starts_ns([at(text) for text in texts]).tolist() == expected_ns


@pytest.mark.parametrize("text", ["4e15", "-4e15", "1e300"])
def test_a_time_beyond_any_clock_is_refused(text: str) -> None:
    with pytest.raises(DamagedDocumentError, match="beyond any clock"):
        starts_ns([at("1.5"), at(text)])


@pytest.mark.parametrize("text", ['"12"', "null", "true", "[]", "{}"])
def test_the_event_without_a_time_is_named(text: str) -> None:
    with pytest.raises(DamagedDocumentError) as raised:
        starts_ns([at("1.5"), at(text)])

    assert str(raised.value) == f"the event 'aten::add' has ts {text}, not a number of microseconds"


@given(st.lists(st.integers(0, 10**13), min_size=1))
def test_durations_are_exact(times_ns: list[int]) -> None:
    assert durations_ns([lasting(float(microseconds(time_ns))) for time_ns in times_ns]).tolist() == times_ns


def test_a_negative_duration_is_told_as_it_is() -> None:
    assert durations_ns([lasting(-0.5), lasting(2)]).tolist() == [-500, 2000]


@pytest.mark.parametrize("duration_us", [1e13, -1e13, 1e300])
def test_a_duration_beyond_belief_is_refused(duration_us: float) -> None:
    with pytest.raises(DamagedDocumentError, match=r"'aten::add' has the dur .* us, beyond belief"):
        durations_ns([lasting(1), lasting(duration_us)])


def test_an_event_without_duration_is_named() -> None:
    with pytest.raises(DamagedDocumentError, match="the event 'aten::add' has no dur"):
        durations_ns([lasting(1), lasting(None)])
