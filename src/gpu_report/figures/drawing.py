"""Files of figures: many at once, by several processes where there are cores for them.

drawings -> processes (a figure at a time) -> bytes in the order of the drawings
"""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Final

from matplotlib.figure import Figure

from gpu_report.errors import ReportError
from gpu_report.figures.style import FileFormat, figure_bytes
from gpu_report.study.machine import core_count

_LEAST_FIGURES: Final = 4  # for fewer, another process costs more than it brings

_task: Callable[[int], bytes]
"""In a forked process: what it is there for. Handed over by the fork, so that no table is copied
through a pipe.
"""


def draw_all(
    drawings: Sequence[Callable[[], Figure]],
    *,
    file_format: FileFormat = "pdf",
    processes: int | None = None,
) -> Iterator[bytes]:
    """Draw figures, each as the bytes of a file, which do not depend on the number of processes.

    Args:
        drawings: What draws each, in the order wanted.
        file_format: What the bytes are.
        processes: How many at a time; by default as many as there are cores.

    Raises:
        ReportError: a process ended early, for instance for lack of memory.
    """
    processes = min(processes or core_count(), 8)  # more cost more than they bring

    def task(position: int) -> bytes:
        return figure_bytes(drawings[position](), file_format)

    if processes < 2 or len(drawings) < _LEAST_FIGURES or sys.platform != "linux":
        yield from map(task, range(len(drawings)))
        return
    # Here, rather than in each process when it draws its first figure.
    import matplotlib.backends.backend_pdf  # noqa: F401, PLC0415

    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("fork"), initializer=_begin, initargs=(task,)
    )
    with pool:
        # From the last to the first: those of the whole study stand last and take longest.
        drawn = [pool.submit(_run, position) for position in reversed(range(len(drawings)))]
        try:
            yield from (future.result() for future in reversed(drawn))
        except BrokenProcessPool as error:
            raise ReportError(
                "a process that drew figures ended early; if memory ran out, run it again with "
                "fewer cores"
            ) from error


def _begin(task: Callable[[int], bytes]) -> None:
    global _task  # noqa: PLW0603
    _task = task
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # who waits for the figures is interrupted, and ends this process


def _run(position: int) -> bytes:
    return _task(position)
