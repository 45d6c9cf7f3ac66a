"""Times are exact to the nanosecond, whatever clock they come from."""

from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces import collecting as times
from gpu_report.traces.chunks import Document, events_of
from gpu_report.traces.collecting import EXACT_US, InexactTimesError
from gpu_report.traces.events import DamagedDocumentError, ExactEvent, RawEvent
from gpu_report.traces.trace import Integers

YEAR_2026_US = 1_763_719_234_567_890
BASES_US = st.sampled_from([0, 5_812_345_678_901, YEAR_2026_US, 9_999_999_999, -3_000_000_000_000])
TIMES_NS = st.lists(st.integers(0, 10**12), min_size=1, max_size=9)


def starts_ns(texts: list[str], *, event_type: type[RawEvent] = RawEvent) -> Integers:
    """Of events whose times are written so; read again with every digit where floats do not hold them."""
    events = ",".join(f'{{"name":"aten::add","ts":{text}}}' for text in texts)
    (chunk,) = events_of([f"[{events}]".encode()], Document(), event_type=event_type)
    try:
        return starts_of_events(chunk)
    except InexactTimesError:
        return starts_ns(texts, event_type=ExactEvent)


def starts_of_events(events: list[RawEvent]) -> Integers:
    return times.starts_ns(times.starts_of(events), lambda position: events[position].name)


def durations_ns(events: list[RawEvent]) -> Integers:
    return times.durations_ns(times.durations_of(events), lambda position: events[position].name)


def lasting(duration_us: float | None) -> RawEvent:
    return RawEvent(name="aten::add", dur=duration_us)


def microseconds(time_ns: int, *, decimals: int = 3) -> str:
    return f"{Decimal(time_ns) / 1000:.{decimals}f}"


@given(BASES_US, TIMES_NS)
def test_microseconds_with_three_decimals_are_exact_for_any_base(base_us: int, times_ns: list[int]) -> None:
    expected = [base_us * 1000 + time_ns for time_ns in times_ns]

    assert starts_ns([microseconds(time_ns) for time_ns in expected]).tolist() == expected


@given(BASES_US, st.lists(st.integers(0, 10**12), min_size=1, max_size=9))
def test_whole_microseconds_are_exact_for_any_base(base_us: int, times_us: list[int]) -> None:
    expected = [(base_us + time_us) * 1000 for time_us in times_us]

    assert starts_ns([str(time_ns // 1000) for time_ns in expected]).tolist() == expected


@given(st.lists(st.integers(-39 * 10**17, 39 * 10**17), min_size=1, max_size=9))
def test_times_of_several_clocks_in_one_chunk_are_exact(times_ns: list[int]) -> None:
    assert starts_ns([microseconds(time_ns) for time_ns in times_ns]).tolist() == times_ns


@given(BASES_US, TIMES_NS, st.integers(1, 8))
def test_times_do_not_depend_on_the_chunk_they_come_in(base_us: int, times_ns: list[int], size: int) -> None:
    texts = [microseconds(base_us * 1000 + time_ns) for time_ns in times_ns]

    parts = [starts_ns(texts[begin : begin + size]) for begin in range(0, len(texts), size)]

    assert np.concatenate(parts).tolist() == starts_ns(texts).tolist()


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
    assert starts_ns(texts).tolist() == expected_ns


@pytest.mark.parametrize("text", ["4e15", "-4e15", "1e300"])
def test_a_time_beyond_any_clock_is_refused(text: str) -> None:
    with pytest.raises(DamagedDocumentError, match="beyond any clock"):
        starts_ns(["1.5", text])


@pytest.mark.parametrize("text", ['"12"', "true", "[]", "{}"])
def test_the_event_whose_time_is_no_number_is_told(text: str) -> None:
    with pytest.raises(DamagedDocumentError, match=r"event 2, ts: Expected `float \| null`"):
        starts_ns(["1.5", text])


@pytest.mark.parametrize("text", ['"12"', '"NaN"', '"sNaN"', "true", "[]", "{}"])
def test_text_is_no_time_where_every_digit_counts_either(text: str) -> None:
    with pytest.raises(DamagedDocumentError) as raised:
        starts_ns(["1763719234567890.123", text], event_type=ExactEvent)

    assert str(raised.value) == f"the event 'aten::add' has ts {text}, not a number of microseconds"


@pytest.mark.parametrize("event_type", [RawEvent, ExactEvent])
def test_the_event_without_a_time_is_named(event_type: type[RawEvent]) -> None:
    with pytest.raises(DamagedDocumentError, match="the event 'aten::add' has no ts"):
        starts_ns(["1.5", "null"], event_type=event_type)


@given(st.integers(0, 10**6))
def test_floats_are_refused_from_where_they_lose_nanoseconds(beyond_us: int) -> None:
    with pytest.raises(InexactTimesError):
        starts_of_events([RawEvent(ts=EXACT_US + beyond_us)])


@given(st.integers(0, int(EXACT_US) * 1000 - 1), st.sampled_from([-1, 1]))
def test_floats_below_are_exact(time_ns: int, sign: int) -> None:
    assert starts_of_events([RawEvent(ts=float(microseconds(sign * time_ns)))]).tolist() == [sign * time_ns]


@given(st.lists(st.integers(0, 8 * 10**15), min_size=1))
def test_durations_are_exact(times_ns: list[int]) -> None:
    assert durations_ns([lasting(float(microseconds(time_ns))) for time_ns in times_ns]).tolist() == times_ns


@given(BASES_US, TIMES_NS, st.integers(1, 4))
def test_times_do_not_depend_on_how_many_are_made_whole_at_a_time(
    base_us: int, times_ns: list[int], at_once: int
) -> None:
    expected = [base_us * 1000 + time_ns for time_ns in times_ns]

    with patch("gpu_report.traces.collecting._AT_ONCE", at_once):
        assert starts_ns([microseconds(time_ns) for time_ns in expected]).tolist() == expected
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


def test_a_number_far_too_small_to_matter_is_read_at_once() -> None:
    assert starts_ns(["1763719234567890.123", "1e-999999"]).tolist() == [1763719234567890123, 0]


@pytest.mark.parametrize("text", ["1e9999999", "-1e9999999", "1e99999999999999999999", "9" * 100_000])
def test_a_time_that_needs_any_number_of_digits_is_refused(text: str) -> None:
    with pytest.raises(DamagedDocumentError, match="beyond any clock"):
        starts_ns([text], event_type=ExactEvent)


def test_a_time_that_is_none_is_shown_short_and_escaped() -> None:
    with pytest.raises(DamagedDocumentError, match="not a number of microseconds") as caught:
        starts_ns([f'"\u202e{"x" * 100_000}"'], event_type=ExactEvent)

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
