"""One measurement at a time on a machine, whoever starts it: a second one waits for the first."""

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_report.errors import MachineError


@contextmanager
def machine_to_itself(lock: Path | None = None) -> Iterator[None]:
    """Hold the machine's measuring lock; the system lets it go when the process ends, however it ends.

    Raises:
        MachineError: the lock file cannot be opened.
    """
    path = lock or Path(tempfile.gettempdir()) / "gpu-report-measuring.lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MachineError(
            f"cannot open the measuring lock {path}: {error.strerror}; set TMPDIR to another folder"
        ) from error
    try:
        _wait_for(file)
        yield
    finally:
        os.close(file)


def _wait_for(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another measurement runs on this machine; waiting for it to end", file=sys.stdout, flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
