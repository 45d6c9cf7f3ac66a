"""What a trace file holds, exact to the nanosecond, whatever its form, order and blocks, or why it
is refused.
"""

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.errors import TraceError
from gpu_report.traces import document, reading
from gpu_report.traces.document import DamagedDocumentError, events_of
from gpu_report.traces.reading import EXACT_US, Collector, InexactTimesError, Numberings, read_trace
from gpu_report.traces.tables import as_csv, tabulate_trace
from gpu_report.traces.trace import (
    NONE,
    CallSpans,
    Columns,
    Integers,
    MemoryEvents,
    Spans,
    Step,
    Trace,
    WorkSpans,
)
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    MAIN,
    RawEvent,
    fixture_file,
    kernel,
    launch,
    mark,
    operation,
    span,
    step,
    trace_of,
    write,
)

NAME = "rank0.pt.trace.json.gz"


def test_times_keep_their_nanoseconds_since_1970(tmp_path: Path) -> None:
    events = '{"ph":"X","cat":"%s","name":"%s","pid":1,"tid":1,"ts":%s,"dur":%s}'
    step_text = events % ("user_annotation", "ProfilerStep#1", "1763719234567890.123", "20.001")
    operation_text = events % ("cpu_op", "aten::add", "1763719234567890.124", "1.002")
    path = tmp_path / "trace.json"
    path.write_text(f'{{"traceEvents": [{step_text}, {operation_text}]}}')

    trace = read_trace(path)

    assert (trace.steps[0].start_ns, trace.steps[0].end_ns) == (0, 20001)
    assert (trace.calls.start_ns.tolist(), trace.calls.duration_ns.tolist()) == ([1], [1002])


@pytest.mark.parametrize(
    "metadata", [{"rank": 3}, {"distributedInfo": {"rank": 3, "world_size": 4}}]
)
def test_the_rank_is_taken_from_the_metadata(metadata: dict[str, Any]) -> None:
    assert trace_of(step(1, 0, 10), **metadata).rank == 3


def test_rank_and_run_are_not_guessed() -> None:
    trace = trace_of(step(1, 0, 10))

    assert (trace.rank, trace.run_id) == (None, None)


def test_the_run_id_is_taken_from_the_metadata() -> None:
    assert trace_of(step(1, 0, 10), gpu_report_run="5f3a").run_id == "5f3a"


def test_threads_keep_apart_whether_their_names_are_numbers_or_words() -> None:
    trace = trace_of(
        step(1, 0, 10),
        operation("aten::add", 1, 2, on=(1, 2)),
        operation("aten::add", 1, 2, on=("1", "loader")),
        operation("aten::add", 1, 2, on=(1, "loader")),
    )

    assert [trace.threads[thread] for thread in trace.calls.thread] == [
        "1/2",
        "1/loader",
        "1/loader",
    ]
    assert len(set(trace.threads)) == len(trace.threads)


def test_marks_and_python_frames_are_no_operations() -> None:
    trace = trace_of(
        step(1, 0, 10),
        mark("forward", 1, 5),
        span("python_function", "train.py(3): step", 1, 5, on=MAIN),
        span("gpu_user_annotation", "ProfilerStep#1", 1, 5, on=(0, 7)),
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1},
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    )

    assert len(trace.calls) == 0
    assert len(trace.steps) == 1


def test_waiting_for_the_loader_is_an_operation() -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

    assert call_names(trace_of(step(1, 0, 10), mark(loader, 1, 5))) == [loader]


@pytest.mark.parametrize(
    ("kind", "device"), [("cuda_runtime", "cuda"), ("cuda_driver", "cuda"), ("xpu_runtime", "xpu")]
)
def test_the_device_is_named_as_the_trace_names_its_driver(kind: str, device: str) -> None:
    trace = trace_of(
        step(1, 0, 9), span(kind, "launch", 1, 1, on=MAIN), kernel("gemm", 2, 1, correlation=1)
    )

    assert trace.device == device


def test_a_trace_without_device_work_has_no_device() -> None:
    assert trace_of(step(1, 0, 9), launch(1, 1)).device is None


