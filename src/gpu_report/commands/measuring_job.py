"""A job of Snakemake that measures: it leaves that to one process, which imports PyTorch once for
all of them.

The first job starts the process, which is in measuring_for_jobs.py. A job sends it a command
together with its own standard output and error, gets a byte when the process has taken it, and ends
with the command's exit status, the second byte.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import gpu_report
from gpu_report.errors import MachineError

SNAKEMAKE: Final = "GPU_REPORT_SNAKEMAKE"
"""The environment variable with the process of Snakemake, which its jobs inherit."""
STANDARD: Final = (1, 2)
"""Output and error."""


def carried_out(arguments: Sequence[str]) -> int | None:
    """Have the process carry out a command, and return its exit status.

    None where there is no such process: Snakemake did not start this on the same machine, or the
    process could not be started.

    Raises:
        MachineError: the process was ended in the middle of the command.
    """
    snakemake = os.environ.get(SNAKEMAKE, "")
    if not snakemake or sys.platform != "linux" or "SLURM_JOB_ID" in os.environ:
        return None
    import psutil

    if snakemake not in [str(process.pid) for process in psutil.Process().parents()]:
        return None
    taken = b""
    while not taken:  # a process that is about to end takes nothing, and the next one is asked
        with socket.socket(socket.AF_UNIX) as job, suppress(ConnectionError):
            if not _connect(job, snakemake):
                return None
            socket.send_fds(job, [json.dumps(arguments).encode()], STANDARD)
            taken = job.recv(1)
            if status := job.recv(1):
                return status[0]
    raise MachineError(
        "the process that measures for all jobs was ended from outside; nothing is recorded; run "
        "the same command again"
    )


def _connect(job: socket.socket, snakemake: str) -> bool:
    # Relative, since the path of a socket is short; code that was edited gets a process of its own.
    edited_ns = max(path.stat().st_mtime_ns for path in Path(gpu_report.__path__[0]).rglob("*.py"))
    address = f".snakemake/measuring-{snakemake}-{edited_ns}.socket"
    with suppress(OSError):
        job.connect(address)
        return True
    command = ["stage", "measure-for-jobs", "--address", address, "--snakemake", snakemake]
    process = subprocess.Popen(
        [sys.executable, "-m", "gpu_report", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None:
        with suppress(OSError):
            job.connect(address)
            return True
        time.sleep(0.02)
    return False
