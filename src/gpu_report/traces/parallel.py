"""A large trace divided into parts, which several processes read, with the results in the order of the file.

file -> places where one event ends and the next begins -> parts -> what each part reads as

A place is found by the layout that PyTorch writes, not proved: the process that reads a part finds out whether its text
is whole events, and if each part is, so is every place.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from gpu_report.traces.collecting import InexactTimesError
from gpu_report.traces.events import DamagedDocumentError
from gpu_report.traces.stream import GZIP_START, WHOLE, Part
from gpu_report.traces.trace import TraceError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LEAST_BYTES: Final = 3 << 24
"""One process reads so much in half a second; each further process takes some 15 MiB of memory of its own."""

PART_BYTES: Final = 1 << 22
"""Larger parts are no faster, and what is read of each is held twice while it is handed over."""

MOST_PROCESSES: Final = 8
"""Joining and tabulating is one process's work, and takes as long as reading an eighth."""

Result = TypeVar("Result")

_BETWEEN_EVENTS: Final = re.compile(rb"\}\s*,\s*(?=\{\s*\"ph\")")
_LOOKED_AT: Final = 1 << 18
_EXPECTED: Final = (DamagedDocumentError, InexactTimesError, TraceError)


class BrokenReadingError(Exception):
    """A process that should read parts could not begin, ended before its work did, or could not hand it over."""


def processes_for_reading() -> int:
    """As many as there are cores, up to MOST_PROCESSES; 1 where processes cannot be forked."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES) if sys.platform == "linux" else 1


def parts_of(path: Path, *, least_bytes: int = LEAST_BYTES, part_bytes: int = PART_BYTES) -> list[Part]:
    """Parts of about that size, in the order of the file; the whole of a file that has fewer than the least bytes.

    The whole, too, where it cannot be divided: where it is gzipped, or has another layout.
    """
    try:
        size = path.stat().st_size
        count = size // part_bytes if size >= least_bytes else 1
        with path.open("rb") as file:
            if count < 2 or not _is_plain_object(file):
                return [WHOLE]
            found = list(_places(file, size, count))
    except OSError:  # reading the whole reports it
        return [WHOLE]
    ends, begins = [end for end, _ in found], [begin for _, begin in found]
    parts = [Part(begin=begin, end=end) for begin, end in zip([0, *begins], [*ends, None], strict=True)]
    return parts if all(part.end is None or part.begin < part.end for part in parts) else [WHOLE]


def _is_plain_object(file: IO[bytes]) -> bool:
    text = file.read(_LOOKED_AT)
    return not text.startswith(GZIP_START) and text.lstrip()[:1] == b"{"


def _places(file: IO[bytes], size: int, count: int) -> Iterator[tuple[int, int]]:
    """Where an event ends and where the next one begins, behind each of the sizes at which parts alike would begin."""
    for position in (size * number // count for number in range(1, count)):
        file.seek(position)
        if match := _BETWEEN_EVENTS.search(file.read(_LOOKED_AT)):
            yield position + match.start() + 1, position + match.end()


def read_in_turns(read: Callable[[Part], Result], parts: Sequence[Part], *, processes: int) -> Iterator[Result]:
    """Yield what each part reads as, in the order of the file; the parts are dealt round-robin, this process first.

    Raises:
        BrokenReadingError: another process could not begin, or ended early; a daemonic one may not have others.
        DamagedDocumentError, InexactTimesError, TraceError: what `read` raised, here or elsewhere.
    """
    from multiprocessing import current_process  # here, since few traces need it

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
        from multiprocessing import get_context

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
    """Send what each part reads as, or the error; end when nobody is left to take it."""
    import gc
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the waiting process is interrupted, and stops this one
    gc.disable()  # it would touch, and so copy, every page of what was there before the fork
    receiving.close()
    with suppress(BrokenPipeError):
        for part in parts:
            try:
                sending.send(read(part))
            except _EXPECTED as error:
                sending.send(error)
            except RecursionError:  # metadata nested too deep to be sent
                sending.send(BrokenReadingError())
