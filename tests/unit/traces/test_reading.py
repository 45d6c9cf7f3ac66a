"""A trace is read as it stands, or refused in one line that names the file and what to do."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_report.traces import TraceError, read_trace
from tests.unit.traces.by_hand import MAIN, kernel, launch, mark, operation, span, step, trace_of, write

FIXTURES = Path(__file__).parents[2] / "data" / "traces"
NAME = "rank0.pt.trace.json.gz"


def test_times_keep_their_nanoseconds_since_1970(tmp_path: Path) -> None:
    events = '{"ph":"X","cat":"%s","name":"%s","pid":1,"tid":1,"ts":%s,"dur":%s}'
    step_text = events % ("user_annotation", "ProfilerStep#1", "1763719234567890.123", "20.001")
    operation_text = events % ("cpu_op", "aten::add", "1763719234567890.124", "1.002")
    path = tmp_path / "trace.json"
    path.write_text(f'{{"traceEvents": [{step_text}, {operation_text}]}}')

    trace = read_trace(path)

    assert (trace.steps[0].start_ns, trace.steps[0].end_ns) == (0, 20001)
    assert (trace.calls[0].start_ns, trace.calls[0].duration_ns) == (1, 1002)


def test_plain_and_gzipped_traces_read_alike(tmp_path: Path) -> None:
    events = [step(1, 0, 10), operation("aten::add", 1, 2)]

    plain = read_trace(write(tmp_path / "trace.json", events))
    zipped = read_trace(write(tmp_path / "trace.json.gz", events))

    assert (plain.steps, plain.calls) == (zipped.steps, zipped.calls)


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

    assert len({call.thread for call in trace.calls}) == 2


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

    assert trace.calls == ()
    assert len(trace.steps) == 1


def test_waiting_for_the_loader_is_an_operation(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

    assert [call.name for call in trace_of(tmp_path, step(1, 0, 10), mark(loader, 1, 5)).calls] == [loader]


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
    whole = (FIXTURES / f"{fixture}.pt.trace.json.gz").read_bytes()
    path = tmp_path / NAME
    for share in (0.001, 0.5, 0.99):
        path.write_bytes(whole[: int(len(whole) * share)])
        assert_refused(path, "")


def test_a_damaged_gzip_is_refused(tmp_path: Path) -> None:
    whole = bytearray((FIXTURES / "unet_cuda.pt.trace.json.gz").read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    path = tmp_path / NAME
    path.write_bytes(bytes(whole))

    assert_refused(path, "")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "not gzipped"),
        (b'{"traceEvents": []}', "not gzipped"),
        (gzip.compress(b'{"traceEvents": [', mtime=0), "not whole JSON"),
        (gzip.compress(b"\xff\xfe\xfa", mtime=0), "not whole JSON"),
        (gzip.compress(b"[" * 100_000, mtime=0), "not whole JSON"),
        (gzip.compress(b'{"traceEvents": [{"ts": NaN}]}', mtime=0), "NaN"),
        (gzip.compress(b"[]", mtime=0), "traceEvents"),
        (gzip.compress(b'{"schemaVersion": 1}', mtime=0), "traceEvents"),
        (gzip.compress(b'{"traceEvents": {}}', mtime=0), "traceEvents"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0), "ProfilerStep"),
        (gzip.compress(b'{"traceEvents": [1, null, "x", {"ph": "X"}]}', mtime=0), "ProfilerStep"),
    ],
)
def test_what_is_no_whole_trace_is_refused(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / NAME
    path.write_bytes(content)

    assert_refused(path, named)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"ts": "yesterday"}, "'yesterday'"),
        ({"ts": None}, "ts None"),
        ({"ts": True}, "ts True"),
        ({"dur": -1}, "negative duration -1"),
        ({"ts": 10**30}, "beyond any clock"),
        ({"args": [1]}, "args"),
    ],
)
def test_an_event_that_no_profiler_writes_is_refused(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    path = write(tmp_path / NAME, [step(1, 0, 10), {**operation("aten::add", 1, 2), **changed}])

    assert_refused(path, named)


@pytest.mark.parametrize(
    ("number", "named"),
    [("1e999999999", "beyond any clock"), ("1e" + "9" * 30, "not whole JSON"), ("9" * 5000, "not whole JSON")],
)
def test_a_number_too_large_to_write_out_is_refused_at_once(tmp_path: Path, number: str, named: str) -> None:
    text = json.dumps({"traceEvents": [step(1, 0, 10)]}).replace('"ts": 0', f'"ts": {number}')
    path = tmp_path / NAME
    path.write_bytes(gzip.compress(text.encode()))

    assert_refused(path, named)


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / NAME, "No such file")


def assert_refused(path: Path, named: str) -> None:
    with pytest.raises(TraceError) as raised:
        read_trace(path)
    message = str(raised.value)
    assert named in message
    assert str(path) in message
    assert "record it again" in message
    assert "\n" not in message