def test_the_steps_are_in_order_of_time() -> None:
    assert [each.number for each in trace_of(step(8, 20, 10), step(7, 0, 10)).steps] == [7, 8]


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_a_trace_cut_anywhere_is_refused(tmp_path: Path, fixture: str) -> None:
    whole = (fixture_file(fixture)).read_bytes()
    path = tmp_path / NAME
    for share in (0.001, 0.5, 0.99):
        path.write_bytes(whole[: int(len(whole) * share)])
        assert_refused(path, "")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "not gzipped"),
        (gzip.compress(b'{"traceEvents": [', mtime=0), "not whole JSON"),
        (
            gzip.compress(
                b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": null, "dur": 1}]}', mtime=0
            ),
            "has no ts",
        ),
        (gzip.compress(b"[]", mtime=0), "ProfilerStep"),
    ],
)
def test_what_is_no_whole_trace_is_refused(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / NAME
    path.write_bytes(content)

    assert_refused(path, named)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"ts": "yesterday"}, "event 2, ts: Expected"),
        ({"ts": 10**30}, "beyond any clock"),
        ({"dur": None}, "no dur"),
        ({"dur": 10**20}, "dur 1e+20 us, beyond belief"),
        ({"name": 7}, "event 2, name"),
        ({"args": {"correlation": "five"}}, "correlation: 'five' is not a whole number"),
        ({"args": [1]}, "args"),
    ],
)
def test_an_event_that_no_profiler_writes_is_refused(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    path = write(tmp_path / NAME, [step(1, 0, 10), {**operation("aten::add", 1, 2), **changed}])

    assert_refused(path, named)


@pytest.mark.parametrize(
    ("number", "named"),
    [
        ("1e300", "beyond any clock"),
        ("1e999999999", "Number out of range"),
        ("9" * 5000, "out of range"),
    ],
)
def test_a_number_too_large_to_write_out_is_refused_at_once(
    tmp_path: Path, number: str, named: str
) -> None:
    text = json.dumps({"traceEvents": [step(1, 0, 10)]}).replace('"ts": 0', f'"ts": {number}')
    path = tmp_path / NAME
    path.write_bytes(gzip.compress(text.encode()))

    assert_refused(path, named)


def test_an_event_with_a_negative_duration_is_left_out_and_counted() -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace = trace_of(
        step(1, 0, 10),
        operation("aten::add", 1, -2),
        operation("aten::mul", 3, 2, external_id=7),
        mark(loader, 6, -0.001),
        kernel("gemm", 4, -1),
    )

    assert call_names(trace) == ["aten::mul"]
    assert (trace.calls.duration_ns.tolist(), trace.calls.external_id.tolist()) == ([2000], [7])
    assert (len(trace.work), len(trace.marks)) == (0, 0)
    assert trace.negative_durations == 3


def test_without_steps_the_whole_recording_is_one_step() -> None:
    trace = trace_of(mark("forward", 0, 90), operation("aten::add", 5, 2), kernel("gemm", 8, 4))

    assert trace.steps == (Step(0, 5000, 12000),)
    assert not trace.has_steps


def test_a_step_that_is_recorded_is_distinguished_from_one_that_stands_for_the_recording() -> None:
    assert trace_of(step(0, 0, 10), operation("aten::add", 5, 2)).has_steps


def test_a_trace_in_which_nothing_lasts_is_refused(tmp_path: Path) -> None:
    assert_refused(write(tmp_path / NAME, [operation("aten::add", 5, 0)]), "ProfilerStep")


def test_launches_of_rocm_are_driver_calls() -> None:
    hip = span("hip_runtime", "hipLaunchKernel", 1, 1, on=MAIN, correlation=4)

    trace = trace_of(step(1, 0, 9), hip, kernel("Cijk_Ailk_Bljk_SB_MT64x64", 2, 1, correlation=4))

    assert (call_names(trace), trace.device) == (["hipLaunchKernel"], "hip")


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / NAME, "No such file")


def call_names(trace: Trace) -> list[str]:
    return [trace.names[name] for name in trace.calls.name]


