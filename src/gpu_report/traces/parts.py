"""Where a large trace can be divided, so that several processes read a part of it each.

file -> places where one event ends and the next begins -> parts

A place is found by the layout that PyTorch writes, not proved: who reads a part finds out whether its text is whole
events, and if each part is, so is every place.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from gpu_report.traces.stream import GZIP_START, WHOLE, Part

LEAST_BYTES: Final = 3 << 24
"""Reading so much takes one process half a second, and each further one some 15 MiB of memory of its own."""

PART_BYTES: Final = 1 << 22
"""Larger parts are no faster, and what is read of each is held twice while it is handed over."""

MOST_PROCESSES: Final = 8
"""What is left, taking over and tabulating, is one process's work and as long as reading an eighth."""

_BETWEEN_EVENTS: Final = re.compile(rb"\}\s*,\s*(?=\{\s*\"ph\")")
_LOOKED_AT: Final = 1 << 18


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
    except OSError:  # told by whoever reads the whole
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
