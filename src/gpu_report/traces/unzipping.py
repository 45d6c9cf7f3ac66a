"""The content of a gzipped trace, block by block: by isal, where there is a wheel of it, or the standard library."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from gpu_report.traces.trace import TraceError

_open_gzip: Callable[..., Any] = gzip.open
_DAMAGED: tuple[Any, ...] = (gzip.BadGzipFile, zlib.error)
try:
    from isal import igzip_lib, igzip_threaded
except ImportError:  # no wheel for this platform: the standard library takes three times as long
    pass
else:
    _open_gzip = partial(igzip_threaded.open, threads=1)
    _DAMAGED = (*_DAMAGED, igzip_lib.IsalError)

MOST_EXPANDED: Final = 250
"""A gzipped trace grows by a factor of 10 to 60; what grows beyond this one is no trace."""

_ALWAYS_ALLOWED: Final = 1 << 26


def unzipped(path: Path, *, block_bytes: int) -> Iterator[bytes]:
    """The content in blocks of so many bytes or fewer.

    Raises:
        TraceError: the gzip is cut, damaged, or expands beyond MOST_EXPANDED.
        OSError: the file cannot be read.
    """
    read, most = 0, max(_ALWAYS_ALLOWED, MOST_EXPANDED * path.stat().st_size)
    try:
        with _open_gzip(path, mode="rb") as file:
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
    except _DAMAGED as error:
        raise TraceError(f"trace {path} is damaged ({error}); record it again") from error
