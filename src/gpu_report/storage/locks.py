"""Two locks: one measurement at a time on a machine, and Snakemake's, which a killed run leaves
behind.

Snakemake's lock names no process, so each run writes itself down in a file that it keeps locked; a
lock is stale when every run written down was on this host and no longer locks the file.
"""

import fcntl
import math
import os
import platform
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from gpu_report.errors import MachineError
from gpu_report.storage.files import take_own_temporary_folder, write_errors

_FOR_EVERYONE: Final = 0o666
_MEASURING: Final = Path(tempfile.gettempdir()) / "gpu-report-measuring.lock"
"""In the folder that all processes share, although this one may take a temporary folder of its own
later.
"""
_SNAKEMAKE: Final = Path(".snakemake")
_REGISTRY: Final = _SNAKEMAKE / "gpu_report_runs"


@contextmanager
def machine_to_itself(lock: Path = _MEASURING, *, limit_s: float = math.inf) -> Iterator[None]:
    """Hold the machine's measuring lock, for which others wait; the system frees it when the
    process ends. What measures has a temporary folder of its own from then on.

    Raises:
        FileWriteError: the temporary folder cannot be made.
        MachineError: the lock file cannot be opened or locked, or another measurement runs longer
            than the limit.
    """
    with ExitStack() as stack:
        try:
            file = _open_for_everyone(lock)
            stack.callback(os.close, file)
            _wait_for_lock(file, limit_s)
        except OSError as error:
            raise MachineError(
                f"cannot lock {lock}, which keeps measurements one at a time: {error.strerror}; "
                "set TMPDIR to a folder where files can be made and locked"
            ) from error
        take_own_temporary_folder()
        yield


def _wait_for_lock(file: int, limit_s: float) -> None:
    """Lock the file. A line names the process that this one waits for, again whenever that
    changes.
    """
    end_s, said = time.monotonic() + limit_s, ""
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        holder = f"another measurement runs on this machine: {_holder(file)}"
        what_to_do = "end it, or set TMPDIR to another folder to measure beside it"
        if not time.monotonic() < end_s:
            waited = f"; waited {limit_s / 60:g} minutes for it" if limit_s else ""
            raise MachineError(f"{holder}{waited}; {what_to_do}")
        if holder != said:
            print(f"{holder}; waiting for it to end; {what_to_do}", flush=True)
        said = holder
        time.sleep(0.5)


def _holder(file: int) -> str:
    """The process that has locked the file, from Linux's list of locks in this container; other
    systems have none.

    The process does not write its id into the file, because another user may own it.
    """
    status = os.fstat(file)
    lock = (
        rf"FLOCK .* (\d+) "
        rf"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} "
    )
    with suppress(OSError, psutil.Error):
        if found := re.search(lock, Path("/proc/locks").read_text("ascii")):
            began = time.localtime(psutil.Process(int(found[1])).create_time())
            return f"process {found[1]}, since {time.strftime('%Y-%m-%d %H:%M:%S', began)}"
    return "the system does not say which process"


def _open_for_everyone(path: Path) -> int:
    """Open the lock file for reading, which is enough to lock it, whichever user made it; make it
    where there is none.

    Systems refuse to open another user's file for writing in a shared temporary folder, even where
    its mode allows it.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # never wait for a named pipe in its place
    with suppress(FileExistsError):
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, _FOR_EVERYONE)
        os.fchmod(file, _FOR_EVERYONE)
        return file
    return os.open(path, flags)


def release_stale_lock(project: Path = Path(), *, temporary_folder: str = "") -> None:
    """Write this run down, and remove Snakemake's lock if every run that could hold it is gone.

    Each run shares a lock of the list of runs until it ends, however it ends: one that gets the
    lock for itself finds all runs before it gone. Those on another host are taken to go on, since a
    network file system need not show their locks; so are all on a file system without locks.

    The temporary folders of runs that are gone are removed too: Snakemake removes its own, unless
    it is killed.

    Raises:
        FileWriteError: the folder cannot be written.
    """
    registry, here = project / _REGISTRY, platform.node()
    gone: list[tuple[str, str, str]] = []
    with write_errors(registry):
        registry.parent.mkdir(parents=True, exist_ok=True)
        # Never closed: the system does so when this process ends, which unlocks the file.
        file = os.open(registry, os.O_RDWR | os.O_CREAT | os.O_APPEND, _FOR_EVERYONE)
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = [line.partition(" ") for line in registry.read_text("utf-8").splitlines()]
        for _, _, folder in gone:
            with suppress(OSError):
                Path(folder).rmdir()  # it is empty; a folder with a file in it stays
        if gone and all(host == here for host, _, _ in gone):
            for lock in (project / _SNAKEMAKE / "locks").glob("*.lock"):
                lock.unlink(missing_ok=True)
            os.truncate(file, 0)
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_SH)
        os.write(file, f"{here} {temporary_folder}\n".encode())
