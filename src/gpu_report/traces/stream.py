"""The bytes of a trace file, plain or gzipped, block by block."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from gpu_report.traces.trace import TraceError

BLOCK_BYTES: Final = 1 << 17
"""Decoding so much at a time is faster than the whole file at once, and keeps little in memory."""

GZIP_START: Final = b"\x1f\x8b"
MOST_EXPANDED: Final = 250
"""A gzipped trace grows by a factor of 10 to 60; a file that grows by more than this is not a trace."""

_ALWAYS_ALLOWED: Final = 1 << 26


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file, in bytes; without an end it goes on to the file's."""

    begin: int = 0
    end: int | None = None


WHOLE: Final = Part()


def blocks_of(path: Path, *, block_bytes: int = BLOCK_BYTES, part: Part = WHOLE) -> Iterator[bytes]:
    """The file's content, unzipped, in blocks of at most so many bytes; of a plain file also a part of it.

    Raises:
        TraceError: the file cannot be read, is not gzipped although its name says so, or its gzip is cut, damaged, or
            expands beyond MOST_EXPANDED.
    """
    try:
        with path.open("rb") as file:
            if file.read(2) == GZIP_START:
                yield from _unzipped(path, block_bytes)
            elif path.suffix == ".gz":
                raise TraceError(f"trace {path} is not gzipped although its name says so; record it again")
            else:
                yield from _within(file, part, block_bytes)
    except OSError as error:
        raise TraceError(f"cannot read trace {path}: {error.strerror or error}; record it again") from error


def _within(file: IO[bytes], part: Part, block_bytes: int) -> Iterator[bytes]:
    file.seek(part.begin)
    left = sys.maxsize if part.end is None else part.end - part.begin
    while block := file.read(min(block_bytes, left)):
        left -= len(block)
        yield block


def _unzipped(path: Path, block_bytes: int) -> Iterator[bytes]:
    """By isal where it has a wheel for this platform; the standard library takes three times as long."""
    import gzip  # here, since these imports take as long as reading a megabyte
    import zlib

    open_gzip: Callable[..., Any] = gzip.open
    damaged: tuple[Any, ...] = (gzip.BadGzipFile, zlib.error)
    try:
        from isal import igzip_lib, igzip_threaded
    except ImportError:
        pass
    else:
        open_gzip = partial(igzip_threaded.open, threads=1)
        damaged = (*damaged, igzip_lib.IsalError)
    read, most = 0, max(_ALWAYS_ALLOWED, MOST_EXPANDED * path.stat().st_size)
    try:
        with open_gzip(path, mode="rb") as file:
            while block := file.read(block_bytes):
                read += len(block)
                if read > most:
                    raise TraceError(
                        f"trace {path} expands to more than {MOST_EXPANDED} times its size, as no trace does; "
                        "if it is one, unzip it first"
                    )
                yield block
    except EOFError as error:
        raise TraceError(f"trace {path} ends in the middle; record it again") from error
    except damaged as error:
        raise TraceError(f"trace {path} is damaged ({error}); record it again") from error
