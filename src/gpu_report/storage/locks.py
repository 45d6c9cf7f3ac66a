"""Two locks: one measurement at a time on a machine, and Snakemake's, which a killed run leaves
behind.

Snakemake's lock names no process, so each run writes itself down; a lock is stale when every run
written down was on this host and is gone.
"""

import fcntl
import json
import math
import os
import platform
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from gpu_report.errors import MachineError
from gpu_report.storage.files import (
    take_own_temporary_folder,
    write_errors,
    write_text_atomically,
)

_FOR_EVERYONE: Final = 0o666
_MEASURING: Final = Path(tempfile.gettempdir()) / "gpu-report-measuring.lock"
"""In the folder that all processes share, although this one may take a temporary folder of its own
later.
"""
_SNAKEMAKE: Final = Path(".snakemake")
_REGISTRY: Final = _SNAKEMAKE / "gpu_report_runs.json"


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


@dataclass(frozen=True, kw_only=True)
class RunningProcess:
    """A process that wrote itself down; its start time distinguishes it from a later one with the
    same number.
    """

    host: str
    process_id: int
    started_at: float
    temporary_folder: str = ""

    @classmethod
    def this(cls, *, temporary_folder: str = "") -> "RunningProcess":
        """The process that asks."""
        own = psutil.Process()
        return cls(
            host=platform.node(),
            process_id=own.pid,
            started_at=own.create_time(),
            temporary_folder=temporary_folder,
        )

    @property
    def alive(self) -> bool:
        """Whether it may still run; a run on another host cannot be looked at and counts as
        alive.
        """
        if self.host != platform.node():
            return True
        try:
            return abs(psutil.Process(self.process_id).create_time() - self.started_at) < 1
        except psutil.NoSuchProcess:
            return False


def release_stale_lock(project: Path = Path(), *, temporary_folder: str = "") -> None:
    """Write this run down, and remove Snakemake's lock if every run that could hold it is gone.

    The temporary folders of runs that are gone are removed too: Snakemake removes its own, unless
    it is killed. Runs that start together do so one after the other: none is lost from the list,
    and none removes the lock that another has taken since it looked.

    Raises:
        FileWriteError: the folder cannot be written.
    """
    registry, this_run = project / _REGISTRY, RunningProcess.this(temporary_folder=temporary_folder)
    with write_errors(registry):
        registry.parent.mkdir(parents=True, exist_ok=True)
        one_at_a_time = registry.with_suffix(".lock").open("ab")
    with one_at_a_time:
        # Some network file systems have no locks; runs that start there at the same moment do not
        # see each other.
        with suppress(OSError):
            fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        known = _read(registry)
        alive = [run for run in known if run.alive and run != this_run]
        for run in known:
            if not run.alive and run.temporary_folder:
                with suppress(OSError):
                    Path(
                        run.temporary_folder
                    ).rmdir()  # it is empty; a folder with a file in it stays
        write_text_atomically(
            registry, json.dumps([asdict(run) for run in [*alive, this_run]]) + "\n"
        )
        if known and not alive:
            for lock in (project / _SNAKEMAKE / "locks").glob("*.lock"):
                lock.unlink(missing_ok=True)


def _read(registry: Path) -> list[RunningProcess]:
    """Nothing where no run was written down yet, or by another version."""
    try:
        return [RunningProcess(**values) for values in json.loads(registry.read_text("utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
