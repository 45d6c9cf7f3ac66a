"""The process that measures for all jobs of a Snakemake run, one after another."""

import json
import os
import select
import signal
import socket
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gpu_report.commands.measuring_job import SNAKEMAKE, STANDARD
from gpu_report.printing.terminal import takes

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED: Final = 130
_LONGEST: Final = 2**16
_PATIENCE_S: Final = 30.0


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
