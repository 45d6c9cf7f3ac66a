"""The bytes of a trace file, plain or gzipped, block by block."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from gpu_report.traces.trace import TraceError

BLOCK_BYTES: Final = 1 << 17
"""Decoding so much at a time is faster than the whole file at once, and keeps little in memory."""

GZIP_START: Final = b"\x1f\x8b"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file, in bytes; without an end it goes on to the file's."""

    begin: int = 0
    end: int | None = None


WHOLE: Final = Part()


def blocks_of(path: Path, *, block_bytes: int = BLOCK_BYTES, part: Part = WHOLE) -> Iterator[bytes]:
    """The file's content, unzipped, in blocks of so many bytes or fewer; of a plain file also a part of it.

    Raises:
        TraceError: the file cannot be read, is not gzipped although its name says so, or cannot be unzipped whole.
    """
    try:
        with path.open("rb") as file:
            if file.read(2) != GZIP_START:
                if path.suffix == ".gz":
                    raise TraceError(f"trace {path} is not gzipped although its name says so; record it again")
                yield from _within(file, part, block_bytes)
                return
        from gpu_report.traces.unzipping import unzipped  # what it imports takes as long as reading a megabyte

        yield from unzipped(path, block_bytes=block_bytes)
    except OSError as error:
        raise TraceError(f"cannot read trace {path}: {error.strerror or error}; record it again") from error


def _within(file: IO[bytes], part: Part, block_bytes: int) -> Iterator[bytes]:
    file.seek(part.begin)
    left = sys.maxsize if part.end is None else part.end - part.begin
    while block := file.read(min(block_bytes, left)):
        left -= len(block)
        yield block
