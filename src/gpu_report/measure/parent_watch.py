"""A process that ends as soon as the one that started it does, so that nothing trains on when a run is killed."""

import multiprocessing
import os
import signal
import threading
from typing import Final

_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


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
