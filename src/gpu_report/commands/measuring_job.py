"""A job of Snakemake that measures: it leaves that to one process, which imports PyTorch once for
all of them.

The first job starts the process, which ends with Snakemake, and is in measuring_for_jobs.py. A job
sends it a command together with its own standard output and error, and ends with the command's exit
status.
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

import psutil

from gpu_report.errors import MachineError

SNAKEMAKE: Final = "GPU_REPORT_SNAKEMAKE"
"""The environment variable with the process of Snakemake, which its jobs inherit."""
STANDARD: Final = (1, 2)
"""Output and error."""


def carried_out(arguments: Sequence[str]) -> int | None:
    """Have the shared process carry out a command, and return its exit status.

    None where there is no such process: this is no job of a Snakemake on the same machine, or the
    process could not be started.

    Raises:
        MachineError: the process was ended in the middle of the command.
    """
    snakemake = os.environ.get(SNAKEMAKE, "")
    # On a node of a cluster the variable names a process of another machine.
    if snakemake not in [str(process.pid) for process in psutil.Process().parents()]:
        return None
    with socket.socket(socket.AF_UNIX) as job:
        if not _connect(job, snakemake):
            return None
        socket.send_fds(job, [json.dumps(arguments).encode()], STANDARD)
        status = job.recv(1)
    if not status:
        raise MachineError(
            "the process that measures for all jobs was ended from outside; nothing is recorded; "
            "run the same command again"
        )
    return status[0]


def address_of(snakemake: str) -> Path:
    """Of the socket where the process listens; relative, since that of a socket is short."""
    return Path(".snakemake", f"measuring-{snakemake}.socket")


def _connect(job: socket.socket, snakemake: str) -> bool:
    address = str(address_of(snakemake))
    with suppress(OSError):
        job.connect(address)
        return True
    command = ["-m", "gpu_report", "stage", "measure-for-jobs", "--snakemake", snakemake]
    process = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    while process.poll() is None:
        with suppress(OSError):
            job.connect(address)
            return True
        time.sleep(0.02)
    return False
