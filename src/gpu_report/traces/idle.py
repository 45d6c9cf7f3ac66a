"""Why the accelerator stood idle within the steps, and what the host did meanwhile."""

from typing import Any, Final

import numpy as np

from gpu_report.traces.attribution import DeviceWork, HostCalls
from gpu_report.traces.gaps import CAUSES, SYNCHRONISATION, Gaps, at_positions, gaps_in_steps, loop_thread, saw_work
from gpu_report.traces.nesting import innermost_at
from gpu_report.traces.spans import NONE
from gpu_report.traces.steps import step_bounds
from gpu_report.traces.times import Integers
from gpu_report.traces.trace import Trace

_NS_PER_MS: Final = 1e6
_NS_PER_US: Final = 1e3


def idle_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[dict[str, Any]]:
    """The rows of IDLE, the longest in all first; `gaps.Gaps` says how a cause is told.

    Streams and devices count together: a gap is time in which none of them did anything. Steps that saw no device work
    are left out, as in STEPS.
    """
    _, gaps = gaps_in_steps(trace, calls)
    begin_ns, end_ns = step_bounds(trace)
    wall_ns = int((end_ns - begin_ns)[saw_work(trace)].sum())
    operation = _operations(trace, calls, gaps)
    name = np.where(operation == NONE, NONE, at_positions(calls.spans.name, operation))
    keys, group = np.unique(name * len(CAUSES) + gaps.cause, return_inverse=True)
    total_ns, longest_ns = np.zeros_like(keys), np.zeros_like(keys)
    np.add.at(total_ns, group, gaps.duration_ns)
    np.maximum.at(longest_ns, group, gaps.duration_ns)
    rows = [
        {
            "cause": CAUSES[key % len(CAUSES)],
            "operation": trace.names[key // len(CAUSES)] if key >= 0 else "",
            "gaps": count,
            "total_ms": total / _NS_PER_MS,
            "longest_us": longest / _NS_PER_US,
            "share": total / wall_ns,
        }
        for key, count, total, longest in zip(
            keys.tolist(), np.bincount(group).tolist(), total_ns.tolist(), longest_ns.tolist(), strict=True
        )
    ]
    return sorted(rows, key=lambda row: (-row["total_ms"], row["cause"], row["operation"]))


def _operations(trace: Trace, calls: HostCalls, gaps: Gaps) -> Integers:
    """The position of the operation in the middle of each gap, on the launching thread, or else on the loop's.

    Where the host waited for the device it is the one that waited. Driver calls stand for themselves only where no
    operation is around them.
    """
    loop = np.full(len(gaps.cause), loop_thread(trace, calls))
    middle_ns = (gaps.start_ns + gaps.end_ns) // 2
    waiting = _innermost(calls, loop, gaps.since_ns)
    found = np.where(gaps.cause == SYNCHRONISATION, waiting, _innermost(calls, gaps.thread, middle_ns))
    return np.where(found == NONE, _innermost(calls, loop, middle_ns), found)


def _innermost(calls: HostCalls, thread: Integers, times_ns: Integers) -> Integers:
    found = innermost_at(calls.spans, calls.parent, thread, times_ns)
    while True:
        is_driver_call = (found != NONE) & at_positions(calls.is_driver_call, found)
        outer = np.where(is_driver_call, at_positions(calls.parent, found), NONE)
        if (outer == NONE).all():
            return found
        found = np.where(outer == NONE, found, outer)
