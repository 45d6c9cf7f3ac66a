"""Which Snakemake runs are alive in this folder, so that what a killed one left neither stops the next nor stays.

Snakemake's lock names no process, so each run writes itself down; a lock is stale when every run written down was on
this host and is gone.
"""

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from gpu_report.errors import FileWriteError
from gpu_report.files import write_text_atomically

_FOLDER: Final = Path(".snakemake")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One process; its start time distinguishes it from a later one with the same number."""

    host: str
    process_id: int
    started_at: float
    temporary_folder: str = ""

    @property
    def alive(self) -> bool:
        """Whether it may still run; a run on another host cannot be looked at and counts as alive."""
        if self.host != platform.node():
            return True
        try:
            return abs(psutil.Process(self.process_id).create_time() - self.started_at) < 1
        except psutil.NoSuchProcess:
            return False


def release_stale_lock(project: Path = Path(), *, temporary_folder: str = "") -> None:
    """Write this run down, and remove Snakemake's lock if every run that could hold it is gone.

    The temporary folders of runs that are gone are removed too: Snakemake removes its own, unless it is killed. Of runs
    that start together one does so after the other: none is lost from the list, and none removes the lock that another
    has taken since it looked.

    Raises:
        FileWriteError: the folder cannot be written.
    """
    registry = project / _FOLDER / "gpu_report_runs.json"
    this_run = Run(
        host=platform.node(),
        process_id=os.getpid(),
        started_at=psutil.Process(os.getpid()).create_time(),
        temporary_folder=temporary_folder,
    )
    with _one_at_a_time(registry.with_suffix(".lock")):
        known = _read(registry)
        alive = [run for run in known if run.alive and run != this_run]
        for run in known:
            if not run.alive and run.temporary_folder:
                with suppress(OSError):
                    Path(run.temporary_folder).rmdir()  # it is empty; a folder that holds anything stays
        write_text_atomically(registry, json.dumps([asdict(run) for run in [*alive, this_run]]) + "\n")
        if known and not alive:
            for lock in (project / _FOLDER / "locks").glob("*.lock"):
                lock.unlink(missing_ok=True)


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise FileWriteError(f"cannot open {path}: {error.strerror}; allow writing there, then run the same") from error
    try:
        # Some network file systems know no locks; there, runs that start in the same moment are not told apart.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _read(registry: Path) -> list[Run]:
    try:
        return [Run(**values) for values in json.loads(registry.read_text("utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
