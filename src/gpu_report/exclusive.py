"""One measurement at a time on a machine, whoever starts it: a second one waits for the first."""

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gpu_report.errors import MachineError

_FOR_EVERYONE: Final = 0o666
_LOCK: Final = Path(tempfile.gettempdir()) / "gpu-report-measuring.lock"
"""In the folder that all processes share, although this one may take a temporary folder of its own later."""


@contextmanager
def machine_to_itself(lock: Path | None = None) -> Iterator[None]:
    """Hold the machine's measuring lock; the system lets it go when the process ends, however it ends.

    Raises:
        MachineError: the lock file cannot be opened.
    """
    path = lock or _LOCK
    try:
        file = _open(path)
    except OSError as error:
        raise MachineError(
            f"cannot open the measuring lock {path}: {error.strerror}; set TMPDIR to another folder"
        ) from error
    try:
        _wait_for(file)
        yield
    finally:
        os.close(file)


def _open(path: Path) -> int:
    """Open the lock file for reading, which is enough to lock it, whichever user made it; make it where there is none.

    Systems refuse to open another user's file for writing in a shared temporary folder, even where its mode allows it.
    """
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FOR_EVERYONE)
    except FileExistsError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.fchmod(file, _FOR_EVERYONE)
    return file


def _wait_for(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another measurement runs on this machine; waiting for it to end", file=sys.stdout, flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
