"""Parts read by several processes come back in order, and no process outlives the reading, however that ends."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from itertools import cycle, islice
from multiprocessing.connection import Connection
from time import sleep
from typing import Any

import psutil
import pytest

from gpu_report.traces.collecting import InexactTimesError
from gpu_report.traces.events import DamagedDocumentError
from gpu_report.traces.parallel import BrokenReadingError, read_in_turns
from gpu_report.traces.stream import Part
from gpu_report.traces.trace import TraceError

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
