"""A large trace read in parts, by a process each, is the trace read as a whole, and no process outlives the reading."""

import gzip
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import cycle, islice, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from time import sleep
from typing import Any

import psutil
import pytest

from gpu_report.traces.collecting import InexactTimesError, SortedEvents
from gpu_report.traces.events import DamagedDocumentError
from gpu_report.traces.parallel import BrokenReadingError, parts_of, read_in_turns
from gpu_report.traces.reading import read_trace
from gpu_report.traces.stream import WHOLE, Part, blocks_of
from gpu_report.traces.tables import as_csv, tabulate_trace
from gpu_report.traces.trace import Trace, TraceError
from tests.unit.traces.by_hand import fixture_file, operation, step

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone"),
    # Python 3.12 and later warn of every fork once a library has started threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

SMALL_BLOCK = 4096
"""Bytes: a part is many blocks."""


@pytest.fixture(autouse=True)
def three_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever cores the machine has: of three parts, two are read elsewhere."""
    monkeypatch.setattr("gpu_report.traces.reading.processes_for_reading", lambda: 3)


@pytest.fixture
def plain_trace(tmp_path: Path) -> Path:
    path = tmp_path / "rank0.pt.trace.json"
    path.write_bytes(gzip.decompress((fixture_file("unet_cuda")).read_bytes()))
    return path


def divided(path: Path, count: int) -> list[Part]:
    return parts_of(path, least_bytes=0, part_bytes=path.stat().st_size // count)


def laid_out_as_by_pytorch(events: list[dict[str, Any]]) -> bytes:
    inside = ",\n  ".join(json.dumps({"ph": event["ph"], **event}) for event in events)
    return f'{{"schemaVersion": 1,\n  "traceEvents": [\n  {inside}\n  ],\n"traceName": "x"\n}}'.encode()


def written(folder: Path, text: bytes) -> Path:
    path = folder / "rank0.pt.trace.json"
    path.write_bytes(text)
    return path


def read_in(parts: list[Part], path: Path) -> Trace:
    """Of a trace that need not be read as a whole after all, as it is where a part cannot be."""

    def blocks_of_a_part(path: Path, *, block_bytes: int, part: Part) -> Iterator[bytes]:
        assert part in parts
        return blocks_of(path, block_bytes=block_bytes, part=part)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpu_report.traces.reading.blocks_of", blocks_of_a_part)
        return read_trace(path, block_bytes=SMALL_BLOCK, parts=parts)


def read_whole(path: Path) -> Trace:
    return read_trace(path, parts=[WHOLE])


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_tables_do_not_depend_on_the_number_of_parts(plain_trace: Path, count: int) -> None:
    parts = divided(plain_trace, count)

    trace, whole = read_in(parts, plain_trace), read_whole(plain_trace)

    assert len(parts) == count
    assert as_csv(tabulate_trace(trace)) == as_csv(tabulate_trace(whole))
    assert trace.metadata == whole.metadata


def test_parts_follow_each_other_between_two_events(plain_trace: Path) -> None:
    text = plain_trace.read_bytes()

    parts = divided(plain_trace, 5)

    assert (parts[0].begin, parts[-1].end) == (0, None)
    for before, after in pairwise(parts):
        assert before.end is not None
        assert text[before.end - 1 : before.end] == b"}"
        assert text[before.end : after.begin].strip() == b","
        assert text[after.begin : after.begin + 1] == b"{"


def test_a_place_inside_a_string_is_found_out_and_the_whole_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rank0.pt.trace.json"
    deceiving = operation('aten::add}, {"ph"' + "x" * 5000, 1, 2)
    path.write_bytes(laid_out_as_by_pytorch([step(1, 0, 10), deceiving]))
    begin = path.read_bytes().index(b'\\"ph\\"') - 1

    trace = read_trace(path, parts=[Part(end=begin - 2), Part(begin=begin)])

    assert len(trace.calls) == 1


@pytest.mark.parametrize(
    "write",
    [
        lambda path, text: path.write_bytes(gzip.compress(text)),
        lambda path, text: path.write_bytes(text[text.index(b"[") : text.rindex(b"]") + 1]),
        lambda path, text: path.write_bytes(text.replace(b'{"ph"', b'{"name": "x", "ph"')),
    ],
    ids=["gzipped", "a list", "another layout"],
)
def test_what_cannot_be_divided_is_one_part(tmp_path: Path, write: Callable[[Path, bytes], object]) -> None:
    path = tmp_path / "rank0.pt.trace.json"
    write(path, laid_out_as_by_pytorch([operation("aten::add", number, 1) for number in range(500)]))

    assert divided(path, 4) == [WHOLE]


def test_a_small_trace_is_not_worth_dividing(plain_trace: Path) -> None:
    size = plain_trace.stat().st_size

    assert parts_of(plain_trace) == [WHOLE]
    assert parts_of(plain_trace, least_bytes=size + 1, part_bytes=size // 4) == [WHOLE]
    assert parts_of(plain_trace, least_bytes=size, part_bytes=size // 2 + 1) == [WHOLE]
    assert len(parts_of(plain_trace, least_bytes=size, part_bytes=size // 2)) == 2


def test_what_cannot_be_read_is_left_to_be_told_by_the_reading(tmp_path: Path) -> None:
    missing, folder = tmp_path / "missing.json", tmp_path / "folder.json"
    folder.mkdir()

    for path in (missing, folder):
        assert parts_of(path) == [WHOLE]
        with pytest.raises(TraceError, match="cannot read trace"):
            read_trace(path)


@pytest.mark.parametrize("sixth", [1, 3, 5], ids=["first", "second", "third"])
def test_damage_in_any_part_is_told_as_of_the_whole(plain_trace: Path, sixth: int) -> None:
    text = plain_trace.read_bytes()
    cut = text.rindex(b'"dur":', 0, len(text) * sixth // 6)
    plain_trace.write_bytes(text[:cut] + b'"dur": "long", "was":' + text[cut + len(b'"dur":') :])
    parts = divided(plain_trace, 3)

    with pytest.raises(TraceError) as of_parts:
        read_trace(plain_trace, parts=parts)
    with pytest.raises(TraceError) as of_whole:
        read_whole(plain_trace)

    assert len(parts) == 3
    assert str(of_parts.value) == str(of_whole.value)


def test_a_process_that_is_killed_costs_time_and_nothing_else(
    plain_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = as_csv(tabulate_trace(read_whole(plain_trace)))
    reader, add = os.getpid(), SortedEvents.add

    def die_elsewhere(self: SortedEvents, events: list[Any]) -> None:
        if os.getpid() != reader:
            os.kill(os.getpid(), signal.SIGKILL)
        add(self, events)

    monkeypatch.setattr(SortedEvents, "add", die_elsewhere)

    parts = divided(plain_trace, 3)
    assert len(parts) == 3
    assert as_csv(tabulate_trace(read_trace(plain_trace, parts=parts))) == whole


def test_times_since_1970_are_exact_in_every_part(tmp_path: Path) -> None:
    base_us = 1_763_719_234_567_890
    events = [{**operation("aten::add", 0, 1), "ts": base_us + number * 2} for number in range(400)]
    path = written(tmp_path, laid_out_as_by_pytorch(events).replace(b', "dur"', b'.123, "dur"'))
    parts = divided(path, 3)

    trace = read_in(parts, path)

    assert len(parts) == 3
    assert trace.calls.start_ns.tolist() == [number * 2000 for number in range(400)]


@pytest.mark.parametrize("since_1970", [200, 399])
def test_a_time_since_1970_in_a_later_part_makes_those_of_all_exact(tmp_path: Path, since_1970: int) -> None:
    events = [operation("aten::add", number, 0.5) for number in range(400)]
    events[since_1970]["ts"] = 1_763_719_234_567_890
    text = laid_out_as_by_pytorch(events).replace(b"567890,", b"567890.123,")
    path = written(tmp_path, text.replace(b'"ts": 7,', b'"ts": 7.001,'))
    parts = divided(path, 3)

    starts_ns = read_in(parts, path).calls.start_ns.tolist()

    assert len(parts) == 3
    assert starts_ns == read_whole(path).calls.start_ns.tolist()
    assert (starts_ns[7], starts_ns[-1]) == (7001, 1_763_719_234_567_890_123)


def test_events_of_negative_duration_are_counted_over_all_parts(tmp_path: Path) -> None:
    durations_us = [-1 if number % 10 == 3 else 1 for number in range(400)]
    events = [operation("aten::add", number, duration) for number, duration in enumerate(durations_us)]
    path = written(tmp_path, laid_out_as_by_pytorch(events))
    parts = divided(path, 3)

    trace = read_in(parts, path)

    assert len(parts) == 3
    assert trace.negative_durations == read_whole(path).negative_durations == 40
    assert len(trace.calls) == 360


@pytest.mark.parametrize("faulty", [[], [50], [200], [350], [50, 350]])
def test_what_is_mended_in_any_part_is_told(tmp_path: Path, faulty: list[int]) -> None:
    events = [operation("aten::fault" if number in faulty else "aten::add", number, 1) for number in range(400)]
    path = written(tmp_path, laid_out_as_by_pytorch(events).replace(b"aten::fault", rb"aten\fault\sound"))
    parts = divided(path, 3)

    trace = read_in(parts, path)

    assert len(parts) == 3
    assert trace.was_repaired == read_whole(path).was_repaired == bool(faulty)
    assert named_calls(trace) == named_calls(read_whole(path))


def test_what_first_occurs_in_another_order_in_a_later_part_is_the_same(tmp_path: Path) -> None:
    orders = (["loader", 1, "1"], ["1", 2, 1], [None, "loader", 2])
    events = [
        {**operation(f"aten::on_{thread}", number, 1, on=(7, thread)), "args": {"Input Dims": [[str(thread)], []]}}
        for number, thread in enumerate(thread for order in orders for _ in range(50) for thread in order)
    ]
    path = written(tmp_path, laid_out_as_by_pytorch(events))
    parts = divided(path, 3)

    trace, whole = read_in(parts, path), read_whole(path)

    assert len(parts) == 3
    assert trace.threads == whole.threads == ("7/loader", "7/1", "7/2", "7/None")
    assert sorted(trace.texts) == sorted(whole.texts)
    assert named_calls(trace) == named_calls(whole)


def named_calls(trace: Trace) -> list[tuple[str, str, str, int]]:
    """Of each call its name, its thread, its shapes and its begin."""
    calls = trace.calls
    return [
        (trace.names[name], trace.threads[thread], trace.texts[shapes], start_ns)
        for name, thread, shapes, start_ns in zip(
            *(column.tolist() for column in (calls.name, calls.thread, calls.shapes, calls.start_ns)), strict=True
        )
    ]


pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone"),
    # Python 3.12 and later warn of every fork once a library has started threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

PARTS = [Part(begin=number, end=number + 1) for number in range(7)]
LARGE = 1 << 22
"""Bytes: far more than a pipe holds, so that who sends them waits until they are taken."""


def in_helpers(act: Callable[[], Any]) -> Callable[[Part], Any]:
    """Reads nothing in this process, and does that in the others."""
    reader = os.getpid()
    return lambda part: None if os.getpid() == reader else act()


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_results_come_in_the_order_of_the_parts_from_each_process_in_turn() -> None:
    results = list(read_in_turns(lambda part: (part, os.getpid()), PARTS, processes=3))

    readers = [reader for _, reader in results]
    assert [part for part, _ in results] == PARTS
    assert readers == list(islice(cycle(readers[:3]), len(PARTS)))
    assert readers[0] == os.getpid()
    assert len(set(readers)) == 3


def test_one_process_reads_everything_itself() -> None:
    assert list(read_in_turns(lambda part: (part.begin, os.getpid()), PARTS, processes=1)) == [
        (part.begin, os.getpid()) for part in PARTS
    ]


def test_results_that_no_pipe_holds_come_whole() -> None:
    results = list(read_in_turns(lambda part: bytes([part.begin]) * LARGE, PARTS, processes=3))

    assert [(len(result), {*result}) for result in results] == [(LARGE, {part.begin}) for part in PARTS]


@pytest.mark.parametrize(
    "error", [DamagedDocumentError("it ends too early"), TraceError("it is no trace"), InexactTimesError()]
)
def test_what_a_helper_finds_wrong_is_raised_here(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        list(read_in_turns(in_helpers(raising(error)), PARTS, processes=3))

    assert str(raised.value) == str(error)
    assert multiprocessing.active_children() == []


def test_what_comes_before_an_error_is_given_first() -> None:
    def read(part: Part) -> int:
        if part.begin == 4:
            raise DamagedDocumentError
        return part.begin

    given: list[int] = []

    with pytest.raises(DamagedDocumentError):
        given.extend(read_in_turns(read, PARTS, processes=3))

    assert given == [0, 1, 2, 3]


def test_an_error_here_stops_the_helpers() -> None:
    def read(part: Part) -> bytes:
        if part.begin == 3:
            raise DamagedDocumentError
        return bytes(LARGE)

    with pytest.raises(DamagedDocumentError):
        list(read_in_turns(read, PARTS, processes=3))

    assert multiprocessing.active_children() == []


def test_helpers_whose_results_nobody_wants_any_more_are_stopped() -> None:
    results = read_in_turns(lambda part: bytes(LARGE), PARTS, processes=3)
    next(results)
    assert len(multiprocessing.active_children()) == 2

    results.close()  # type: ignore[attr-defined]

    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("end", [be_killed, raising(ZeroDivisionError())], ids=["killed", "another error"])
def test_a_helper_that_ends_before_it_sends_anything_breaks_the_reading(end: Callable[[], None]) -> None:
    with pytest.raises(BrokenReadingError):
        list(read_in_turns(in_helpers(end), PARTS, processes=3))

    assert multiprocessing.active_children() == []


def test_a_helper_that_is_killed_within_a_result_breaks_the_reading() -> None:
    reader = os.getpid()

    def read(part: Part) -> bytes:
        if os.getpid() == reader:
            for helper in multiprocessing.active_children():
                wait_until_it_waits(helper.pid)
                helper.kill()
                helper.join()
        return bytes(LARGE)

    with pytest.raises(BrokenReadingError):
        list(read_in_turns(read, PARTS, processes=3))


def wait_until_it_waits(pid: int | None) -> None:
    process = psutil.Process(pid)
    while process.status() == psutil.STATUS_RUNNING:
        sleep(0.001)


def test_a_helper_that_cannot_be_started_breaks_the_reading_and_stops_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forks = iter([os.fork])

    def fork() -> int:
        for allowed in forks:
            return allowed()
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)

    with pytest.raises(BrokenReadingError):
        list(read_in_turns(lambda part: None, PARTS, processes=3))

    assert multiprocessing.active_children() == []


def test_a_daemonic_process_may_read_alone_and_not_with_others() -> None:
    forking = multiprocessing.get_context("fork")
    receiving, sending = forking.Pipe(duplex=False)
    process = forking.Process(target=send_outcomes, args=(sending,), daemon=True)

    process.start()
    sending.close()

    assert (receiving.recv(), receiving.recv()) == ("read", "broken")
    process.join()


def send_outcomes(sending: "Connection[Any, Any]") -> None:
    for processes in (1, 3):
        try:
            list(read_in_turns(lambda part: None, PARTS, processes=processes))
        except BrokenReadingError:
            sending.send("broken")
        else:
            sending.send("read")
