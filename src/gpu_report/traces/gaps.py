"""When the accelerator stood idle, and why: the gaps in its work, each with what kept the next work from starting.

all work -> Cover -> gaps between its stretches, with causes -> cut at the steps -> Gaps
"""

import re
from typing import Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from gpu_report.traces.attribution import HostCalls, driver_launches
from gpu_report.traces.grouping import fits
from gpu_report.traces.nesting import Cover, cover
from gpu_report.traces.spans import NONE, Flags
from gpu_report.traces.steps import loading, step_bounds
from gpu_report.traces.times import Integers
from gpu_report.traces.trace import Trace

CAUSES: Final = ("loader", "synchronisation", "host", "launch", "unknown")
"""What a column of causes counts through."""

LOADER, SYNCHRONISATION, HOST_LATE, LAUNCH, UNKNOWN = range(len(CAUSES))

_WAITING: Final = re.compile(
    r"(cuda|cu|hip|ze)\w*Synchronize|ur(QueueFinish|EventWait)$|(cuda|cu|hip)Memcpy(?!\w*Async)"
)
"""Driver calls that return only when the device is done: of CUDA, HIP, Level Zero and Unified Runtime."""

_BLOCKING_COPY: Final = re.compile(r"Memcpy DtoH.*Pageable")
"""Copies whose call returns only when they are done, though it is named `cudaMemcpyAsync` (CUDA Runtime API, "API
synchronization behavior")."""

