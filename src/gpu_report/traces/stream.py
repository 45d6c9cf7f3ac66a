"""The bytes of a trace file, plain or gzipped, block by block."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from gpu_report.traces.trace import TraceError

try:
    from isal import igzip_threaded
except ImportError:  # no wheel for this platform: the standard library takes three times as long
    igzip_threaded = None

BLOCK_BYTES: Final = 1 << 18
"""Decoding so much at a time is faster than the whole file at once, and keeps little in memory."""

MOST_EXPANDED: Final = 250
"""A gzipped trace grows by a factor of 10 to 60; what grows beyond this one is no trace."""

_ALWAYS_ALLOWED: Final = 1 << 26
_GZIP_START: Final = b"\x1f\x8b"


def blocks_of(path: Path) -> Iterator[bytes]:
    """The file's content, unzipped, in blocks of about BLOCK_BYTES.

    Raises:
        TraceError: the file cannot be read, is not gzipped although its name says so, or its gzip is cut, damaged, or
            expands beyond MOST_EXPANDED.
    """
    try:
        with path.open("rb") as file:
            is_gzipped = file.read(2) == _GZIP_START
        if not is_gzipped and path.suffix == ".gz":
            raise TraceError(f"trace {path} is not gzipped although its name says so; record it again")
        with _unzipping(path) if is_gzipped else path.open("rb") as file:
            yield from _limited(file, path, most=_most_bytes(path) if is_gzipped else None)
    except EOFError as error:
        raise TraceError(f"trace {path} ends in the middle; record it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"trace {path} is damaged ({error}); record it again") from error
    except OSError as error:
        raise TraceError(f"cannot read trace {path}: {error.strerror or error}; record it again") from error


def _unzipping(path: Path) -> IO[bytes]:
    if igzip_threaded is None:
        return gzip.open(path, "rb")
    file: IO[bytes] = igzip_threaded.open(path, "rb", threads=1)
    return file


def _most_bytes(path: Path) -> int:
    return max(_ALWAYS_ALLOWED, MOST_EXPANDED * path.stat().st_size)


def _limited(file: IO[bytes], path: Path, *, most: int | None) -> Iterator[bytes]:
    read = 0
    while block := file.read(BLOCK_BYTES):
        read += len(block)
        if most is not None and read > most:
            raise TraceError(
                f"trace {path} expands to more than {MOST_EXPANDED} times its size, as no trace does; "
                "if it is one, unzip it first"
            )
        yield block
