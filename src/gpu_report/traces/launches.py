"""How far the host ran ahead of the accelerator: how long launched work waited, and whether the accelerator waited."""

from typing import Any, Final

import numpy as np

from gpu_report.traces.attribution import DeviceWork, HostCalls, driver_launches
from gpu_report.traces.gaps import HOST_LATE, LAUNCH, gaps_in_steps, saw_work
from gpu_report.traces.spans import NONE
from gpu_report.traces.times import Integers
from gpu_report.traces.trace import Trace

SHORT_NS: Final = 10_000
"""Work that runs for less is short: launching it takes the host about as long."""

AT_ONCE_NS: Final = 10_000
"""Work that starts so soon after its launching call was not queued: a launch reaches an idle device in 2 to 5 us."""

STALL_NS: Final = 200_000
"""A longer gap is a stall: a host that goes from launch to launch takes 5 to 150 us for an operation of PyTorch."""

_NS_PER_US: Final = 1e3


def launch_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[dict[str, Any]]:
    """The rows of LAUNCHES, for the steps that saw device work.

    Work belongs to the step in which its launching call begins, and is queued from the end of that call to its own
    start. Work whose launch is not recorded counts nowhere. Of a CUDA graph each kernel counts as launched by the one
    call that launched the graph, so that it waits long and the queue is deep: the host is far ahead.
    """
    call = driver_launches(trace.work, calls)
    launched, call = np.flatnonzero(call != NONE), call[call != NONE]
    order = np.argsort(calls.spans.start_ns[call], kind="stable")
    launched, call = launched[order], call[order]
    started_ns, launch_ns = trace.work.start_ns[launched], calls.spans.start_ns[call]
    delay_ns = (started_ns - launch_ns - calls.spans.duration_ns[call]).clip(min=0)
    duration_ns = trace.work.duration_ns[launched]
    queue = _Queue(started_ns - delay_ns, started_ns)
    bound_ns = launch_bound_ns(trace, calls)
    rows = []
    for index in np.flatnonzero(saw_work(trace)).tolist():
        begin_ns, end_ns = trace.steps[index].start_ns, trace.steps[index].end_ns
        mine = slice(*np.searchsorted(launch_ns, (begin_ns, end_ns)).tolist())
        rows.append(
            {
                "step": trace.steps[index].number,
                **_of_launches(duration_ns[mine], delay_ns[mine]),
                "mean_queue": queue.waited_ns(begin_ns, end_ns) / (end_ns - begin_ns),
                "longest_queue": queue.longest(begin_ns, end_ns),
                "launch_bound_share": int(bound_ns[index]) / (end_ns - begin_ns),
            }
        )
    return rows


def _of_launches(duration_ns: Integers, delay_ns: Integers) -> dict[str, Any]:
    any_launched = len(delay_ns) > 0
    return {
        "launches": len(delay_ns),
        "short_share": float((duration_ns < SHORT_NS).mean()) if any_launched else None,
        "median_delay_us": float(np.median(delay_ns)) / _NS_PER_US if any_launched else None,
    }


def launch_bound_ns(trace: Trace, calls: HostCalls) -> Integers:
    """How long in each step the accelerator waited for a host that went from launch to launch and was too slow.

    Those are the gaps of cause `host` or `launch` that are no stall (shorter than STALL_NS) and whose next work started
    at once (within AT_ONCE_NS of its launch): it had not been queued, so that a faster host would have shortened the
    gap. A long pause of the host is none of them, nor are the short gaps between queued kernels.
    """
    step, gaps = gaps_in_steps(trace, calls)
    is_host = np.isin(gaps.cause, (HOST_LATE, LAUNCH)) & (gaps.delay_ns != NONE)
    is_bound = is_host & (gaps.idle_ns < STALL_NS) & (gaps.delay_ns < AT_ONCE_NS)
    bound_ns = np.zeros(len(trace.steps), dtype=np.int64)
    np.add.at(bound_ns, step[is_bound], gaps.duration_ns[is_bound])
    return bound_ns


class _Queue:
    """Work that was launched and had not started, each piece from its begin to its end in the queue."""

    def __init__(self, begin_ns: Integers, end_ns: Integers) -> None:
        times_ns = np.append(end_ns, begin_ns)
        order = np.argsort(times_ns, kind="stable")
        self._times_ns = times_ns[order]
        self._length = np.cumsum(np.repeat((-1, 1), len(begin_ns))[order])
        self._waited_ns = np.append(0, np.cumsum(self._length[:-1] * np.diff(self._times_ns)))

    def waited_ns(self, begin_ns: int, end_ns: int) -> int:
        """The sum over all pieces of their time in the queue within a window."""
        return self._waited_until_ns(end_ns) - self._waited_until_ns(begin_ns)

    def _waited_until_ns(self, moment_ns: int) -> int:
        last = int(np.searchsorted(self._times_ns, moment_ns, side="right")) - 1
        if last < 0:
            return 0
        return int(self._waited_ns[last] + self._length[last] * (moment_ns - self._times_ns[last]))

    def longest(self, begin_ns: int, end_ns: int) -> int:
        """The most pieces that waited at any moment of a window; pieces leave before others come at the same moment."""
        first = max(int(np.searchsorted(self._times_ns, begin_ns, side="right")) - 1, 0)
        last = int(np.searchsorted(self._times_ns, end_ns, side="left"))
        return int(self._length[first:last].max(initial=0))