def assert_refused(path: Path, named: str) -> None:
    with pytest.raises(TraceError) as raised:
        read_trace(path)
    message = str(raised.value)
    assert named in message
    assert str(path) in message
    assert "record it again" in message
    assert "\n" not in message


@st.composite
def scenes(draw: st.DrawFn) -> list[RawEvent]:
    """Two steps with operations, launches and kernels, none of which begins when another does."""
    moments = iter(draw(st.permutations(range(1, 60))))
    durations, names = (
        st.integers(1, 30),
        st.sampled_from(["aten::mm", "aten::add", "aten::conv2d"]),
    )
    events = [step(1, 0.25, 30), step(2, 30.25, 40)]
    for number in range(draw(st.integers(1, 6))):
        thread = draw(st.sampled_from([MAIN, AUTOGRAD]))
        events += [
            operation(draw(names), next(moments), draw(durations), on=thread),
            launch(number + 1, next(moments), 0.5, on=thread),
            kernel(
                draw(st.sampled_from(["gemm", "relu"])),
                next(moments),
                draw(durations),
                correlation=number + 1,
            ),
        ]
    return events


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_tables_depend_neither_on_the_order_of_the_events_nor_on_the_block(
    tmp_path: Path, data: st.DataObject
) -> None:
    events = data.draw(scenes())
    shuffled = data.draw(st.permutations(events))
    in_order = read_trace(write(tmp_path / NAME, events))
    out_of_order = read_trace(
        write(tmp_path / NAME, shuffled), block_bytes=data.draw(st.integers(100, 3000))
    )

    assert as_csv(tabulate_trace(out_of_order)) == as_csv(tabulate_trace(in_order))


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_a_real_trace_is_the_same_in_blocks_of_any_size(fixture: str) -> None:
    path = fixture_file(fixture)
    whole = as_csv(tabulate_trace(read_trace(path, block_bytes=1 << 26)))

    for block_bytes in (5_000, 12_345):
        assert as_csv(tabulate_trace(read_trace(path, block_bytes=block_bytes))) == whole


CALLS = st.lists(
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


def decoded(event: dict[str, Any]) -> document.RawEvent:
    return msgspec.json.decode(msgspec.json.encode(event), type=document.RawEvent)


def calls() -> Collector[CallSpans]:
    return Collector(CallSpans, Numberings())


def work() -> Collector[WorkSpans]:
    return Collector(WorkSpans, Numberings())


def with_arguments(event: dict[str, Any], **arguments: Any) -> document.RawEvent:
    return decoded(
        {**event, "args": {key.replace("_", " "): value for key, value in arguments.items()}}
    )


def lists(columns: Columns) -> dict[str, list[float]]:
    return {column: getattr(columns, column).tolist() for column in columns.__struct_fields__}


@given(CALLS, st.integers(1, 6))
def test_columns_do_not_depend_on_the_chunks_they_came_in(
    operations: list[dict[str, Any]], size: int
) -> None:
    events = [decoded(event) for event in operations]
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

    collector.add([decoded(kernel("gemm", 1, 2))])

    found = lists(collector.collected())
    assert [found[name] for name in ("correlation", "external_id", "size_bytes")] == [[NONE]] * 3
    assert np.isnan(found["occupancy_percent"]).all()


def test_arguments_are_read_beside_those_nobody_asks_for() -> None:
    collector = work()
    asked = {"bytes": 40, "est._achieved_occupancy_%": 25}

    collector.add(
        [with_arguments(kernel("gemm", 1, 2), queued=0, context=1, grid=[8, 2, 1], **asked)]
    )

    columns = collector.collected()
    assert (columns.size_bytes.tolist(), columns.occupancy_percent.tolist()) == ([40], [25.0])


def test_texts_and_names_that_repeat_are_kept_once() -> None:
    numberings = Numberings()
    collector = Collector(WorkSpans, numberings)

    collector.add(
        [
            with_arguments(kernel(name, 1, 2), grid=[3, 4], block=[])
            for name in ("gemm", "relu", "gemm")
        ]
    )

    columns = collector.collected()
    assert list(numberings.names) == ["gemm", "relu"]
    assert columns.name.tolist() == [0, 1, 0]
    assert list(numberings.texts) == [b"[3,4]", b"[]"]
    assert (columns.grid.tolist(), columns.block.tolist()) == ([0] * 3, [1] * 3)


def test_events_are_chosen_by_flag_and_by_position() -> None:
    collector = Collector(Spans, Numberings())
    collector.add([decoded(operation("aten::add", start, 1)) for start in (5, 6, 7)])
    columns = collector.collected()

    assert columns.chosen(columns.start_ns > 5000).start_ns.tolist() == [6000, 7000]
    assert columns.chosen(np.array([2, 0])).end_ns.tolist() == [8000, 6000]


def test_what_the_allocator_says_is_read_of_its_moments() -> None:
    collector = Collector(MemoryEvents, Numberings())
    moment = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 4}

    collector.add(
        [
            with_arguments(
                moment, Device_Type=1, Device_Id=0, Addr=77, Bytes=-512, Total_Allocated=1024
            )
        ]
    )

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
        (
            {"est. achieved occupancy %": "many"},
            "est. achieved occupancy %: 'many' is not a number",
        ),
    ],
)
def test_arguments_of_another_type_are_refused(arguments: Any, named: str) -> None:
    sound = decoded(kernel("copy", 0, 1))

    with pytest.raises(DamagedDocumentError) as raised:
        work().add([sound, decoded({**kernel("gemm", 1, 2), "args": arguments})])

    assert str(raised.value) == f"the args of the event 'gemm', {named}"


