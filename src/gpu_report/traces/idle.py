"""When the accelerator was idle and why, and how far the host ran ahead of it.

all work -> Cover -> gaps between its stretches, with causes -> cut at the steps -> Gaps -> IDLE
work and the calls that launched it -> how long it was queued, and gaps of a host that was too slow
-> LAUNCHES
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.traces.attribution import (
    DeviceWork,
    HostCalls,
    are_for,
    at_positions,
    begins_with_earlier_work,
    is_of,
    is_waiting,
    operations_around,
)
from gpu_report.traces.grouping import NS_PER_MS, NS_PER_US, STEP, Row, counts, fits, rows_of, sums
from gpu_report.traces.nesting import Cover, cover, cover_of, cut, innermost_at
from gpu_report.traces.trace import NONE, Columns, Flags, Integers, Trace
from gpu_report.traces.vendors import PINNING

IDLE: Final = Table(
    name="idle",
    meaning=(
        "One row per cause and operation: the gaps within the steps in which the accelerator did "
        "nothing, by what ended them; no rows without an accelerator."
    ),
    columns=(
        text(
            "cause",
            "launch: the next work was launched, and had not started; host: it was launched late; "
            "loader, synchronisation, allocator: the part of that by which the host's waits for "
            "data, for the device, or for memory that the driver gives or takes back held the "
            "launch up, in the gap or before it; of several that with most time in the gap; "
            "unknown: no launch is recorded. A gap is cut into the parts that have a cause each. "
            "Of timed steps also other ranks: kernels that waited for them, which are no gaps.",
        ),
        text(
            "operation",
            "The operation on the host in the middle of the gap, for synchronisation the one that "
            "waited; a driver call where no operation is around it; empty where none ran.",
        ),
        whole("gaps", "1", "Number of gaps."),
        number("total_ms", "ms", "Sum of the gaps."),
        number("longest_us", "us", "The longest."),
        number("share", "1", "total_ms over the wall time of the steps that saw work on a device."),
    ),
)
LAUNCHES: Final = Table(
    name="launches",
    meaning="One row per profiled step that saw device work: how far the host ran ahead of the "
    "accelerator.",
    columns=(
        STEP,
        whole("launches", "1", "Pieces of device work launched in the step."),
        number("short_share", "1", "Share of them that ran for less than 10 us."),
        number(
            "median_delay_us",
            "us",
            "Median time from the end of the launching call to the start of the work.",
        ),
        number(
            "mean_queue", "1", "Work launched and not yet started, on average over the step's time."
        ),
        whole(
            "longest_queue",
            "1",
            "The most work launched and not yet started at any moment of the step.",
        ),
        number(
            "launch_bound_share",
            "1",
            "Share of the step in gaps that a faster host would shorten: of cause host or launch, "
            "with work that started within 10 us of its launch. A longer gap than 200 us is a "
            "pause and does not count; where a step has ten such gaps or more, a pause is longer "
            "than three times their median, up to 1 ms.",
        ),
    ),
)
CAUSES: Final = ("loader", "synchronisation", "host", "launch", "unknown", "allocator")
"""What a column of causes counts through."""

LOADER, SYNCHRONISATION, HOST_LATE, LAUNCH, UNKNOWN, ALLOCATOR = range(len(CAUSES))
OTHER_RANKS: Final = "other ranks"
"""The cause of idle time in kernels that wait for others: of a timed step, whose waits count so."""

SHORT_NS: Final = 10_000
"""Work that runs for less is short: launching it takes the host about as long."""

AT_ONCE_NS: Final = 10_000
"""Work that starts so soon after its launching call was not queued: a launch reaches an idle device
in 2 to 5 us.
"""

STALL_NS: Final = 200_000
"""A longer gap is a stall: a host that goes from launch to launch takes 5 to 150 us for an
operation of PyTorch.
"""

STALL_TIMES, LEAST_GAPS, LONGEST_STALL_NS = 3, 10, 1_000_000
"""A host that leaves at least LEAST_GAPS gaps in a step is slow and not stalled. Then a stall is
STALL_TIMES as long as their median, but no shorter than STALL_NS and no longer than
LONGEST_STALL_NS.
"""


class Gaps(Columns, frozen=True, kw_only=True):
    """Stretches in which no device of the trace did anything, in order; columns of one number per
    stretch.

    `since_ns` is where the last wait before the launch began, where waits are the cause, else where
    the gap did, of which this may be the part within one step. `idle_ns` is how long the device was
    idle within steps before the launch, or after it where the cause is `launch`: that of all parts
    there. `cause` is a position in CAUSES. `thread` is the one that launched the work which ended
    the gap, and the loop's where that is not known. `delay_ns` is the time from the end of the
    launching call to the start of that work: 0 where it started before the call ended, NONE where
    no launch is known, and where the cause is a wait that went on in the gap.

    The cause follows from the first work after the gap, which is cut where it has several:

    - `unknown`: its launch is not recorded.
    - `loader`, `synchronisation`, `allocator`: the host launched it late, and waits for data, for
      the device or for memory held it up. Without a wait every later launch would come earlier by
      its time, so that the gaps after it would be shorter by that in all (`held_up_ns`). Of several
      the one with most time in the gap counts, of equals the one that held the host up longest.
    - `host`: as much of a late launch as such waits do not explain, or no work came any more.
    - `launch`: it was launched before the gap, or in it, and waited for AT_ONCE_NS or longer.
    """

    end_ns: Integers
    since_ns: Integers
    idle_ns: Integers
    cause: Integers
    delay_ns: Integers

    @property
    def duration_ns(self) -> Integers:
        """How long the device was idle."""
        return self.end_ns - self.start_ns


def idle_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of IDLE, the longest in all first; `Gaps` says what each cause means.

    Streams and devices count together: a gap is time in which none of them did anything. Steps that
    saw no device work are left out, as in STEPS.
    """
    _, gaps = gaps_in_steps(trace, calls)
    begin_ns, end_ns = trace.step_bounds
    wall_ns = int((end_ns - begin_ns)[saw_work(trace)].sum())
    name = at_positions(calls.spans.name, _operations(trace, calls, gaps), missing=NONE)
    keys, group = np.unique(name * len(CAUSES) + gaps.cause, return_inverse=True)
    total_ns, longest_ns = sums(group, gaps.duration_ns, len(keys)), np.zeros_like(keys)
    np.maximum.at(longest_ns, group, gaps.duration_ns)
    rows = rows_of(
        range(len(keys)),
        cause=[CAUSES[key % len(CAUSES)] for key in keys.tolist()],
        operation=[trace.names[key // len(CAUSES)] if key >= 0 else "" for key in keys.tolist()],
        gaps=counts(group, len(keys)),
        total_ms=total_ns / NS_PER_MS,
        longest_us=longest_ns / NS_PER_US,
        share=total_ns / max(wall_ns, 1),
    )
    return sorted(rows, key=lambda row: (-row["total_ms"], row["cause"], row["operation"]))


def launch_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> Iterator[Row]:
    """The rows of LAUNCHES, for the steps that saw device work.

    Work belongs to the step in which its launching call begins, and is queued from the end of that
    call to its own start. Work whose launch is not recorded counts nowhere. Of a CUDA graph each
    kernel counts as launched by the one call that launched the graph, so that it waits long and the
    queue is deep: the host is far ahead.
    """
    launched = calls.work.chosen(calls.work.launch != NONE)
    launched = launched.chosen(np.argsort(calls.spans.start_ns[launched.launch], kind="stable"))
    started_ns, launch_ns = launched.start_ns, calls.spans.start_ns[launched.launch]
    delay_ns = (started_ns - calls.spans.end_ns[launched.launch]).clip(min=0)
    is_short = launched.duration_ns < SHORT_NS
    # The queue: work that was launched and had not started. Pieces leave it before others come at
    # the same moment.
    moments_ns = np.append(started_ns, started_ns - delay_ns)
    in_turn = np.argsort(moments_ns, kind="stable")
    moments_ns = moments_ns[in_turn]
    length = np.cumsum(np.repeat((-1, 1), len(started_ns))[in_turn])
    waited_ns = np.append(0, np.cumsum(length[:-1] * np.diff(moments_ns)))
    # The accelerator waited for a host that went from launch to launch and was too slow: in gaps
    # shorter than a stall, whose next work had not been queued, so that a faster host would have
    # shortened the gap. A long pause of the host does not count, nor do gaps between queued
    # kernels.
    step, gaps = gaps_in_steps(trace, calls)
    is_at_once = (gaps.delay_ns != NONE) & (gaps.delay_ns < AT_ONCE_NS)
    is_bound = is_at_once & np.not_equal(gaps.cause, UNKNOWN)
    goes_on = is_bound.sum() >= LEAST_GAPS * saw_work(trace).sum() > 0
    usual_ns = np.median(gaps.idle_ns[is_bound]) if goes_on else 0
    is_bound &= gaps.idle_ns < np.clip(STALL_TIMES * usual_ns, STALL_NS, LONGEST_STALL_NS)
    bound_ns = sums(step[is_bound], gaps.duration_ns[is_bound], len(trace.steps))
    for index in np.flatnonzero(saw_work(trace)).tolist():
        begin_ns, end_ns = trace.steps[index].start_ns, trace.steps[index].end_ns
        mine = slice(*np.searchsorted(launch_ns, (begin_ns, end_ns)).tolist())
        queued_ns = (
            np.diff(np.interp((begin_ns, end_ns), moments_ns, waited_ns))[0] if len(length) else 0
        )
        first = max(int(np.searchsorted(moments_ns, begin_ns, side="right")) - 1, 0)
        last = int(np.searchsorted(moments_ns, end_ns, side="left"))
        yield {
            "step": trace.steps[index].number,
            "launches": len(delay_ns[mine]),
            "short_share": float(is_short[mine].mean()) if len(delay_ns[mine]) else None,
            "median_delay_us": float(np.median(delay_ns[mine])) / NS_PER_US
            if len(delay_ns[mine])
            else None,
            "mean_queue": queued_ns / (end_ns - begin_ns),
            "longest_queue": int(length[first:last].max(initial=0)),
            "launch_bound_share": int(bound_ns[index]) / (end_ns - begin_ns),
        }


def gaps_in_steps(trace: Trace, calls: HostCalls) -> tuple[Integers, Gaps]:
    """Every stretch of idleness within a step, and the position of that step; one over a step's end
    is one in each.

    A step that saw no device work has none: its events may not have been recorded.
    """
    gaps = _gaps(trace, calls)
    piece, step, start_ns, end_ns = cut(gaps.start_ns, gaps.end_ns, trace.step_bounds)
    gaps = msgspec.structs.replace(gaps.chosen(piece), start_ns=start_ns, end_ns=end_ns)
    was_seen = saw_work(trace)[step]
    return step[was_seen], gaps.chosen(was_seen)


def saw_work(trace: Trace) -> Flags:
    """Whether any device work ran within each step."""
    return cover_of(trace.work).within(*trace.step_bounds) > 0


def _gaps(trace: Trace, calls: HostCalls) -> Gaps:
    """Every gap from the begin of the first step to the end of the last that is in a step, at least
    in part.

    Before the first work no gap is known where that was launched before the recording: the device
    may have been at work on what was launched before it.
    """
    begin_ns, end_ns = trace.step_bounds
    work, busy = calls.work, cover_of(calls.work)
    # For each stretch of work the call that launched the first of it. Of work that starts together
    # the earliest launched counts, so that the order in the file does not matter.
    launched_ns = at_positions(calls.spans.start_ns, work.launch, missing=np.iinfo(np.int64).max)
    order = np.lexsort((work.correlation, launched_ns, work.start_ns))
    first = np.searchsorted(work.start_ns[order], busy.start_ns, side="left")
    launch = np.append(work.launch[order][first], NONE)
    is_known = launch != NONE
    start_ns = np.append(begin_ns.min(), busy.end_ns).clip(min=begin_ns.min())
    work_ns = np.append(busy.start_ns, end_ns.max())
    stop_ns = work_ns.clip(max=end_ns.max())
    if begins_with_earlier_work(calls):
        start_ns[0] = max(start_ns[0], stop_ns[0])
    launch_begin_ns, launch_end_ns = (
        at_positions(each, launch) for each in (calls.spans.start_ns, calls.spans.end_ns)
    )
    delay_ns = np.where(is_known, (work_ns - launch_end_ns).clip(min=0), NONE)
    is_late = ~is_known | (launch_begin_ns >= start_ns)
    is_unknown = ~is_known & (np.arange(len(launch)) < len(launch) - 1)
    is_cut = is_late & (delay_ns >= AT_ONCE_NS) & (launch_begin_ns < stop_ns)
    cut_ns = np.where(is_cut, launch_begin_ns, stop_ns)
    late_ns = np.maximum(
        start_ns, np.where(is_known, np.minimum(launch_begin_ns, stop_ns), stop_ns)
    )
    on_loop = calls.spans.thread == trace.loop_thread
    is_pinning = fits(trace.names, calls.spans.name, PINNING.fullmatch)
    is_allocating = are_for("allocating", trace, calls)
    # What held the host up, of several the one with most time in the gap, and then in all.
    waited, held_ns, since_ns = np.full(len(launch), HOST_LATE), np.zeros_like(cut_ns), start_ns
    in_gap_ns = held_ns
    is_split = is_late & ~is_unknown
    lost_ns = np.where(is_split, cut_ns - start_ns, 0)
    for cause, which in (
        (LOADER, is_of(calls.category, "data loading") & on_loop),
        (SYNCHRONISATION, is_waiting(trace, calls)),
        (ALLOCATOR, is_allocating & (on_loop | ~is_pinning)),
    ):
        waits = cover_of(calls.spans, which)
        by_it_ns = held_up_ns(trace, waits, late_ns, lost_ns)
        found_ns = waits.within(start_ns, late_ns)
        by_it_ns[-1] = found_ns[-1]  # no launch ended it that could have come earlier
        is_more = (found_ns > in_gap_ns) | ((found_ns == in_gap_ns) & (by_it_ns > held_ns))
        waited, in_gap_ns = np.where(is_more, cause, waited), np.where(is_more, found_ns, in_gap_ns)
        held_ns = np.where(is_more, by_it_ns, held_ns)
        since_ns = np.where(is_more, waits.last_begin(late_ns), since_ns)
    split_ns = np.where(is_split, np.minimum(start_ns + held_ns, cut_ns), start_ns)
    thread = np.where(is_known, at_positions(calls.spans.thread, launch), trace.loop_thread)
    unheld_ns = np.where(in_gap_ns > 0, NONE, delay_ns)
    late = np.select([is_unknown, is_late], [UNKNOWN, HOST_LATE], LAUNCH)
    parts = [
        Gaps(
            start_ns=first_ns,
            end_ns=last_ns,
            since_ns=since,
            idle_ns=_ns_within_steps(trace, *whole),
            cause=cause,
            thread=thread,
            delay_ns=delay,
        )
        for first_ns, last_ns, whole, since, cause, delay in (
            (start_ns, split_ns, (start_ns, cut_ns), since_ns, waited, unheld_ns),
            (split_ns, cut_ns, (start_ns, cut_ns), split_ns, late, delay_ns),
            (cut_ns, stop_ns, (cut_ns, stop_ns), cut_ns, np.full_like(late, LAUNCH), delay_ns),
        )
    ]
    gaps = parts[0].followed_by(parts[1]).followed_by(parts[2])
    gaps = gaps.chosen(_ns_within_steps(trace, gaps.start_ns, gaps.end_ns) > 0)
    return gaps.chosen(np.argsort(gaps.start_ns, kind="stable"))


def held_up_ns(trace: Trace, waits: Cover, late_ns: Integers, lost_ns: Integers) -> Integers:
    """For each gap how long the host's waits held up the launch that ended it: their time until
    then, less what the gaps before took of it.

    The gaps are in order; `late_ns` is when the host launched what ended each, and `lost_ns` how
    long the device was idle for that. A host is taken to run at most a step ahead: nothing counts
    that was before the step before the gap's own.
    """
    held_ns = np.zeros_like(lost_ns)
    begins_ns = trace.step_bounds[0]
    all_ns = waits.within(np.full_like(late_ns, begins_ns[0]), late_ns)
    before_step_ns = waits.within(np.full_like(begins_ns, begins_ns[0]), begins_ns)
    bounds = [*np.searchsorted(late_ns, begins_ns).tolist(), len(late_ns)]
    for step, (here, end) in enumerate(pairwise(bounds)):
        earlier = max(step - 1, 0)
        first = bounds[earlier]
        waited_ns = all_ns[first:end] - before_step_ns[earlier]
        left_ns = waited_ns - np.cumsum(lost_ns[first:end])
        left_ns -= np.minimum(np.minimum.accumulate(left_ns), 0)
        before_ns = np.append(0, left_ns)[:-1] + np.diff(waited_ns, prepend=0)
        held_ns[here:end] = before_ns[here - first :]
    return held_ns


def _ns_within_steps(trace: Trace, start_ns: Integers, end_ns: Integers) -> Integers:
    return cover(*trace.step_bounds).within(start_ns, np.maximum(start_ns, end_ns))


def _operations(trace: Trace, calls: HostCalls, gaps: Gaps) -> Integers:
    """The position of the operation in the middle of each gap, on the launching thread, or else on
    the loop's.

    Where the host waited for the device it is the one that waited. A driver call counts itself only
    where no operation is around it.
    """
    around = operations_around(calls.parent, calls.is_driver_call)

    def innermost(thread: Integers, times_ns: Integers) -> Integers:
        return at_positions(
            around, innermost_at(calls.spans, calls.parent, thread, times_ns), missing=NONE
        )

    loop = np.full(len(gaps), trace.loop_thread)
    middle_ns = (gaps.start_ns + gaps.end_ns) // 2
    found = np.where(
        gaps.cause == SYNCHRONISATION,
        innermost(loop, gaps.since_ns),
        innermost(gaps.thread, middle_ns),
    )
    return np.where(found == NONE, innermost(loop, middle_ns), found)
