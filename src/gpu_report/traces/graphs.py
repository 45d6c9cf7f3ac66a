"""Which operations the kernels of a replayed graph came from: those of the same step, recorded
before it was captured.

A replay shows its kernels under one launch, that of the graph. The uncaptured step launches the
same kernels from its operations, so that each replayed kernel has a counterpart there: the one in
the same place, where a stretch of the uncaptured work has the same names in the same order. Where
several streams run side by side the order differs, and the counterpart is the one that comes as
often before under the same name, if both have that name equally often.

trace of replays, work of the uncaptured step -> with_operations -> the trace with those operations
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
import numpy as np

from gpu_report.traces.attribution import Attributed, attribute
from gpu_report.traces.grouping import fits
from gpu_report.traces.phases import is_of_data
from gpu_report.traces.trace import NONE, Integers, Spans

_AnySpans = TypeVar("_AnySpans", bound=Spans)

_APART_NS: Final = 1_000_000_000
"""From the end of a trace to what is added to it, so that this is in none of its steps."""


def with_operations(replaying: Attributed, uncaptured: Attributed) -> Attributed:
    """The trace with the calls, marks and Python functions of the uncaptured steps added after its
    end, and each replayed kernel that has a counterpart linked to the operation that launched it
    there.

    As it was where it replays no graph, or no replayed kernel has a counterpart.
    """
    (trace, host, _), (other, calls, work) = replaying, uncaptured
    if not host.work.in_graph.any():
        return replaying
    names, name_of = _merged(trace.names, other.names)
    kinds, kind_of = _merged(trace.kinds, other.kinds)
    is_offered = (work.call != NONE) & ~is_of_data(other, calls, work) & ~work.in_graph
    replayed, launched = (
        np.flatnonzero(which)[np.argsort(spans.start_ns[which], kind="stable")]
        for spans, which in ((trace.work, host.work.in_graph), (work, is_offered))
    )
    wanted, offered = (
        np.where(fits(of.kinds, spans.kind, "gpu_memset".__eq__), NONE, number[spans.name])
        for of, spans, number in (
            (trace, trace.work.chosen(replayed), np.arange(len(trace.names))),
            (other, work.chosen(launched), name_of),
        )
    )  # one number for all fills, which a graph may run as kernels
    found = np.full(len(replayed), NONE)
    of_launch = host.work.launch[replayed]
    behind = 0  # graphs of one step follow each other in the uncaptured step, too
    for launch in np.unique(of_launch):
        mine = of_launch == launch
        found[mine] = _counterparts(wanted[mine], offered, behind)
        behind = int(found[mine].max()) + 1
    has_one = found != NONE
    if not has_one.any():
        return replaying
    first_id = 1 + int(max(each.external_id.max(initial=0) for each in (trace.calls, trace.work)))
    external_id = trace.work.external_id.copy()
    external_id[replayed[has_one]] = first_id + work.call[launched[found[has_one]]]
    end_ns = max(int(each.end_ns.max(initial=0)) for each in (trace.calls, trace.marks, trace.work))

    def moved(spans: _AnySpans) -> _AnySpans:
        return msgspec.structs.replace(
            spans,
            name=name_of[spans.name],
            kind=kind_of[spans.kind],
            thread=spans.thread + len(trace.threads),
            start_ns=spans.start_ns + end_ns + _APART_NS,
        )

    added = msgspec.structs.replace(
        moved(other.calls),
        correlation=np.full(len(other.calls), NONE),
        external_id=first_id + np.arange(len(other.calls)),
    )
    joined = msgspec.structs.replace(
        trace,
        names=names,
        kinds=kinds,
        threads=(*trace.threads, *other.threads),
        calls=trace.calls.followed_by(added),
        marks=trace.marks.followed_by(moved(other.marks)),
        functions=trace.functions.followed_by(moved(other.functions)),
        work=msgspec.structs.replace(trace.work, external_id=external_id),
    )
    return attribute(joined)


def _merged(texts: Sequence[str], others: Sequence[str]) -> tuple[tuple[str, ...], Integers]:
    """The texts, then those of the others that are not among them; and where each other one is."""
    place = {text: position for position, text in enumerate(texts)}
    places = [place.setdefault(text, len(place)) for text in others]
    return tuple(place), np.array(places, dtype=np.int64)


def _counterparts(wanted: Integers, offered: Integers, behind: int) -> Integers:
    """For each wanted key, in order of time, the position among those offered, `behind` a position
    rather than before it; NONE where there is none.
    """
    places: Integers = np.arange(len(wanted))
    begins = np.flatnonzero(offered[: max(len(offered) - len(wanted) + 1, 0)] == wanted[0])
    for first in [*begins[begins >= behind].tolist(), *begins[begins < behind].tolist()]:
        if np.array_equal(offered[first + places], wanted):
            counterparts: Integers = first + places
            return counterparts
    found = np.full(len(wanted), NONE)
    for key in np.unique(wanted):
        mine, theirs = np.flatnonzero(wanted == key), np.flatnonzero(offered == key)
        if len(mine) == len(theirs):
            found[mine] = theirs
    return found
