"""Writing files whole or not at all, so that an interruption leaves the old file or the new one, never half of one."""

import os
import tempfile
from pathlib import Path

from gpu_report.errors import FileWriteError


def write_text_atomically(path: Path, text: str) -> None:
    """Write text as UTF-8 beside the target, flush it to disk and rename it into place.

    Raises:
        FileWriteError: the folder cannot be written or the disk is full; an existing file is left as it was.
    """
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write bytes beside the target, flush them to disk and rename them into place.

    Raises:
        FileWriteError: the folder cannot be written or the disk is full; an existing file is left as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".unfinished")
    except OSError as error:
        raise FileWriteError(_write_failure(path, error)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(unfinished).chmod(0o644)
        Path(unfinished).replace(path)
    except OSError as error:
        Path(unfinished).unlink(missing_ok=True)
        raise FileWriteError(_write_failure(path, error)) from error


def _write_failure(path: Path, error: OSError) -> str:
    return f"cannot write {path}: {error.strerror}; free some space or allow writing there, then run the same again"
