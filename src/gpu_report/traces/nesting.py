"""Which call is inside which, what time is a call's own on one thread, and how much overlapping intervals cover."""

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from gpu_report.traces.grouping import distinct
from gpu_report.traces.trace import NONE, Flags, Integers, Spans

TOGETHER: Final = 1 << 16
"""Events nested at a time, if they can be parted: what it takes besides the result is a dozen numbers each."""


ROUNDS: Final = 100


class Nesting(NamedTuple):
    """For each event the position of the event it began in (NONE: outermost), and its own time.

    Positions are those of the events that were nested.
    """

    parent: Integers
    self_ns: Integers


def begin_order(spans: Spans) -> Integers:
    """Positions thread by thread in the order in which the events begin, outer before inner.

    Events that begin and end together keep the order of the file: the later is the inner one.
    """
    order = np.lexsort((spans.start_ns, spans.thread))
    starts_ns, threads = spans.start_ns[order], spans.thread[order]
    as_before = (starts_ns[1:] == starts_ns[:-1]) & (threads[1:] == threads[:-1])
    tied = np.flatnonzero(np.append(as_before, False) | np.append(False, as_before))
    if len(tied):  # few of many, and to sort by what is in no order takes most of the time
        chosen = order[tied]
        order[tied] = chosen[np.lexsort((-spans.duration_ns[chosen], starts_ns[tied], threads[tied]))]
    return order


def nest(spans: Spans, *, together: int = TOGETHER) -> Nesting:
    """Nest events in `begin_order`, about `together` at a time.

    Each moment of a thread belongs to the latest begun event that still runs, so that own times add up to the busy time
    even where an event outlives the one it began in, as happens in real traces.
    """
    parent, self_ns = np.empty(len(spans), dtype=np.int64), np.empty(len(spans), dtype=np.int64)
    for begin, end in pairwise(_apart(spans, together)):
        starts_ns, ends_ns = spans.start_ns[begin:end], spans.end_ns[begin:end]
        outliving = _outliving(ends_ns)
        found = _parents(starts_ns, ends_ns, outliving)
        parent[begin:end] = np.where(found == NONE, NONE, found + begin)
        self_ns[begin:end] = _own_ns(starts_ns, ends_ns, outliving)
    return Nesting(parent, self_ns)


