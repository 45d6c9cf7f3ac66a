"""Parts of a file read by several processes, this one among them, with the results in the order of the file."""

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from gpu_report.traces.events import DamagedDocumentError
from gpu_report.traces.stream import Part
from gpu_report.traces.times import InexactTimesError
from gpu_report.traces.trace import TraceError

Result = TypeVar("Result")

_TOLD: tuple[type[Exception], ...] = (DamagedDocumentError, InexactTimesError, TraceError)


class BrokenReadingError(Exception):
    """A process that should read parts could not begin, ended before its work did, or could not hand it over."""


def read_in_turns(read: Callable[[Part], Result], parts: Sequence[Part], *, processes: int) -> Iterator[Result]:
    """What each part reads as: of each so many parts this process reads the first, and forked ones one each.

    Raises:
        BrokenReadingError: another process could not begin, or ended early; a daemonic one may not have others.
        DamagedDocumentError, InexactTimesError, TraceError: what `read` raised, here or elsewhere.
    """
    if current_process().daemon and processes > 1:
        raise BrokenReadingError
    helpers: list[_Helper] = []
    try:
        for number in range(1, processes):
            helpers.append(_Helper(read, parts[number::processes]))
        for number, part in enumerate(parts):
            turn = number % processes
            yield helpers[turn - 1].next_result() if turn else read(part)
    finally:
        for helper in helpers:
            helper.stop()


class _Helper:
    """A process that reads some parts, never more than one ahead of what is taken."""

    def __init__(self, read: Callable[[Part], Any], parts: Sequence[Part]) -> None:
        context = get_context("fork")
        self._results, sending = context.Pipe(duplex=False)
        self._process = context.Process(target=_read_all, args=(read, parts, sending, self._results), daemon=True)
        try:
            self._process.start()
        except OSError as error:  # no more processes allowed, or no memory for one
            raise BrokenReadingError from error
        sending.close()

    def next_result(self) -> Any:
        try:
            result = self._results.recv()
        except (EOFError, OSError) as error:  # it ended before a result, or within one
            raise BrokenReadingError from error
        if isinstance(result, Exception):
            raise result
        return result

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._results.close()


def _read_all(
    read: Callable[[Part], Any],
    parts: Sequence[Part],
    sending: "Connection[Any, Any]",
    receiving: "Connection[Any, Any]",
) -> None:
    """Send what each part reads as, or what was raised; end when nobody is left to take it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for the results is interrupted, and stops this process
    gc.disable()  # it would touch, and so copy, every page of what was there before the fork
    receiving.close()
    with suppress(BrokenPipeError):
        for part in parts:
            try:
                sending.send(read(part))
            except _TOLD as error:
                sending.send(error)
            except RecursionError:  # what a part says besides its events is nested too deep to be sent
                sending.send(BrokenReadingError())
