"""One step as a picture: what went on in its phases, on the host's threads and on the device's
streams.

the step of median wall time -> lanes of stretches -> bins, each of the category that took most of
it -> TIMELINE
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from gpu_report.storage.columns import Table, number, text
from gpu_report.traces.attribution import CATEGORY_NAMES, DeviceWork, HostCalls
from gpu_report.traces.grouping import NS_PER_MS, STEP, Row
from gpu_report.traces.nesting import cover, cover_of, innermost_at, overlaps
from gpu_report.traces.phases import PHASE_NAMES, phase_stretches
from gpu_report.traces.trace import HOST, NONE, Integers, Spans, Step, Trace

TIMELINE: Final = Table(
    name="timeline",
    meaning=(
        "One row per lane and stretch of one profiled step, that of median wall time. Each lane's "
        "time is cut into at most 300 bins; a bin is of the category that took most of it, and "
        "empty if nothing went on in it; bins side by side of one category, whose busy shares lie "
        "in the same quarter, are one stretch."
    ),
    columns=(
        STEP,
        number("wall_ms", "ms", "From the begin to the end of the step on the host."),
        text(
            "lane",
            "phases; host 1, host 2 and host 3, the threads with most time in calls; the busiest "
            "streams of the accelerator by their numbers, such as stream 7: four, or three and "
            "other streams together.",
        ),
        text("device", "cpu for phases and threads, or the accelerator's backend as in the trace."),
        number("begin_ms", "ms", "Since the begin of the step."),
        number("end_ms", "ms", "Since the begin of the step."),
        text(
            "category",
            "In the lane phases: data, forward, loss, backward, optimizer, or other. Else one of "
            "gpu_report.traces.categories.CATEGORIES: of the innermost call on a thread, of the "
            "work on a stream.",
        ),
        number(
            "busy_share",
            "1",
            "Share of the stretch in which anything went on in the lane, whatever its category.",
        ),
    ),
)

PHASE_LANE: Final = "phases"
HOST_LANE: Final = "host"
STREAM_LANE: Final = "stream"
"""The first words of the lanes' names; threads and streams have a number as the second."""

MOST_BINS: Final = 300
"""A bin is half a millimetre of a figure as wide as the text."""

MOST_THREADS: Final = 3
"""The training loop's thread, autograd's, and one of the user's own."""

MOST_STREAMS: Final = 4

LEVELS: Final = 4
"""Bins are equally busy, and can make one stretch, where their busy shares are in the same of
LEVELS parts of 1.
"""

OTHER_STREAMS: Final = "other streams"