def _apart(spans: Spans, together: int) -> list[int]:
    """Positions between which events nest among themselves: where a thread begins, and some where none goes on."""
    is_thread = np.diff(spans.thread, prepend=NONE) != 0
    threads = np.flatnonzero(is_thread)
    reached_ns = [np.maximum.accumulate(ends_ns) for ends_ns in np.split(spans.end_ns, threads[1:])]
    has_ended = spans.start_ns[1:] >= np.concatenate(reached_ns)[:-1]
    possible = np.flatnonzero(np.append(True, has_ended)[: len(spans)])
    first_of_many = possible[np.diff(possible // together, prepend=NONE) != 0]
    return [*distinct(np.append(first_of_many, threads)).tolist(), len(spans)]


def _outliving(ends_ns: Integers) -> Integers:
    """For each of a thread's events the latest begun before it that runs on when it ends, NONE without one.

    All between it and the event have ended by then. That holds of each step of the search, too, so that every event
    may go on from where another has come to: twice as far with each round where events follow each other, and by one
    where they lie within each other. So after ROUNDS, which a program's calls do not need, what is left goes on alone,
    each from the event before it; then the time stays linear.
    """
    found = np.arange(len(ends_ns)) - 1
    searching = np.flatnonzero(found != NONE)
    for _ in range(ROUNDS):
        reached = found[searching]
        is_over = ends_ns[reached] <= ends_ns[searching]
        searching = searching[is_over]
        found[searching] = found[reached[is_over]]
        searching = searching[found[searching] != NONE]
        if not len(searching):
            break
    for position in searching.tolist():
        before = position - 1
        while before != NONE and ends_ns[before] <= ends_ns[position]:
            before = found[before]
        found[position] = before
    return found


def _parents(starts_ns: Integers, ends_ns: Integers, outliving: Integers) -> Integers:
    """For each of a thread's events the latest begun before it that runs when it begins, NONE without one."""
    found = np.arange(len(starts_ns)) - 1
    searching = np.flatnonzero(found != NONE)
    while len(searching):
        reached = found[searching]
        is_over = ends_ns[reached] <= starts_ns[searching]
        searching = searching[is_over]
        found[searching] = outliving[reached[is_over]]
        searching = searching[found[searching] != NONE]
    return found


def _own_ns(starts_ns: Integers, ends_ns: Integers, outliving: Integers) -> Integers:
    """The time between each begin and the next: the begun event's until it ends, then that of what outlives it."""
    next_ns = np.append(starts_ns[1:], np.iinfo(np.int64).max)
    until_ns = np.minimum(ends_ns, next_ns)
    own_ns: Integers = until_ns - starts_ns
    running = np.arange(len(starts_ns))
    while True:
        goes_on = np.flatnonzero((until_ns < next_ns) & (outliving[running] != NONE))
        if not len(goes_on):
            return own_ns
        running, since_ns, next_ns = outliving[running[goes_on]], until_ns[goes_on], next_ns[goes_on]
        until_ns = np.minimum(ends_ns[running], next_ns)
        np.add.at(own_ns, running, until_ns - since_ns)


def outermost(parent: Integers) -> Integers:
    """For each event the position of the outermost event around it, its own where nothing is around it."""
    root = np.where(parent == NONE, np.arange(len(parent)), parent)
    while (root != root[root]).any():
        root = root[root]
    return root


def nearest(parent: Integers, is_wanted: Flags) -> Integers:
    """For each event the position of the nearest wanted one: itself, or one around it; NONE where none is."""
    found = np.where(is_wanted, np.arange(len(parent)), parent)
    while True:
        searching = np.flatnonzero(found != NONE)
        searching = searching[~is_wanted[found[searching]]]
        if not len(searching):
            return found
        found[searching] = found[found[searching]]  # twice as far out with each round


class Cover(NamedTuple):
    """Stretches of time apart from each other, in order: what intervals cover together."""

    start_ns: Integers
    end_ns: Integers

    def within(self, begin_ns: Integers, end_ns: Integers) -> Integers:
        """How much of each window from begin to end is covered."""
        if not len(self.start_ns):
            return np.zeros(len(begin_ns), dtype=np.int64)
        before = np.append(0, np.cumsum(self.end_ns - self.start_ns))

        def covered_until(times_ns: Integers) -> Integers:
            piece = np.searchsorted(self.start_ns, times_ns, side="right") - 1
            within = np.minimum(times_ns, self.end_ns[piece]) - self.start_ns[piece]
            return np.where(piece < 0, 0, before[piece] + within)

        return covered_until(end_ns) - covered_until(begin_ns)

    def begin_at(self, times_ns: Integers) -> Integers:
        """The begin of the stretch that holds each moment, its end included; the moment itself where none does."""
        if not len(self.start_ns):
            return times_ns
        piece = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        return np.where((piece >= 0) & (times_ns <= self.end_ns[piece]), self.start_ns[piece], times_ns)

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
    """What the events cover together, or those of them that the flags mark or the positions name."""
    start_ns = spans.start_ns[which]
    return cover(start_ns, start_ns + spans.duration_ns[which])


def innermost_at(
    spans: Spans, parent: Integers, thread: Integers, times_ns: Integers, *, skipped: Flags | None = None
) -> Integers:
    """For each thread and moment the position of the innermost event that runs then, NONE where none does.

    The events are in `begin_order`, and `parent` is that of their nesting. Of an event that is `skipped` the one around
    it counts.
    """
    found = np.full(len(times_ns), NONE)
    for number in distinct(thread):
        begin, end = np.searchsorted(spans.thread, (number, number + 1))
        asked = np.flatnonzero(thread == number)
        latest = np.searchsorted(spans.start_ns[begin:end], times_ns[asked], side="right") - 1
        found[asked] = np.where(latest < 0, NONE, latest + begin)
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
        """The label of the window that holds each moment, NONE outside of all; a window's end is outside it."""
        if not len(self.start_ns):
            return np.full(len(times_ns), NONE)
        index = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        return np.where((index >= 0) & (times_ns < self.end_ns[index]), self.label[index], NONE)


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