@pytest.mark.parametrize("missing", [None, 2**64 - 1])
def test_a_number_that_is_written_as_none_is_none(missing: int | None) -> None:
    collector = work()

    collector.add([with_arguments(kernel("gemm", 1, 2), bytes=missing, correlation=3)])

    columns = collector.collected()
    assert (columns.size_bytes.tolist(), columns.correlation.tolist()) == ([NONE], [3])


def test_an_event_may_say_null_where_its_arguments_stand() -> None:
    collector = work()

    collector.add([decoded({**kernel("gemm", 1, 2), "args": None})])

    assert collector.collected().correlation.tolist() == [NONE]


@pytest.mark.parametrize("arguments", [[1], [{}], "many", 5, 0.5, True])
@pytest.mark.parametrize("position", [0, 2])
def test_arguments_that_are_no_object_are_refused_where_they_are_kept(
    arguments: Any, position: int
) -> None:
    events = [decoded(kernel("copy", start, 1)) for start in range(4)]
    events[position] = decoded({**kernel("gemm", 1, 2), "args": arguments})

    with pytest.raises(DamagedDocumentError) as raised:
        work().add(events)

    assert str(raised.value) == "the args of the event 'gemm' are not an object"


@pytest.mark.parametrize("arguments", [[], [1], "", "many", 5, 0.5, True])
def test_an_event_of_a_kind_that_nobody_reads_may_have_any_arguments(arguments: Any) -> None:
    unread = {**span("overhead", "Buffer Flush", 3, 1, on=MAIN), "args": arguments}
    stacks = {**span("python_function", "train.py(3): step", 3, 1, on=MAIN), "args": arguments}

    trace = trace_of(step(1, 0, 10), unread, operation("aten::add", 1, 2), stacks, unread)

    assert (len(trace.calls), len(trace.functions)) == (1, 1)


YEAR_2026_US = 1_763_719_234_567_890
BASES_US = st.sampled_from([0, 5_812_345_678_901, YEAR_2026_US, 9_999_999_999, -3_000_000_000_000])
TIMES_NS = st.lists(st.integers(0, 10**12), min_size=1, max_size=9)


def starts_ns(
    texts: list[str], *, event_type: type[document.RawEvent] = document.RawEvent
) -> Integers:
    """Of events whose times are written so; read again with every digit where floats do not hold
    them.
    """
    events = ",".join(f'{{"name":"aten::add","ts":{text}}}' for text in texts)
    chunks = events_of([f"[{events}]".encode()], {}, event_type=event_type)
    try:
        return reading.starts_ns([event for chunk in chunks for event in chunk])
    except InexactTimesError:
        return starts_ns(texts, event_type=document.ExactEvent)


