"""Parts of a file read by several processes, this one among them, with the results in the order of the file."""

from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from gpu_report.traces.stream import Part

Result = TypeVar("Result")


class BrokenReadingError(Exception):
    """A process that read parts ended before its work did."""


def read_in_turns(read: Callable[[Part], Result], parts: Sequence[Part], *, processes: int) -> Iterator[Result]:
    """What each part reads as: of each so many parts this process reads the first, and forked ones one each.

    Raises:
        BrokenReadingError: another process ended early.
        Exception: what `read` raised, here or elsewhere.
    """
    helpers = [_Helper(read, parts[number::processes]) for number in range(1, processes)]
    try:
        for number, part in enumerate(parts):
            turn = number % processes
            yield helpers[turn - 1].next_result() if turn else read(part)
    finally:
        for helper in helpers:
            helper.stop()


class _Helper:
    """A process that reads some parts, each while the result of the one before it is taken."""

    def __init__(self, read: Callable[[Part], Any], parts: Sequence[Part]) -> None:
        context = get_context("fork")
        self._results, sending = context.Pipe(duplex=False)
        self._process = context.Process(target=_read_all, args=(read, parts, sending), daemon=True)
        self._process.start()
        sending.close()

    def next_result(self) -> Any:
        try:
            result = self._results.recv()
        except EOFError as error:
            raise BrokenReadingError from error
        if isinstance(result, Exception):
            raise result
        return result

    def stop(self) -> None:
        self._results.close()
        self._process.terminate()
        self._process.join()


def _read_all(read: Callable[[Part], Any], parts: Sequence[Part], results: "Connection[Any, Any]") -> None:
    for part in parts:
        try:
            result = read(part)
        except Exception as error:  # noqa: BLE001 -- raised where the result is taken
            result = error
        results.send(result)
