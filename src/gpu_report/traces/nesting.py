"""Which call is inside which, what time is a call's own on one thread, and how much overlapping
intervals cover.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from gpu_report.traces.grouping import sums
from gpu_report.traces.trace import NONE, Flags, Integers, Spans


def begin_order(spans: Spans) -> Integers:
    """Positions thread by thread in the order in which the events begin, outer before inner.

    Events that begin and end together keep the order of the file: the later is the inner one.
    """
    return np.lexsort((-spans.duration_ns, spans.start_ns, spans.thread))


def nest(spans: Spans) -> tuple[Integers, Integers]:
    """For each event in `begin_order` the position of the event it began in (NONE: outermost), and
    its own time.

    Each moment of a thread belongs to the latest begun event that still runs, so that own times add
    up to the busy time even where an event outlives the one it began in, as happens in real traces.
    """
    laid_out = spans.laid_out  # so that nothing runs on when the next thread begins
    starts_ns, ends_ns = laid_out.start_ns.tolist(), laid_out.end_ns.tolist()
    parents, own_ns = [NONE] * len(spans), [0] * len(spans)
    running: list[int] = []  # the latest begun last; of those below it some may have ended
    counted_ns = 0

    def count_until(moment_ns: int) -> None:
        nonlocal counted_ns
        while running and ends_ns[running[-1]] <= moment_ns:
            ended = running.pop()
            if ends_ns[ended] > counted_ns:
                own_ns[ended] += ends_ns[ended] - counted_ns
                counted_ns = ends_ns[ended]
        if running:
            own_ns[running[-1]] += moment_ns - counted_ns
        counted_ns = moment_ns

    for event, start_ns in enumerate(starts_ns):
        count_until(start_ns)
        if running:
            parents[event] = running[-1]
        running.append(event)
    count_until(max(ends_ns, default=0))
    return np.array(parents, dtype=np.int64), np.array(own_ns, dtype=np.int64)


def outermost(parent: Integers) -> Integers:
    """For each event the position of the outermost event around it, its own where nothing is around
    it.
    """
    return nearest(parent, parent == NONE)


def nearest(parent: Integers, is_wanted: Flags) -> Integers:
    """For each event the position of the nearest wanted one: itself, or one around it; NONE where
    none is.
    """
    found = np.where(is_wanted, np.arange(len(parent)), parent)
    while True:
        searching = np.flatnonzero(found != NONE)
        searching = searching[~is_wanted[found[searching]]]
        if not len(searching):
            return found
        found[searching] = found[found[searching]]  # twice as far out with each round


def outwards(parent: Integers, positions: Integers) -> Iterator[Integers]:
    """Level by level the event around each position that still has one; NONE where it has none."""
    while len(positions):
        positions = parent[positions]
        yield positions
        positions = positions[positions != NONE]


def lies_in_its_like(parent: Integers, kind: Integers) -> Flags:
    """Whether an event of the same kind, such as its name, is around each event."""
    found, inner = np.zeros(len(kind), dtype=np.bool_), np.arange(len(kind))
    for outer in outwards(parent, inner):
        inner, around = inner[outer != NONE], outer[outer != NONE]
        found[inner] |= kind[around] == kind[inner]
    return found


def with_inner(parent: Integers, values: Integers) -> Integers:
    """For each event its own value and the values of all events inside it, together."""
    total, inner = values.copy(), np.flatnonzero(values)
    each = values[inner]
    for outer in outwards(parent, inner):
        each = each[outer != NONE]
        total += sums(outer[outer != NONE], each, len(total))
    return total


_LONG_AGO: Final = -(1 << 62)
"""Before all times, and differs from each of them by less than 64 bits."""


class Cover(NamedTuple):
    """Stretches of time apart from each other, in order: what intervals cover together."""

    start_ns: Integers
    end_ns: Integers

    @property
    def total_ns(self) -> int:
        """How long they are together."""
        return int((self.end_ns - self.start_ns).sum())

    def within(self, begin_ns: Integers, end_ns: Integers) -> Integers:
        """How much of each window from begin to end is covered."""
        begun_ns = np.append(0, np.cumsum(self.end_ns - self.start_ns))
        ends_ns = np.append(_LONG_AGO, self.end_ns)

        def covered_until(times_ns: Integers) -> Integers:
            begun = np.searchsorted(self.start_ns, times_ns, side="right")
            covered: Integers = begun_ns[begun] + np.minimum(times_ns - ends_ns[begun], 0)
            return covered

        return covered_until(end_ns) - covered_until(begin_ns)

    def last_begin(self, times_ns: Integers) -> Integers:
        """Where the last stretch that begins at each moment or before it does; the moment itself
        where none does.
        """
        begun = np.searchsorted(self.start_ns, times_ns, side="right")
        return np.where(begun > 0, np.append(_LONG_AGO, self.start_ns)[begun], times_ns)

    def exposed_within(self, begin_ns: Integers, end_ns: Integers, *, hiding: "Cover") -> Integers:
        """How much of each window this covers and the other does not."""
        return self.and_also(hiding).within(begin_ns, end_ns) - hiding.within(begin_ns, end_ns)

    def and_also(self, other: "Cover") -> "Cover":
        """What either of both covers."""
        return cover(np.append(self.start_ns, other.start_ns), np.append(self.end_ns, other.end_ns))


def cover(start_ns: Integers, end_ns: Integers) -> Cover:
    """What intervals in any order cover together; those that touch become one stretch."""
    order = np.argsort(start_ns, kind="stable")
    starts, reached = start_ns[order], np.maximum.accumulate(end_ns[order])
    is_first = np.append(True, starts[1:] > reached[:-1])[: len(starts)]
    return Cover(starts[is_first], reached[np.append(is_first[1:], True)[: len(starts)]])


def cover_of(spans: Spans, which: Flags | Integers | slice = slice(None)) -> Cover:
    """What the events cover together, or those of them that the flags mark or the positions
    name.
    """
    start_ns = spans.start_ns[which]
    return cover(start_ns, start_ns + spans.duration_ns[which])


def overlaps(spans: Spans, begin_ns: int, end_ns: int) -> Flags:
    """Which events go on between two moments, be it in part."""
    return (spans.start_ns < end_ns) & (spans.end_ns > begin_ns)


def cut(
    start_ns: Integers, end_ns: Integers, windows: tuple[Integers, Integers]
) -> tuple[Integers, Integers, Integers, Integers]:
    """What of intervals is in windows, both apart from each other and in order: for each piece the
    positions of its interval and of its window, its begin and its end.
    """
    first = np.searchsorted(end_ns, windows[0], side="right")
    count = np.searchsorted(start_ns, windows[1], side="left") - first
    window = np.repeat(np.arange(len(count)), count)
    piece = np.arange(len(window)) + np.repeat(first - np.cumsum(count) + count, count)
    begin_ns, stop_ns = (each[window] for each in windows)
    return piece, window, np.maximum(start_ns[piece], begin_ns), np.minimum(end_ns[piece], stop_ns)


def innermost_at(
    spans: Spans,
    parent: Integers,
    thread: Integers,
    times_ns: Integers,
    *,
    skipped: Flags | None = None,
) -> Integers:
    """For each thread and moment the position of the innermost event that runs then, NONE where
    none does.

    The events are in `begin_order`, and `parent` is that of their nesting. Of an event that is
    `skipped` the one around it counts.
    """
    apart_ns = 1 + int(np.append(spans.start_ns, times_ns).max(initial=0))
    places_ns = spans.start_ns + spans.thread * apart_ns
    found = np.searchsorted(places_ns, times_ns + thread * apart_ns, side="right") - 1
    found[np.append(spans.thread, NONE)[found] != thread] = NONE
    searching = np.flatnonzero(found != NONE)
    while len(searching):
        reached = found[searching]
        has_ended = spans.end_ns[reached] <= times_ns[searching]
        searching = searching[has_ended if skipped is None else has_ended | skipped[reached]]
        found[searching] = parent[found[searching]]
        searching = searching[found[searching] != NONE]
    return found


class Windows(NamedTuple):
    """Windows of time apart from each other, in order, each with a label."""

    start_ns: Integers
    end_ns: Integers
    label: Integers

    def at(self, times_ns: Integers) -> Integers:
        """The label of the window that holds each moment, NONE outside of all; a window's end is
        outside it.
        """
        begun = np.searchsorted(self.start_ns, times_ns, side="right")
        is_in = times_ns < np.append(_LONG_AGO, self.end_ns)[begun]
        return np.where(is_in, np.append(NONE, self.label)[begun], NONE)


def windows(start_ns: Integers, end_ns: Integers, label: Integers) -> Windows:
    """Windows of intervals in any order; of those that overlap the earliest begun counts."""
    apart: list[tuple[int, int, int]] = []
    for window in sorted(
        zip(start_ns.tolist(), end_ns.tolist(), label.tolist(), strict=True),
        key=lambda window: (window[0], -window[1]),
    ):
        if not apart or window[0] >= apart[-1][1]:
            apart.append(window)
    columns = np.array(apart, dtype=np.int64).reshape(-1, 3)
    return Windows(columns[:, 0], columns[:, 1], columns[:, 2])
