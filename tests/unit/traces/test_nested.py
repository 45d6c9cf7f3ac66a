"""Lists and objects nested without end, anywhere in a trace, end in one line of error or in a trace with its tables."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from gpu_report.cli import main
from gpu_report.traces.parallel import parts_of
from gpu_report.traces.reading import read_trace
from gpu_report.traces.stream import WHOLE, Part
from gpu_report.traces.trace import TraceError
from tests.unit.traces.by_hand import RawEvent, kernel, launch, operation, span, step

DEPTH: Final = 100_000
HOLE: Final = "@nested@"
NESTED: Final = {
    "lists": b"[" * DEPTH + b"]" * DEPTH,
    "objects": b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    "open lists": b"[" * DEPTH,
}


def filled(document: Any, nested: bytes) -> bytes:
    return json.dumps(document).encode().replace(f'"{HOLE}"'.encode(), nested)


def lists(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def events(**first_kernel: Any) -> list[RawEvent]:
    """A step with one event of each sort, the first of them a kernel, with one of a kind that nobody reads."""
    ran = kernel("gemm", 200, 600, correlation=1)
    ran["args"] |= first_kernel
    return [
        ran,
        step(1, 0, 1000),
        operation("aten::mm", 100, 300, external_id=1),
        launch(1, 150, 10),
        span("python_function", "a.py(1): f", 0, 900, on=(100, 100)),
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": {"Addr": 1, "Bytes": 5}},
        {"ph": "M", "name": "process_name", "pid": 1, "ts": 0, "args": {"name": "python"}},
    ]


def changed(sort: int, **fields: Any) -> dict[str, Any]:
    all_events = events()
    all_events[sort] |= fields
    return {"traceEvents": all_events}


KERNEL, _, OPERATION, LAUNCH, FUNCTION, MEMORY, UNREAD = range(7)
PLACES: Final[dict[str, Any]] = {
    "top": HOLE,
    "list of events": {"traceEvents": HOLE},
    "one event": {"traceEvents": [*events(), HOLE]},
    "an event of a list alone": [*events(), HOLE],
    "metadata before": {"odd": HOLE, "traceEvents": events()},
    "metadata behind": {"traceEvents": events(), "odd": HOLE},
    "device": {"deviceProperties": [{"name": HOLE, "totalGlobalMem": HOLE, "computeMajor": HOLE}], **changed(0)},
    "ranks": {**changed(0), "distributedInfo": {"rank": HOLE, "world_size": HOLE}},
    **{f"{key} of a kernel": {"traceEvents": events(**{key: HOLE})} for key in ("grid", "block", "stream", "odd")},
    **{
        f"{key} of an operation": changed(OPERATION, args={key: HOLE})
        for key in ("Input Dims", "Concrete Inputs", "Input dims", "External id", "odd")
    },
    **{f"args of event {sort}": changed(sort, args=HOLE) for sort in (OPERATION, LAUNCH, FUNCTION, MEMORY, UNREAD)},
    **{f"within the args of event {sort}": changed(sort, args={"odd": HOLE}) for sort in (MEMORY, UNREAD)},
    **{f"{field} of an event": changed(UNREAD, **{field: HOLE}) for field in ("name", "pid", "ts", "odd")},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("nested", NESTED)
def test_what_is_nested_100_000_deep_is_one_line_of_error_or_a_trace(
    place: str, nested: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = filled(PLACES[place], NESTED[nested])
    (tmp_path / "plain.json").write_bytes(text)
    (tmp_path / "zipped.json.gz").write_bytes(gzip.compress(text, compresslevel=1))

    for path in (tmp_path / "plain.json", tmp_path / "zipped.json.gz"):
        status = main(["trace", str(path), "--out", str(tmp_path / "tables")])

        error = capsys.readouterr().err
        assert (status, error.count("\n")) in {(0, 0), (2, 1)}
        assert len(error) < 500 + len(str(path))
        assert status == 0 or str(path) in error


@pytest.mark.parametrize("key", ["External id", "stream"])
def test_an_argument_nested_as_deep_as_can_be_read_is_refused_in_one_line(key: str, tmp_path: Path) -> None:
    """What is just not too deep to be read must not be too deep for the error that shows it."""
    path = tmp_path / "trace.json"
    document = {"traceEvents": events(**{key: HOLE})}
    for depth in range(sys.getrecursionlimit() - 150, sys.getrecursionlimit()):
        path.write_bytes(filled(document, lists(depth)))

        with pytest.raises(TraceError, match=r"nested deeper|not a whole number"):
            read_trace(path)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
# Python 3.12 and later warn of every fork once a library has started threads.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("depth", [600, DEPTH])
@pytest.mark.parametrize("place", ["behind the events", "in an event"])
def test_what_is_nested_in_a_part_is_read_as_in_the_whole_without_a_traceback(
    depth: int, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpu_report.traces.reading.processes_for_reading", lambda: 2)
    many = [event for _ in range(DEPTH // 100) for event in events()]
    behind, within = {"traceEvents": many, "odd": HOLE}, {"traceEvents": [*events(odd=HOLE), *many]}
    path = tmp_path / "trace.json"
    path.write_bytes(filled(behind if place == "behind the events" else within, lists(depth)))
    parts = parts_of(path, least_bytes=0, part_bytes=path.stat().st_size // 2)

    assert len(parts) == 2
    assert error_or_calls(path, parts) == error_or_calls(path, [WHOLE])
    assert capfd.readouterr().err == ""


def error_or_calls(path: Path, parts: list[Part]) -> str | int:
    try:
        return len(read_trace(path, parts=parts).calls)
    except TraceError as error:
        return str(error)
