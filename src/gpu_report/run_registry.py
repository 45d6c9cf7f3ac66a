"""Which Snakemake runs are alive in this folder, so that the lock of one that was killed does not stop the next.

Snakemake's lock names no process, so each run writes itself down; a lock is stale when every run written down was on
this host and is gone.
"""

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from gpu_report.files import write_text_atomically

_FOLDER: Final = Path(".snakemake")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One process; its start time tells it from a later one with the same number."""

    host: str
    process_id: int
    started_at: float

    @property
    def alive(self) -> bool:
        """Whether it may still run; a run on another host cannot be looked at and counts as alive."""
        if self.host != platform.node():
            return True
        try:
            return abs(psutil.Process(self.process_id).create_time() - self.started_at) < 1
        except psutil.NoSuchProcess:
            return False


def release_stale_lock(project: Path = Path()) -> None:
    """Write this run down, and remove Snakemake's lock if every run that could hold it is gone."""
    registry = project / _FOLDER / "gpu_report_runs.json"
    this_run = Run(host=platform.node(), process_id=os.getpid(), started_at=psutil.Process(os.getpid()).create_time())
    known = _read(registry)
    alive = [run for run in known if run.alive and run != this_run]
    write_text_atomically(registry, json.dumps([asdict(run) for run in [*alive, this_run]]) + "\n")
    if known and not alive:
        for lock in (project / _FOLDER / "locks").glob("*.lock"):
            lock.unlink(missing_ok=True)


def _read(registry: Path) -> list[Run]:
    try:
        return [Run(**values) for values in json.loads(registry.read_text("utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