Value = TypeVar("Value", bound=np.generic)


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Stretches in which no device of the trace did anything, in order; columns of one number per stretch.

    `since_ns` is where the whole gap began, of which this may be the part within one step, and `idle_ns` how much of it
    lies within steps. `cause` is a position in CAUSES. `thread` launched the work that ended the gap; where that is not
    known it is the loop's. `delay_ns` is the time from the end of the launching call to the start of that work: 0 where
    it started before the call ended, NONE where no launch is known.

    The cause is told by the first work after the gap. `unknown`: its launch is not recorded. `launch`: its launching
    call had begun before the gap did. Else the host came late, and the cause is what held it up: waiting for the
    `loader`, or for the device (`synchronisation`), where the waits that went on when the gap began, or began in it
    before the launch, lasted at least half as long as the gap. Their parts before the gap count too: without the wait
    the host would have come earlier by so much. What remains is `host`, also where no work came any more.
    """

    start_ns: Integers
    end_ns: Integers
    since_ns: Integers
    idle_ns: Integers
    cause: Integers
    thread: Integers
    delay_ns: Integers

    @property
    def duration_ns(self) -> Integers:
        """How long the device stood idle."""
        return self.end_ns - self.start_ns

    def chosen(self, which: Flags | Integers) -> "Gaps":
        """The gaps that the flags mark or the positions name, in that order."""
        return Gaps(**{column: getattr(self, column)[which] for column in self.__struct_fields__})


def gaps_in_steps(trace: Trace, calls: HostCalls) -> tuple[Integers, Gaps]:
    """Every stretch of idleness within a step, and the position of that step; one over a step's end is one in each.

    A step that saw no device work has none: its events may not have been recorded.
    """
    gaps = _gaps(trace, calls)
    begin_ns, end_ns = step_bounds(trace)
    first = np.searchsorted(gaps.end_ns, begin_ns, side="right")
    count = np.searchsorted(gaps.start_ns, end_ns, side="left") - first
    count[~saw_work(trace)] = 0
    step = np.repeat(np.arange(len(count)), count)
    gaps = gaps.chosen(np.arange(len(step)) + np.repeat(first - np.cumsum(count) + count, count))
    cut = {
        "start_ns": np.maximum(gaps.start_ns, begin_ns[step]),
        "end_ns": np.minimum(gaps.end_ns, end_ns[step]),
    }
    return step, Gaps(**{column: cut.get(column, getattr(gaps, column)) for column in gaps.__struct_fields__})


def saw_work(trace: Trace) -> Flags:
    """Whether any device work ran within each step."""
    return cover(trace.work.start_ns, trace.work.end_ns).within(*step_bounds(trace)) > 0


def loop_thread(trace: Trace, calls: HostCalls) -> int:
    """The thread that ran the steps; without steps the one with the most time in marks, or else in calls."""
    spans = trace.marks if len(trace.marks) else calls.spans
    if trace.loop_thread != NONE or not len(spans):
        return trace.loop_thread
    times_ns = np.zeros(len(trace.threads), dtype=np.int64)
    np.add.at(times_ns, spans.thread, spans.duration_ns)
    return int(times_ns.argmax())


def at_positions(column: npt.NDArray[Value], positions: Integers) -> npt.NDArray[Value]:
    """What the column holds at each position; where that is NONE, any value."""
    return column[positions] if len(column) else np.zeros(len(positions), dtype=column.dtype)


def _gaps(trace: Trace, calls: HostCalls) -> Gaps:
    """Every gap from the begin of the first step to the end of the last that lies in a step, at least in part."""
    begin_ns, end_ns = step_bounds(trace)
    busy = cover(trace.work.start_ns, trace.work.end_ns)
    launch = _launches(trace, calls, busy)
    is_known = launch != NONE
    start_ns = np.append(begin_ns.min(), busy.end_ns).clip(min=begin_ns.min())
    work_ns = np.append(busy.start_ns, end_ns.max())
    stop_ns = work_ns.clip(max=end_ns.max())
    launch_begin_ns, launch_end_ns = (at_positions(each, launch) for each in (calls.spans.start_ns, calls.spans.end_ns))
    gaps = Gaps(
        start_ns=start_ns,
        end_ns=stop_ns,
        since_ns=start_ns,
        idle_ns=cover(begin_ns, end_ns).within(start_ns, np.maximum(start_ns, stop_ns)),
        cause=np.where(is_known & (launch_begin_ns < start_ns), LAUNCH, HOST_LATE),
        thread=np.where(is_known, at_positions(calls.spans.thread, launch), loop_thread(trace, calls)),
        delay_ns=np.where(is_known, (work_ns - launch_end_ns).clip(min=0), NONE),
    )
    late_ns = np.where(is_known, np.minimum(launch_begin_ns, stop_ns), stop_ns)
    for cause, waits in ((SYNCHRONISATION, _device_waits(trace, calls)), (LOADER, _loader_waits(trace, calls))):
        is_long = 2 * _waited_ns(waits, start_ns, late_ns) >= gaps.idle_ns
        gaps.cause[is_long & (gaps.cause != LAUNCH)] = cause
    gaps.cause[:-1][~is_known[:-1]] = UNKNOWN
    return gaps.chosen(gaps.idle_ns > 0)


def _waited_ns(waits: Cover, start_ns: Integers, end_ns: Integers) -> Integers:
    """How long the waits lasted that go on when each gap begins, or begin within it, up to its given end."""
    return waits.within(waits.begin_at(start_ns), np.maximum(start_ns, end_ns))


def _loader_waits(trace: Trace, calls: HostCalls) -> Cover:
    return _cover_on_loop(trace, calls, loading(calls))


def _device_waits(trace: Trace, calls: HostCalls) -> Cover:
    """Driver calls that wait for the device: by their name, or because they copy to pageable memory of the host."""
    is_waiting = fits(trace.names, calls.spans.name, _WAITING.match) & calls.is_driver_call
    copies = trace.work.chosen(fits(trace.names, trace.work.name, _BLOCKING_COPY.match))
    launch = driver_launches(copies, calls)
    is_waiting[launch[launch != NONE]] = True
    return _cover_on_loop(trace, calls, is_waiting)


def _cover_on_loop(trace: Trace, calls: HostCalls, which: Flags) -> Cover:
    chosen = np.flatnonzero(which & (calls.spans.thread == loop_thread(trace, calls)))
    start_ns = calls.spans.start_ns[chosen]
    return cover(start_ns, start_ns + calls.spans.duration_ns[chosen])


def _launches(trace: Trace, calls: HostCalls, busy: Cover) -> Integers:
    """For each stretch of work the call that launched the first of it, NONE where none is known or no stretch follows.

    Of work that starts together the earliest launched counts, so that the order in the file does not matter.
    """
    launch = driver_launches(trace.work, calls)
    launched_ns = np.where(launch == NONE, np.iinfo(np.int64).max, at_positions(calls.spans.start_ns, launch))
    order = np.lexsort((trace.work.correlation, launched_ns, trace.work.start_ns))
    first = np.searchsorted(trace.work.start_ns[order], busy.start_ns, side="left")
    return np.append(launch[order][first], NONE)
