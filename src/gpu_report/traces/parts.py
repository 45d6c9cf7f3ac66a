"""Where a large trace can be divided, so that several processes read a part of it each.

file -> places where one event ends and the next begins -> parts

A place is found by the layout that PyTorch writes, not proved: who reads a part finds out whether its text is whole
events, and if each part is, so is every place.
"""

import os
import re
import sys
from pathlib import Path
from typing import IO, Final

from gpu_report.traces.stream import GZIP_START, WHOLE, Part

LEAST_BYTES: Final = 1 << 26
"""Of a part: it takes half a second to read, and a further process some 50 ms and 45 MiB of its own."""

MOST_PARTS: Final = 8
"""What is left, taking over and tabulating, is one process's work and as long as reading an eighth."""

_BETWEEN_EVENTS: Final = re.compile(rb"\}\s*,\s*(?=\{\s*\"ph\")")
_LOOKED_AT: Final = 1 << 18


def parts_of(path: Path, *, least_bytes: int = LEAST_BYTES, most: int | None = None) -> list[Part]:
    """The parts in the order of the file, no more than there are cores; the whole where it cannot be divided.

    That is where it is gzipped, has another layout, or where processes cannot be forked.
    """
    if sys.platform != "linux" or not path.is_file():
        return [WHOLE]
    size = path.stat().st_size
    count = min(most or min(len(os.sched_getaffinity(0)), MOST_PARTS), size // least_bytes)
    with path.open("rb") as file:
        if count < 2 or not _is_plain_object(file):
            return [WHOLE]
        places = [_place_behind(size * number // count, file) for number in range(1, count)]
    found = [place for place in places if place]
    ends, begins = [end for end, _ in found], [begin for _, begin in found]
    parts = [Part(begin=begin, end=end) for begin, end in zip([0, *begins], [*ends, None], strict=True)]
    return parts if all(part.end is None or part.begin < part.end for part in parts) else [WHOLE]


def _is_plain_object(file: IO[bytes]) -> bool:
    text = file.read(_LOOKED_AT)
    return not text.startswith(GZIP_START) and text.lstrip()[:1] == b"{"


def _place_behind(position: int, file: IO[bytes]) -> tuple[int, int] | None:
    """Where an event ends and where the next one begins."""
    file.seek(position)
    match = _BETWEEN_EVENTS.search(file.read(_LOOKED_AT))
    return (position + match.start() + 1, position + match.end()) if match else None
