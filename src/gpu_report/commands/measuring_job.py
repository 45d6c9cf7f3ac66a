"""Jobs of Snakemake that measure, and the one process that carries out their commands one after
another, so that PyTorch is imported once for all of them.

The first job starts the process. A job sends it a command together with its own standard output and
error, gets a byte when the process has taken it, and ends with the command's exit status, the
second byte.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import gpu_report
from gpu_report.errors import MachineError
from gpu_report.printing.terminal import takes

SNAKEMAKE: Final = "GPU_REPORT_SNAKEMAKE"
"""The environment variable with the process of Snakemake, which its jobs inherit."""
STANDARD: Final = (1, 2)
"""Output and error."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED: Final = 130
_LONGEST: Final = 2**16
_PATIENCE_S: Final = 30.0


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
    command = ["stage", "measure-for-jobs", "--address", address, "--snakemake", snakemake]
    process = None
    while process is None or process.poll() is None:
        with suppress(OSError):
            job.connect(address)
            return True
        process = process or subprocess.Popen(
            [sys.executable, "-m", "gpu_report", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.02)
    return False


def measure_for_jobs(arguments: Namespace) -> None:
    """Carry out the commands of jobs one after another until Snakemake has ended, or one of them
    was interrupted.

    Raises:
        OSError: the socket cannot be made, or the system has no file for a process that ends.
    """
    del os.environ[SNAKEMAKE]  # or it would leave the commands to itself
    address = Path(arguments.address)
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    ended = os.pidfd_open(int(arguments.snakemake))
    threading.Thread(target=_end_with, args=(ended,), name="snakemake", daemon=True).start()
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as jobs, suppress(KeyboardInterrupt):
        try:
            jobs.bind(str(address))
            jobs.listen()
            while _answer(jobs.accept()[0], arguments.carry_out) != _INTERRUPTED:
                pass
        finally:
            address.unlink(missing_ok=True)


def _interrupt(*_: object) -> None:
    """Once: Ctrl-C reaches the job and Snakemake as well, and their end is the next reason."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _answer(job: socket.socket, carry_out: Callable[[Sequence[str]], int]) -> int:
    """Carry out the command that the job sends, and answer with its status; it is interrupted if
    the job ends before.
    """
    answered = threading.Event()

    def interrupt_if_gone() -> None:
        with suppress(OSError):
            job.recv(1)
        if not answered.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    with job, suppress(ConnectionError):  # of a job that has ended
        content, files, *_ = socket.recv_fds(job, _LONGEST, len(STANDARD))
        if not content:
            return 0
        job.sendall(b"1")
        watching = threading.Thread(target=interrupt_if_gone, name="job", daemon=True)
        watching.start()
        with _writing_to(files):
            status = carry_out(json.loads(content))
        answered.set()
        with suppress(OSError):
            job.sendall(bytes([status]))
            job.shutdown(socket.SHUT_RDWR)
        watching.join()
        return status
    return 0


@contextmanager
def _writing_to(files: Sequence[int]) -> Iterator[None]:
    """Standard output and error are these files, which are closed."""
    kept = [os.dup(number) for number in STANDARD]
    _exchange(files)
    try:
        yield
    finally:
        _exchange(kept)


def _exchange(files: Sequence[int]) -> None:
    for name, number, file in zip(("stdout", "stderr"), STANDARD, files, strict=True):
        stream = getattr(sys, name)
        takes(stream)
        os.dup2(file, number)
        os.close(file)
        # A stream remembers of the file that it began with whether one can seek in it.
        kind = {"buffering": 1, "encoding": stream.encoding, "errors": stream.errors}
        setattr(sys, name, open(number, "w", closefd=False, **kind))  # noqa: SIM115


def _end_with(process: int) -> None:
    select.select([process], [], [])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE_S)
    os._exit(_INTERRUPTED)
