"""What each step's time went into: the device first, then the host; every moment of the step counts once.

work and calls by class -> Cover of each class -> what each adds to those before it -> STEPS
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

import numpy as np

from gpu_report.traces.attribution import CATEGORY_NAMES, DeviceWork, HostCalls
from gpu_report.traces.categories import is_communication
from gpu_report.traces.grouping import fits
from gpu_report.traces.nesting import Cover, cover
from gpu_report.traces.spans import Flags, Spans
from gpu_report.traces.times import Integers
from gpu_report.traces.trace import Step, Trace

SHARES: Final = ("kernel", "memcpy", "memset", "communication", "runtime", "loader", "operator")
"""The classes in the order in which a moment counts for them; what none of them holds is `other`."""

_WORK_KINDS: Final = ("kernel", "gpu_memcpy", "gpu_memset")
_OF_THE_DEVICE: Final = ("kernel", "memcpy", "memset", "device_busy", "exposed_copy", "exposed_communication")
_LOADING: Final = CATEGORY_NAMES.index("data loading")
_COMMUNICATION: Final = CATEGORY_NAMES.index("communication")
_NS_PER_MS: Final = 1e6


def step_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[dict[str, Any]]:
    """The rows of STEPS. All device work counts where it ran, whichever step launched it.

    A moment belongs to the first of SHARES that goes on in it: with U(k) the union of the first k classes, class k has
    |U(k)| - |U(k - 1)| of each step, so that the shares and what is left, `other`, sum to the wall time. Columns of the
    device are missing where a step saw no device work: its events may not have been recorded, which is not idleness.
    """
    begin_ns, end_ns = step_bounds(trace)
    classes = {**_device_covers(trace), **_host_covers(calls)}
    collectives = classes["collective"]
    classes["communication"] = collectives.and_also(classes["communication"])
    device = cover(trace.work.start_ns, trace.work.end_ns)
    kernels = classes["kernel"]
    columns = {
        **_shares([classes[name] for name in SHARES], begin_ns, end_ns),
        "host_busy": cover(calls.spans.start_ns, calls.spans.end_ns).within(begin_ns, end_ns),
        "device_busy": device.within(begin_ns, end_ns),
        "exposed_copy": _exposed(classes["memcpy"], kernels.and_also(collectives), begin_ns, end_ns),
        "exposed_communication": _exposed(collectives, kernels, begin_ns, end_ns),
    }
    return [
        _row(step, {name: int(column[index]) for name, column in columns.items()})
        for index, step in enumerate(trace.steps)
    ]


def _row(step: Step, times_ns: Mapping[str, int]) -> dict[str, Any]:
    wall_ns, busy_ns = step.end_ns - step.start_ns, times_ns["device_busy"]
    missing = () if busy_ns else _OF_THE_DEVICE
    return {
        "step": step.number,
        "wall_ms": wall_ns / _NS_PER_MS,
        **{f"{name}_ms": None if name in missing else time / _NS_PER_MS for name, time in times_ns.items()},
        "device_idle_share": 1 - busy_ns / wall_ns if busy_ns else None,
    }


def step_bounds(trace: Trace) -> tuple[Integers, Integers]:
    """Begin and end of each step."""
    steps = trace.steps
    begin_ns, end_ns = ([getattr(step, side) for step in steps] for side in ("start_ns", "end_ns"))
    return np.array(begin_ns, dtype=np.int64), np.array(end_ns, dtype=np.int64)


def loading(calls: HostCalls) -> Flags:
    """Whether each call is the loop's wait for the loader, or lies within it."""
    return np.equal(calls.category, _LOADING)


def _device_covers(trace: Trace) -> dict[str, Cover]:
    work = trace.work
    is_collective = fits(trace.names, work.name, is_communication)
    is_kernel, is_copy, is_fill = (fits(trace.kinds, work.kind, kind.__eq__) for kind in _WORK_KINDS)
    return {
        "kernel": _cover(work, is_kernel & ~is_collective),
        "collective": _cover(work, is_kernel & is_collective),
        "memcpy": _cover(work, is_copy),
        "memset": _cover(work, is_fill),
    }


def _host_covers(calls: HostCalls) -> dict[str, Cover]:
    is_operation = ~calls.is_driver_call
    return {
        "communication": _cover(calls.spans, is_operation & (calls.category == _COMMUNICATION)),
        "runtime": _cover(calls.spans, calls.is_driver_call),
        "loader": _cover(calls.spans, loading(calls)),
        "operator": _cover(calls.spans, is_operation),
    }


def _cover(spans: Spans, which: Flags) -> Cover:
    start_ns = spans.start_ns[which]
    return cover(start_ns, start_ns + spans.duration_ns[which])


def _shares(covers: list[Cover], begin_ns: Integers, end_ns: Integers) -> dict[str, Integers]:
    """What each class adds to the union of those before it, and what is left of each step."""
    unions = [union.within(begin_ns, end_ns) for union in accumulate(covers, Cover.and_also)]
    added = np.diff(unions, axis=0, prepend=0, append=[end_ns - begin_ns])
    return dict(zip((*SHARES, "other"), added, strict=True))


def _exposed(hidden: Cover, hiding: Cover, begin_ns: Integers, end_ns: Integers) -> Integers:
    """How much of each step the first covers and the second does not."""
    return hidden.and_also(hiding).within(begin_ns, end_ns) - hiding.within(begin_ns, end_ns)