def durations_ns(*durations_us: float | None) -> Any:
    """Of operations that last so long, as they are collected."""
    collector = Collector(Spans, Numberings())
    collector.add(
        [document.RawEvent(name="aten::add", ts=0, dur=duration_us) for duration_us in durations_us]
    )
    return collector.collected().duration_ns.tolist()


def microseconds(time_ns: int, *, decimals: int = 3) -> str:
    return f"{Decimal(time_ns) / 1000:.{decimals}f}"


@given(BASES_US, TIMES_NS)
def test_microseconds_with_three_decimals_are_exact_for_any_base(
    base_us: int, times_ns: list[int]
) -> None:
    expected = [base_us * 1000 + time_ns for time_ns in times_ns]

    assert starts_ns([microseconds(time_ns) for time_ns in expected]).tolist() == expected


@given(st.lists(st.integers(-39 * 10**17, 39 * 10**17), min_size=1, max_size=9))
def test_times_of_several_clocks_in_one_chunk_are_exact(times_ns: list[int]) -> None:
    assert starts_ns([microseconds(time_ns) for time_ns in times_ns]).tolist() == times_ns


@pytest.mark.parametrize(
    ("texts", "expected_ns"),
    [
        (
            ["1763719234567890.123", "1763719234567890.124"],
            [1763719234567890123, 1763719234567890124],
        ),
        (["1763719234567890.12", "1763719234567890"], [1763719234567890120, 1763719234567890000]),
        (["1763719234567890.1239"], [1763719234567890124]),
        (["1.763719234567890e15", "0.001"], [1763719234567890000, 1]),
        (
            ["1763719999999999.999", "1763720000000000.000"],
            [1763719999999999999, 1763720000000000000],
        ),
        (["-0.001", "0.001"], [-1, 1]),
    ],
)
def test_every_way_of_writing_a_number_is_exact(texts: list[str], expected_ns: list[int]) -> None:
    assert starts_ns(texts).tolist() == expected_ns


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        *((text, "beyond any clock") for text in ("4e15", "-4e15", "1e300")),
        *(
            (text, r"event 2, ts: Expected `float \| null`")
            for text in ('"12"', "true", "[]", "{}")
        ),
        ("null", "the event 'aten::add' has no ts"),
    ],
)
def test_a_time_that_is_none_is_refused(texts: str, message: str) -> None:
    with pytest.raises(DamagedDocumentError, match=message):
        starts_ns(["1.5", texts])


@pytest.mark.parametrize(
    "text",
    [
        *('"NaN"', '"sNaN"', '"1e9999999"', '"later"', "true", "[]", "{}", "null"),
        *("1e9999999", "-1e9999999", "1e99999999999999999999", "9" * 100_000),
    ],
)
def test_a_time_that_is_none_is_refused_where_every_digit_counts_too(text: str) -> None:
    with pytest.raises(
        DamagedDocumentError, match=r"beyond any clock|has no ts|event 2, ts: (Expected|Invalid)"
    ):
        starts_ns(["1763719234567890.123", text], event_type=document.ExactEvent)


@given(st.integers(0, 10**6))
def test_floats_are_refused_from_where_they_lose_nanoseconds(beyond_us: int) -> None:
    with pytest.raises(InexactTimesError):
        reading.starts_ns([document.RawEvent(ts=EXACT_US + beyond_us)])


@given(st.integers(0, int(EXACT_US) * 1000 - 1), st.sampled_from([-1, 1]))
def test_floats_below_are_exact(time_ns: int, sign: int) -> None:
    assert reading.starts_ns(
        [document.RawEvent(ts=float(microseconds(sign * time_ns)))]
    ).tolist() == [sign * time_ns]


@given(st.lists(st.integers(0, 8 * 10**15), min_size=1))
def test_durations_are_exact(times_ns: list[int]) -> None:
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
