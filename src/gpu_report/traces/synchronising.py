"""Where the host waits for the device: driver calls that return only when the device is done, and who made them.

Trace -> waiting driver calls of the steps -> operation around each, source line around it -> Wait

A copy from pageable memory to the device waits as well; it is left out, since the table of copies tells it.
"""

import re
from typing import Final, NamedTuple

import numpy as np

from gpu_report.traces.grouping import distinct, fits, is_among
from gpu_report.traces.nesting import begin_order, innermost_at, nest
from gpu_report.traces.sorting import RUNTIME
from gpu_report.traces.sources import is_users_own
from gpu_report.traces.spans import NONE, Flags, Spans
from gpu_report.traces.times import Integers
from gpu_report.traces.trace import Trace

_WAITING: Final = re.compile(
    r"(cuda|cu|hip)((Stream|Device|Event|Ctx)Synchronize|Memcpy(HtoD|DtoH)?(_v2)?)|urQueueFinish"
)
_UPLOAD: Final = re.compile(r"HtoD|HostToDevice")


class Wait(NamedTuple):
    """How often and how long an operation, called from a source line, waited for the device.

    `source` is `file(line): function`, the line being where the function begins; it and `operation` are empty where the
    trace does not tell them.
    """

    operation: str
    source: str
    calls: int
    total_ns: int


def waits(trace: Trace) -> list[Wait]:
    """The waits within the steps, the longest first."""
    waiting = _waiting_calls(trace)
    outermost = _outermost(_operations(trace))
    waiting = waiting.chosen(~_uploads(trace, outermost, waiting))
    operations = _names_of(outermost, _around(outermost, waiting))
    functions = _own_functions(trace)
    sources = _names_of(functions, _around(functions, waiting))
    places, group = np.unique(np.stack([operations, sources]), axis=1, return_inverse=True)
    durations_ns = [waiting.duration_ns[group.ravel() == number] for number in range(places.shape[1])]
    found = [
        Wait(_name(trace, operation), _name(trace, source), len(each), int(each.sum()))
        for (operation, source), each in zip(places.T.tolist(), durations_ns, strict=True)
    ]
    return sorted(found, key=lambda wait: (-wait.total_ns, wait.operation, wait.source))


def _waiting_calls(trace: Trace) -> Spans:
    calls = trace.calls
    begin_ns, end_ns = (np.array([getattr(step, side) for step in trace.steps]) for side in ("start_ns", "end_ns"))
    step = np.searchsorted(begin_ns, calls.start_ns, side="right") - 1
    in_step = (step >= 0) & (calls.start_ns < end_ns[np.maximum(step, 0)])
    return calls.chosen(in_step & fits(trace.names, calls.name, _WAITING.fullmatch))


def _operations(trace: Trace) -> Spans:
    calls = trace.calls
    return calls.chosen(~fits(trace.kinds, calls.kind, RUNTIME.fullmatch))


def _outermost(spans: Spans) -> Spans:
    """Those that begin after all others of their thread that began before have ended."""
    spans = spans.chosen(begin_order(spans))
    if not len(spans):
        return spans
    kept = [_begins_alone(spans.chosen(spans.thread == thread)) for thread in distinct(spans.thread)]
    return spans.chosen(np.concatenate(kept))


def _begins_alone(spans: Spans) -> Flags:
    reached_ns = np.maximum.accumulate(spans.end_ns)
    return np.append(True, spans.start_ns[1:] >= reached_ns[:-1])


def _uploads(trace: Trace, outermost: Spans, waiting: Spans) -> Flags:
    """Which waits follow a copy to the device in the same outermost operation."""
    uploaded = trace.work.correlation[fits(trace.names, trace.work.name, _UPLOAD.search)]
    copies = trace.calls.chosen(is_among(trace.calls.correlation, uploaded[uploaded > 0]))
    copied_in = distinct(_around(outermost, copies))
    return is_among(_around(outermost, waiting), copied_in[copied_in != NONE])


def _own_functions(trace: Trace) -> Spans:
    functions = trace.functions.chosen(fits(trace.names, trace.functions.name, is_users_own))
    return functions.chosen(begin_order(functions))


def _around(spans: Spans, moments: Spans) -> Integers:
    """Position of the innermost of the spans, which stand in `begin_order`, that runs when each moment begins."""
    if not len(spans):
        return np.full(len(moments), NONE)
    return innermost_at(spans, nest(spans).parent, moments.thread, moments.start_ns)


def _names_of(spans: Spans, positions: Integers) -> Integers:
    return np.where(positions == NONE, NONE, spans.name[positions]) if len(spans) else positions


def _name(trace: Trace, position: int) -> str:
    return "" if position == NONE else trace.names[position]
