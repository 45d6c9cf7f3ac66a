"""What a trace file holds, whatever its form, order and blocks, or why it is refused."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import as_csv, tabulate_trace
from gpu_report.traces.trace import NONE, Columns, Step, Trace, TraceError
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


@pytest.mark.parametrize("metadata", [{"rank": 3}, {"distributedInfo": {"rank": 3, "world_size": 4}}])
def test_the_rank_is_taken_from_the_metadata(tmp_path: Path, metadata: dict[str, Any]) -> None:
    assert trace_of(tmp_path, step(1, 0, 10), **metadata).rank == 3


def test_rank_and_run_are_not_guessed(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, step(1, 0, 10))

    assert (trace.rank, trace.run_id) == (None, None)


def test_the_run_id_is_taken_from_the_metadata(tmp_path: Path) -> None:
    assert trace_of(tmp_path, step(1, 0, 10), gpu_report_run="5f3a").run_id == "5f3a"


def test_threads_keep_apart_whether_their_names_are_numbers_or_words(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 10),
        operation("aten::add", 1, 2, on=(1, 2)),
        operation("aten::add", 1, 2, on=("1", "loader")),
        operation("aten::add", 1, 2, on=(1, "loader")),
    )

    assert [trace.threads[thread] for thread in trace.calls.thread] == ["1/2", "1/loader", "1/loader"]
    assert len(set(trace.threads)) == len(trace.threads)


def test_marks_and_python_frames_are_no_operations(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 10),
        mark("forward", 1, 5),
        span("python_function", "train.py(3): step", 1, 5, on=MAIN),
        span("gpu_user_annotation", "ProfilerStep#1", 1, 5, on=(0, 7)),
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1},
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    )

    assert len(trace.calls) == 0
    assert len(trace.steps) == 1


def test_waiting_for_the_loader_is_an_operation(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

    assert call_names(trace_of(tmp_path, step(1, 0, 10), mark(loader, 1, 5))) == [loader]


@pytest.mark.parametrize(
    ("kind", "device"), [("cuda_runtime", "cuda"), ("cuda_driver", "cuda"), ("xpu_runtime", "xpu")]
)
def test_the_device_is_named_as_the_trace_names_its_driver(tmp_path: Path, kind: str, device: str) -> None:
    trace = trace_of(tmp_path, step(1, 0, 9), span(kind, "launch", 1, 1, on=MAIN), kernel("gemm", 2, 1, correlation=1))

    assert trace.device == device


def test_a_trace_without_device_work_has_no_device(tmp_path: Path) -> None:
    assert trace_of(tmp_path, step(1, 0, 9), launch(1, 1)).device is None


def test_the_steps_stand_in_order_of_time(tmp_path: Path) -> None:
    assert [each.number for each in trace_of(tmp_path, step(8, 20, 10), step(7, 0, 10)).steps] == [7, 8]


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
        (gzip.compress(b'{"otherData": ' + b"[" * 100_000, mtime=0), "nested deeper"),
        (gzip.compress(b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": NaN, "dur": 1}]}', mtime=0), "has no ts"),
        (gzip.compress(b"[]", mtime=0), "ProfilerStep"),
        (gzip.compress(b'{"schemaVersion": 1}', mtime=0), "no list traceEvents"),
        (gzip.compress(b'{"traceEvents": [1, null, "x", {"ph": "X"}]}', mtime=0), "event 1: Expected"),
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
def test_an_event_that_no_profiler_writes_is_refused(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    path = write(tmp_path / NAME, [step(1, 0, 10), {**operation("aten::add", 1, 2), **changed}])

    assert_refused(path, named)


@pytest.mark.parametrize(
    ("number", "named"),
    [("1e300", "beyond any clock"), ("1e999999999", "Number out of range"), ("9" * 5000, "out of range")],
)
def test_a_number_too_large_to_write_out_is_refused_at_once(tmp_path: Path, number: str, named: str) -> None:
    text = json.dumps({"traceEvents": [step(1, 0, 10)]}).replace('"ts": 0', f'"ts": {number}')
    path = tmp_path / NAME
    path.write_bytes(gzip.compress(text.encode()))

    assert_refused(path, named)


def test_an_event_with_a_negative_duration_is_left_out_and_counted(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace = trace_of(
        tmp_path,
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


def test_without_steps_the_whole_recording_is_one_step(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, mark("forward", 0, 90), operation("aten::add", 5, 2), kernel("gemm", 8, 4))

    assert trace.steps == (Step(0, 5000, 12000),)
    assert not trace.has_steps


def test_a_step_that_is_recorded_is_told_from_one_that_stands_for_the_recording(tmp_path: Path) -> None:
    assert trace_of(tmp_path, step(0, 0, 10), operation("aten::add", 5, 2)).has_steps


def test_a_trace_in_which_nothing_lasts_is_refused(tmp_path: Path) -> None:
    assert_refused(write(tmp_path / NAME, [operation("aten::add", 5, 0)]), "ProfilerStep")


def test_the_words_of_old_profilers_are_read_as_those_of_today(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        span("Operator", "ProfilerStep#5", 0, 90, on=MAIN),
        {**span("Operator", "aten::mm", 1, 8, on=MAIN, external_id=2), "args": {"External id": 2, "Input dims": [[3]]}},
        span("Runtime", "cudaLaunchKernel", 2, 1, on=MAIN, correlation=3),
        {**span("Kernel", "gemm", 4, 5, on=(0, 7)), "args": {"correlation": 3, "external id": 2}},
        span("Memcpy", "Memcpy HtoD", 10, 5, on=(0, 7)),
        span("Memset", "Memset", 15, 5, on=(0, 7)),
    )

    assert [trace.kinds[kind] for kind in trace.calls.kind] == ["cpu_op", "cuda_runtime"]
    assert [trace.kinds[kind] for kind in trace.work.kind] == ["kernel", "gpu_memcpy", "gpu_memset"]
    assert (trace.steps, trace.device) == ((Step(5, 0, 90_000),), "cuda")
    assert trace.texts[trace.calls.shapes[0]] == "[[3]]"
    assert trace.work.external_id.tolist() == [2, NONE, NONE]


def test_old_words_are_found_behind_many_calls_that_have_none(tmp_path: Path) -> None:
    launches = [launch(number, number, 0.5) for number in range(1, 300)]
    product = {**operation("aten::mm", 400, 8), "args": {"External id": 2, "Input dims": [[3]]}}

    trace = trace_of(tmp_path, step(1, 0, 500), *launches, product)

    assert trace.texts[trace.calls.shapes[-1]] == "[[3]]"


def test_launches_of_rocm_are_driver_calls(tmp_path: Path) -> None:
    hip = span("hip_runtime", "hipLaunchKernel", 1, 1, on=MAIN, correlation=4)

    trace = trace_of(tmp_path, step(1, 0, 9), hip, kernel("Cijk_Ailk_Bljk_SB_MT64x64", 2, 1, correlation=4))

    assert (call_names(trace), trace.device) == (["hipLaunchKernel"], "hip")


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / NAME, "No such file")


def call_names(trace: Trace) -> list[str]:
    return [trace.names[name] for name in trace.calls.name]


def columns_of(columns: Columns) -> dict[str, list[float]]:
    return {column: getattr(columns, column).tolist() for column in columns.__struct_fields__}


def assert_refused(path: Path, named: str) -> None:
    with pytest.raises(TraceError) as raised:
        read_trace(path)
    message = str(raised.value)
    assert named in message
    assert str(path) in message
    assert "record it again" in message
    assert "\n" not in message


NAME = "rank0.pt.trace.json.gz"


@st.composite
def scenes(draw: st.DrawFn) -> list[RawEvent]:
    """Two steps with operations, launches and kernels, none of which begins when another does."""
    moments = iter(draw(st.permutations(range(1, 60))))
    durations, names = st.integers(1, 30), st.sampled_from(["aten::mm", "aten::add", "aten::conv2d"])
    events = [step(1, 0.25, 30), step(2, 30.25, 40)]
    for number in range(draw(st.integers(1, 6))):
        thread = draw(st.sampled_from([MAIN, AUTOGRAD]))
        events += [
            operation(draw(names), next(moments), draw(durations), on=thread),
            launch(number + 1, next(moments), 0.5, on=thread),
            kernel(draw(st.sampled_from(["gemm", "relu"])), next(moments), draw(durations), correlation=number + 1),
        ]
    return events


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_the_tables_depend_neither_on_the_order_of_the_events_nor_on_the_block(
    tmp_path: Path, data: st.DataObject
) -> None:
    events = data.draw(scenes())
    shuffled = data.draw(st.permutations(events))
    in_order = read_trace(write(tmp_path / NAME, events))
    out_of_order = read_trace(write(tmp_path / NAME, shuffled), block_bytes=data.draw(st.integers(100, 3000)))

    assert as_csv(tabulate_trace(out_of_order)) == as_csv(tabulate_trace(in_order))


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_a_real_trace_is_the_same_in_blocks_of_any_size(fixture: str) -> None:
    path = fixture_file(fixture)
    whole = as_csv(tabulate_trace(read_trace(path, block_bytes=1 << 26)))

    for block_bytes in (5_000, 12_345):
        assert as_csv(tabulate_trace(read_trace(path, block_bytes=block_bytes))) == whole
