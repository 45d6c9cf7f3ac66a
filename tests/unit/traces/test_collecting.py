"""Events become columns, chunk by chunk, with times exact to the nanosecond."""

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces import collecting
from gpu_report.traces.chunks import Document, events_of
from gpu_report.traces.collecting import EXACT_US, Collector, InexactTimesError, Numberings, _copied
from gpu_report.traces.events import DamagedDocumentError, ExactEvent, RawEvent
from gpu_report.traces.trace import NONE, CallSpans, Columns, Integers, MemoryEvents, Spans, WorkSpans
from tests.unit.traces.by_hand import MAIN, kernel, operation, span, step, trace_of

OPERATIONS = st.lists(
    st.builds(
        operation,
        st.sampled_from(["aten::add", "aten::mm"]),
        st.integers(0, 99),
        st.integers(-3, 99),
        on=st.sampled_from([(1, 1), (1, "loader")]),
        external_id=st.integers(0, 5),
    ),
    max_size=12,
)


def raw(event: dict[str, Any]) -> RawEvent:
    return msgspec.json.decode(msgspec.json.encode(event), type=RawEvent)


def calls() -> Collector[CallSpans]:
    return Collector(CallSpans, Numberings())


def work() -> Collector[WorkSpans]:
    return Collector(WorkSpans, Numberings())


def with_arguments(event: dict[str, Any], **arguments: Any) -> RawEvent:
    return raw({**event, "args": {key.replace("_", " "): value for key, value in arguments.items()}})


def lists(columns: Columns) -> dict[str, list[float]]:
    return {column: getattr(columns, column).tolist() for column in columns.__struct_fields__}


@given(OPERATIONS, st.integers(1, 6))
def test_columns_do_not_depend_on_the_chunks_they_came_in(operations: list[dict[str, Any]], size: int) -> None:
    events = [raw(event) for event in operations]
    whole, pieces = calls(), calls()

    whole.add(events)
    for begin in range(0, len(events), size):
        pieces.add(events[begin : begin + size])

    columns = whole.collected()
    assert lists(pieces.collected()) == lists(columns)
    assert pieces.negative_durations == whole.negative_durations
    assert len(columns) + whole.negative_durations == len(events)


def test_without_events_every_column_is_empty() -> None:
    columns = work().collected()

    assert len(columns) == 0
    assert set(map(len, lists(columns).values())) == {0}


def test_what_is_not_written_is_none() -> None:
    collector = work()

    collector.add([raw(kernel("gemm", 1, 2))])

    found = lists(collector.collected())
    assert [found[name] for name in ("correlation", "external_id", "size_bytes")] == [[NONE]] * 3
    assert np.isnan(found["occupancy_percent"]).all()


def test_arguments_are_read_beside_those_nobody_asks_for() -> None:
    collector = work()
    asked = {"bytes": 40, "est._achieved_occupancy_%": 25}

    collector.add([with_arguments(kernel("gemm", 1, 2), queued=0, context=1, grid=[8, 2, 1], **asked)])

    columns = collector.collected()
    assert (columns.size_bytes.tolist(), columns.occupancy_percent.tolist()) == ([40], [25.0])


def test_texts_and_names_that_repeat_are_kept_once() -> None:
    numberings = Numberings()
    collector = Collector(CallSpans, numberings)
    dims = {"Input_Dims": [[3, 4], []]}

    collector.add([with_arguments(operation(name, 1, 2), **dims) for name in ("aten::add", "aten::mm", "aten::add")])

    columns = collector.collected()
    assert list(numberings.names) == ["aten::add", "aten::mm"]
    assert columns.name.tolist() == [0, 1, 0]
    assert {list(numberings.texts)[position] for position in columns.shapes} == {b"[[3,4],[]]"}


def test_events_are_chosen_by_flag_and_by_position() -> None:
    collector = Collector(Spans, Numberings())
    collector.add([raw(operation("aten::add", start, 1)) for start in (5, 6, 7)])
    columns = collector.collected()

    assert columns.chosen(columns.start_ns > 5000).start_ns.tolist() == [6000, 7000]
    assert columns.chosen(np.array([2, 0])).end_ns.tolist() == [8000, 6000]


def test_what_the_allocator_says_is_read_of_its_moments() -> None:
    collector = Collector(MemoryEvents, Numberings())
    moment = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 4}

    collector.add([with_arguments(moment, Device_Type=1, Device_Id=0, Addr=77, Bytes=-512, Total_Allocated=1024)])

    columns = collector.collected()
    assert (columns.changed_bytes.tolist(), columns.allocated_bytes.tolist()) == ([-512], [1024])
    assert (columns.start_ns.tolist(), columns.reserved_bytes.tolist()) == ([4000], [NONE])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"correlation": "5"}, "correlation: '5' is not a whole number"),
        ({"correlation": 2**64}, f"correlation: {2**64} does not fit 64 bits"),
        ({"correlation": 1.5}, "correlation: 1.5 is not a whole number"),
        ({"correlation": [1]}, "correlation: [1] is not a whole number"),
        ({"bytes": {}}, "bytes: {} is not a whole number"),
        ({"est. achieved occupancy %": "many"}, "est. achieved occupancy %: 'many' is not a number"),
    ],
)
def test_arguments_of_another_type_are_refused(arguments: Any, named: str) -> None:
    sound = raw(kernel("copy", 0, 1))

    with pytest.raises(DamagedDocumentError) as raised:
        work().add([sound, raw({**kernel("gemm", 1, 2), "args": arguments})])

    assert str(raised.value) == f"the args of the event 'gemm', {named}"