def timeline_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of TIMELINE, lane by lane in order of time: phases, threads, streams, the busiest of
    each first.

    Device work counts where it ran, also that which an earlier profiled step launched.
    """
    step = median_step(trace.steps)
    phases = _lane(step, PHASE_LANE, HOST, PHASE_NAMES, *phase_stretches(trace, calls, work))
    return [*phases, *_host_lanes(trace, calls, step), *_stream_lanes(trace, work, step)]


def median_step(steps: Sequence[Step]) -> Step:
    """The step of median wall time; of two in the middle the shorter, of steps that took equally
    long the first.
    """
    return sorted(steps, key=lambda step: step.end_ns - step.start_ns)[(len(steps) - 1) // 2]


def _host_lanes(trace: Trace, calls: HostCalls, step: Step) -> Iterator[Row]:
    category = np.where(calls.is_driver_call, CATEGORY_NAMES.index("runtime"), calls.category)
    here = calls.spans.chosen(overlaps(calls.spans, step.start_ns, step.end_ns))
    for position, thread in enumerate(_busiest(trace, here, step)[:MOST_THREADS], start=1):
        on_thread = here.chosen(here.thread == thread)
        times_ns = (on_thread.start_ns, on_thread.end_ns, (step.start_ns, step.end_ns))
        moments_ns = np.unique(np.concatenate(times_ns).clip(step.start_ns, step.end_ns))
        begin_ns, end_ns = moments_ns[:-1], moments_ns[1:]
        call = innermost_at(calls.spans, calls.parent, np.full(len(begin_ns), thread), begin_ns)
        begin_ns, end_ns, call = (column[call != NONE] for column in (begin_ns, end_ns, call))
        name = f"{HOST_LANE} {position}"
        yield from _lane(step, name, HOST, CATEGORY_NAMES, begin_ns, end_ns, category[call])


def _stream_lanes(trace: Trace, work: DeviceWork, step: Step) -> Iterator[Row]:
    """The busiest streams; where there are more than MOST_STREAMS, the last lane is of all others
    together.
    """
    here = work.chosen(overlaps(work, step.start_ns, step.end_ns))
    streams = _busiest(trace, here, step)
    alone = streams if len(streams) <= MOST_STREAMS else streams[: MOST_STREAMS - 1]
    # The profiler shows each stream as a thread of its device, which is named where there are
    # several; old ones write `stream 7` for its number.
    places = {stream: trace.threads[stream].rpartition("/") for stream in alone}
    has_one_device = len({device for device, _, _ in places.values()}) < 2
    lanes = {
        f"{STREAM_LANE} {number.removeprefix(STREAM_LANE).strip()}"
        + ("" if has_one_device else f" of device {device}"): [stream]
        for stream, (device, _, number) in places.items()
    }
    if streams[len(alone) :]:
        lanes[OTHER_STREAMS] = streams[len(alone) :]
    for name, members in lanes.items():
        mine = np.isin(here.thread, np.array(members, dtype=np.int64))
        yield from _lane(
            step,
            name,
            trace.device or "",
            CATEGORY_NAMES,
            here.start_ns[mine],
            here.end_ns[mine],
            here.category[mine],
        )


def _busiest(trace: Trace, here: Spans, step: Step) -> list[int]:
    """The threads that had something to do in the step, the busiest first; of those equally busy by
    their names.
    """
    window = np.array([step.start_ns]), np.array([step.end_ns])
    busy_ns = {
        thread: int(cover_of(here, here.thread == thread).within(*window)[0])
        for thread in np.unique(here.thread).tolist()
    }
    ranked = sorted(
        (-busy, trace.threads[thread], thread) for thread, busy in busy_ns.items() if busy
    )
    return [thread for _, _, thread in ranked]


def _lane(
    step: Step,
    name: str,
    device: str,
    words: Sequence[str],
    begin_ns: Integers,
    end_ns: Integers,
    label: Integers,
) -> Iterator[Row]:
    """The rows of one lane, from stretches of time in any order, which may overlap; a label is a
    position in `words`. A bin has the label that took most of it, the first of equals.
    """
    wall_ns = step.end_ns - step.start_ns
    count = min(MOST_BINS, wall_ns)
    bounds_ns = np.arange(count + 1) * wall_ns // count
    bins_ns = step.start_ns + bounds_ns[:-1], step.start_ns + bounds_ns[1:]
    busy_ns = cover(begin_ns, end_ns).within(*bins_ns)
    labels = np.unique(np.append(label, NONE))
    times_ns = [
        cover(begin_ns[label == one], end_ns[label == one]).within(*bins_ns) for one in labels
    ]
    of_bin = labels[np.argmax(times_ns, axis=0)]
    level = -(-LEVELS * busy_ns // np.diff(bounds_ns))
    is_first = np.append(True, (np.diff(of_bin) != 0) | (np.diff(level) != 0))
    firsts = np.flatnonzero(is_first).tolist()
    for begin, end in zip(firsts, [*firsts[1:], count], strict=True):
        if level[begin]:
            first_ns, last_ns = int(bounds_ns[begin]), int(bounds_ns[end])
            yield {
                "step": step.number,
                "wall_ms": wall_ns / NS_PER_MS,
                "lane": name,
                "device": device,
                "begin_ms": first_ns / NS_PER_MS,
                "end_ms": last_ns / NS_PER_MS,
                "category": words[of_bin[begin]],
                "busy_share": round(int(busy_ns[begin:end].sum()) / (last_ns - first_ns), 4),
            }
