"""Processes that this product starts: what each does first, and how its parent sees whether it
ended or was stopped.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

_OUT_OF_MEMORY_SCORE: Final = Path("/proc/self/oom_score_adj")


def take_interruptions() -> None:
    """Let SIGINT end this fresh process at once.

    Python would turn an interruption into an exception, and that would look like a failure of what
    is trained. Ignored from the start, it stays so.
    """
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def end_with_parent(_worker_id: int = 0) -> None:
    """End when the parent ends; takes a worker's number so that it serves as `worker_init_fn` of a
    DataLoader.

    The thread sleeps in a read on a pipe that only the parent holds open, and costs a training
    nothing.
    """
    threading.Thread(target=_end_after_parent, name="parent_watch", daemon=True).start()


def be_killed_before_others() -> None:
    """Make the OOM killer choose this process before the user's other programs, where that is
    allowed.
    """
    with suppress(OSError):
        if _OUT_OF_MEMORY_SCORE.exists():
            _OUT_OF_MEMORY_SCORE.write_text("500", "ascii")


def _end_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)


def exit_status_of(pid: int | None) -> int | None:
    """The exit status of a child, which its owner is left to reap; negative for a signal, None
    while it runs.
    """
    with suppress(ChildProcessError):
        for _ in range(20):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) if pid else None
            if ended is not None:
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            time.sleep(0.01)
    return None


def stopped_processes() -> Iterator[psutil.Process]:
    """Of all processes below this one, those that somebody has stopped."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that ends meanwhile hides no other
            if process.status() == psutil.STATUS_STOPPED:
                yield process