@pytest.mark.parametrize("missing", [None, 2**64 - 1])
def test_a_number_that_is_written_as_none_is_none(missing: int | None) -> None:
    collector = work()

    collector.add([with_arguments(kernel("gemm", 1, 2), bytes=missing, correlation=3)])

    columns = collector.collected()
    assert (columns.size_bytes.tolist(), columns.correlation.tolist()) == ([NONE], [3])


def test_an_event_may_say_null_where_its_arguments_stand() -> None:
    collector = work()

    collector.add([raw({**kernel("gemm", 1, 2), "args": None})])

    assert collector.collected().correlation.tolist() == [NONE]


def test_events_are_put_in_order_in_their_own_memory() -> None:
    collector = Collector(Spans, Numberings())
    collector.add([raw(operation(name, start, 1)) for name, start in (("a", 7), ("b", 5), ("c", 6))])
    columns = collector.collected()
    starts_ns = columns.start_ns

    columns.put_in_order(np.array([1, 2, 0]))

    assert (starts_ns.tolist(), columns.name.tolist()) == ([5000, 6000, 7000], [1, 2, 0])


def test_numbers_of_another_process_become_those_of_this_one() -> None:
    here, there = Numberings(), pickle.loads(pickle.dumps(Numberings()))
    assert [here.threads[pair] for pair in ((1, 1), (1, "1"))] == [0, 1]
    assert [there.threads[pair] for pair in ((None, 1), (1, "1"), ("1", 1))] == [0, 1, 2]

    numbers = here.taken_over(there)

    assert numbers["threads"].tolist() == [2, 1, 3]
    assert list(here.threads) == [(1, 1), (1, "1"), (None, 1), ("1", 1)]
    assert len(numbers["names"]) == 0


@given(st.lists(st.sampled_from([b"", b"\0", b"\0\0", b'"a\0b"', b"[[3,4]]"])))
def test_texts_are_copied_whatever_bytes_they_hold(texts: list[bytes]) -> None:
    assert _copied([msgspec.Raw(text) for text in texts]) == texts


@pytest.mark.parametrize("arguments", [[1], [{}], "many", 5, 0.5, True])
@pytest.mark.parametrize("position", [0, 2])
def test_arguments_that_are_no_object_are_refused_where_they_are_kept(arguments: Any, position: int) -> None:
    events = [raw(kernel("copy", start, 1)) for start in range(4)]
    events[position] = raw({**kernel("gemm", 1, 2), "args": arguments})

    with pytest.raises(DamagedDocumentError) as raised:
        work().add(events)

    assert str(raised.value) == "the args of the event 'gemm' are not an object"


@pytest.mark.parametrize("arguments", [[], [1], "", "many", 5, 0.5, True])
def test_an_event_of_a_kind_that_nobody_reads_may_have_any_arguments(arguments: Any, tmp_path: Path) -> None:
    unread = {**span("overhead", "Buffer Flush", 3, 1, on=MAIN), "args": arguments}
    stacks = {**span("python_function", "train.py(3): step", 3, 1, on=MAIN), "args": arguments}

    trace = trace_of(tmp_path, step(1, 0, 10), unread, operation("aten::add", 1, 2), stacks, unread)

    assert (len(trace.calls), len(trace.functions)) == (1, 1)


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
    return collecting.starts_ns(collecting.starts_of(events), lambda position: events[position].name)


def durations_ns(*durations_us: float | None) -> Any:
    """Of operations that last so long, as they are collected."""
    collector = Collector(Spans, Numberings())
    collector.add([RawEvent(name="aten::add", ts=0, dur=duration_us) for duration_us in durations_us])
    return collector.collected().duration_ns.tolist()


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
    assert durations_ns(*(float(microseconds(time_ns)) for time_ns in times_ns)) == times_ns


@given(BASES_US, TIMES_NS, st.integers(1, 4))
def test_times_do_not_depend_on_how_many_are_made_whole_at_a_time(
    base_us: int, times_ns: list[int], at_once: int
) -> None:
    expected = [base_us * 1000 + time_ns for time_ns in times_ns]

    with patch("gpu_report.traces.collecting._AT_ONCE", at_once):
        assert starts_ns([microseconds(time_ns) for time_ns in expected]).tolist() == expected
        assert durations_ns(*(float(microseconds(time_ns)) for time_ns in times_ns)) == times_ns


@pytest.mark.parametrize("duration_us", [1e13, -1e13, 1e300])
def test_a_duration_beyond_belief_is_refused(duration_us: float) -> None:
    with pytest.raises(DamagedDocumentError, match=r"'aten::add' has the dur .* us, beyond belief"):
        durations_ns(1, duration_us)


def test_an_event_without_duration_is_named() -> None:
    with pytest.raises(DamagedDocumentError, match="the event 'aten::add' has no dur"):
        durations_ns(1, None)


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
