"""Processes that end when the one that started them does, and not by themselves when a terminal sends Ctrl-C."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Final

_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


def fresh_processes(preloaded: Sequence[str]) -> ForkServerContext | SpawnContext:
    """Where fresh processes come from: on Linux a server that has imported these modules, and that ignores Ctrl-C.

    A terminal sends SIGINT to every process. This one ends those that it started; the server would answer in the middle
    of importing PyTorch, with a traceback. Where forking is not safe each process imports for itself.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preloaded))
    if threading.current_thread() is threading.main_thread():  # no other may change what a signal does
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, before)
    return context


def end_with_parent(_worker_id: int = 0) -> None:
    """Watch the parent from now on; takes a worker's number so that it serves as `worker_init_fn` of a DataLoader.

    The thread sleeps in a read on a pipe that only the parent holds open, and costs a training nothing.
    """
    threading.Thread(target=_end_after_parent, name="parent_watch", daemon=True).start()


def _end_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), _KILL)
