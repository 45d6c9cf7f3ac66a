"""What a trace file holds, exact to the nanosecond, whatever its form, order and blocks, or why it
is refused.
"""

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.errors import TraceError
from gpu_report.traces import document, reading
from gpu_report.traces.document import DamagedDocumentError, events_of
from gpu_report.traces.reading import InexactTimesError, read_trace
from gpu_report.traces.tables import as_csv, tabulate_trace
from gpu_report.traces.trace import Integers, Step, Trace
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    MAIN,
    RawEvent,
    fixture_file,
    kernel,
    launch,
    mark,
    operation,
    step,
    trace_of,
    write,
)

RANK0 = "rank0.pt.trace.json.gz"
YEAR_2026_US = 1_763_719_234_567_890


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


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_a_trace_cut_anywhere_is_refused(tmp_path: Path, fixture: str) -> None:
    whole = (fixture_file(fixture)).read_bytes()
    path = tmp_path / RANK0
    for share in (0.001, 0.5, 0.99):
        path.write_bytes(whole[: int(len(whole) * share)])
        assert_refused(path, "")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "not whole JSON"),
        (gzip.compress(b'{"traceEvents": [', mtime=0), "not whole JSON"),
        (
            gzip.compress(
                b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": null, "dur": 1}]}', mtime=0
            ),
            "has no ts",
        ),
    ],
)
def test_what_is_no_whole_trace_is_refused(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / RANK0
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
    path = write(tmp_path / RANK0, [step(1, 0, 10), {**operation("aten::add", 1, 2), **changed}])

    assert_refused(path, named)


LEGACY = '[{"name": "add", "ph": "X", "ts": 1.5, "dur": 2, "tid": 1, "pid": "CPU functions"}]'
ASCEND = '[{"name": "add", "ph": "X", "ts": "1700000000000000.123", "dur": 2, "tid": 1, "pid": 1}]'
OTHER = '{"traceEvents": [{"ph": "X", "cat": "gpu_op", "name": "zeK", "ts": 1, "dur": 2}]}'
NAME_ONE = "name a trace that torch.profiler"


@pytest.mark.parametrize(
    ("content", "fault", "remedy"),
    [
        (b"PK\x03\x04 and more", "zip or tar archive", "unpack it"),
        (b"rank0.json" + bytes(247) + b"ustar", "zip or tar archive", "unpack it"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", "run git lfs pull"),
        (b"\n<!DOCTYPE html><html>", "web page", "download the trace itself"),
        (OTHER.encode("utf-16"), "UTF-16", "save it as UTF-8"),
        (OTHER.encode("utf-16-be"), "UTF-16", "save it as UTF-8"),
        (b"\n{\x08\x01\x10traceEvents", "Perfetto trace (protobuf)", NAME_ONE),
        (b"step,ms\n1,2\n", "not a JSON object", NAME_ONE),
        (b'{"rank": 1}', "holds no list traceEvents", NAME_ONE),
        (LEGACY.encode(), "list of operations by torch.autograd.profiler", NAME_ONE),
        (ASCEND.encode(), "such as Ascend's", NAME_ONE),
        (OTHER.encode(), "another program wrote it", NAME_ONE),
        (b"[]", "holds no ProfilerStep", NAME_ONE),
    ],
)
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_a_file_that_is_no_trace_is_named_as_what_it_is(
    tmp_path: Path, content: bytes, fault: str, remedy: str, packed: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / RANK0
    path.write_bytes(packed(content))

    with pytest.raises(TraceError, match=r"^[^\n]*$") as raised:
        read_trace(path)

    assert fault in str(raised.value)
    assert remedy in str(raised.value)
    assert "record it again" not in str(raised.value)


OLD_ARGUMENTS = {"External id": 2, "Trace name": "PyTorch Profiler", "Trace iteration": 0}


@pytest.mark.parametrize("old", [{"cat": "Operator"}, {"args": OLD_ARGUMENTS}])
def test_a_trace_of_pytorch_before_2_is_refused(tmp_path: Path, old: dict[str, Any]) -> None:
    path = write(tmp_path / RANK0, [{**operation("aten::add", 1, 2), **old}])

    with pytest.raises(TraceError, match=r"PyTorch before 2\.0 .*; record it with PyTorch 2\.0"):
        read_trace(path)


def test_old_words_that_others_add_to_a_trace_of_pytorch_2_refuse_nothing() -> None:
    new = operation("aten::add", 1, 2)
    new["args"]["Ev Idx"] = 0
    gaudi = [{**kernel("gemm", 2, 3), "cat": kind} for kind in ("Kernel", "Runtime")]
    memory = {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Profiler Event Index": 1}}
    quoted = mark('"cat": "Operator", "Trace iteration": 0', 1, 2)

    assert call_names(trace_of(operation("aten::add", 1, 2), *gaudi, memory, quoted))
    assert call_names(trace_of(new, {**operation("mine", 1, 2), "cat": "Operator"}))


def test_an_event_decades_before_the_others_is_refused_by_name(tmp_path: Path) -> None:
    later = operation("aten::mm", YEAR_2026_US, 50)
    path = write(tmp_path / RANK0, [later, kernel("volta_sgemm", 0, 0)])

    assert_refused(path, "'volta_sgemm' begins 20,413 days before the event 'aten::mm'")


def test_an_event_with_a_negative_duration_is_left_out_and_a_call_or_work_counted() -> None:
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
    assert trace.negative_durations == 2


def test_without_steps_the_whole_recording_is_one_step() -> None:
    trace = trace_of(mark("forward", 0, 90), operation("aten::add", 5, 2), kernel("gemm", 8, 4))

    assert trace.steps == (Step(0, 5000, 12000),)
    assert not trace.has_steps


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
    in_order = read_trace(write(tmp_path / RANK0, events))
    out_of_order = read_trace(
        write(tmp_path / RANK0, shuffled), block_bytes=data.draw(st.integers(100, 3000))
    )

    assert as_csv(tabulate_trace(out_of_order)) == as_csv(tabulate_trace(in_order))


BASES_US = st.sampled_from([0, 5_812_345_678_901, YEAR_2026_US, 9_999_999_999, -3_000_000_000_000])
TIMES_NS = st.lists(st.integers(0, 10**12), min_size=1, max_size=9)


def starts_ns(
    texts: list[str], *, event_type: type[document.RawEvent] = document.RawEvent
) -> Integers:
    """Of events whose times are written so; read again with every digit where floats do not hold
    them.
    """
    events = ",".join(f'{{"name":"aten::add","ts":{text}}}' for text in texts)
    text = f'{{"traceEvents":[{events}]}}'.encode()
    chunks = events_of([text], {}, event_type=event_type)
    try:
        return reading.starts_ns([event for chunk in chunks for event in chunk])
    except InexactTimesError:
        return starts_ns(texts, event_type=document.ExactEvent)


def microseconds(time_ns: int, *, decimals: int = 3) -> str:
    return f"{Decimal(time_ns) / 1000:.{decimals}f}"


@given(BASES_US, TIMES_NS)
def test_microseconds_with_three_decimals_are_exact_for_any_base(
    base_us: int, times_ns: list[int]
) -> None:
    expected = [base_us * 1000 + time_ns for time_ns in times_ns]

    assert starts_ns([microseconds(time_ns) for time_ns in expected]).tolist() == expected


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


def test_a_number_far_too_small_to_matter_is_read_at_once() -> None:
    assert starts_ns(["1763719234567890.123", "1e-999999"]).tolist() == [1763719234567890123, 0]
