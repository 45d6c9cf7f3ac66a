"""Which call lies in which, and what time is a call's own, on one thread; and lengths of intervals that overlap."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from gpu_report.traces.trace import Event


class Nested(NamedTuple):
    """An event with its place on its thread: the position of the event it began in (None: outermost), its own time."""

    event: Event
    parent: int | None
    self_ns: int


def nest(events: Iterable[Event]) -> list[Nested]:
    """Nest the events of one thread; the results stand in the order in which the events begin, outer before inner.

    Each moment belongs to the latest begun event that still runs, so that own times add up to the busy time even where
    an event outlives the one it began in, as happens in real traces. Events that begin and end together keep the order
    of the file: the later is the inner one.
    """
    ordered = sorted(events, key=lambda event: (event.start_ns, -event.duration_ns))
    parents: list[int | None] = []
    clock = _OwnTimeClock(ordered)
    for index, event in enumerate(ordered):
        clock.advance(event.start_ns)
        parents.append(clock.running[-1] if clock.running else None)
        clock.running.append(index)
    clock.advance(max((event.end_ns for event in ordered), default=0))
    return [Nested(*place) for place in zip(ordered, parents, clock.own_ns, strict=True)]


class _OwnTimeClock:
    """Goes along one thread and charges the time that passes to the innermost running event."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._now_ns = 0
        self.running: list[int] = []
        self.own_ns = [0] * len(events)

    def advance(self, until_ns: int) -> None:
        while self.running:
            innermost = self.running[-1]
            end_ns = self._events[innermost].end_ns
            if end_ns > self._now_ns:
                passed_ns = min(end_ns, until_ns) - self._now_ns
                self.own_ns[innermost] += passed_ns
                self._now_ns += passed_ns
            if end_ns > until_ns:
                return
            self.running.pop()
        self._now_ns = until_ns


def union_ns(intervals: Iterable[tuple[int, int]], *, start_ns: int, end_ns: int) -> int:
    """How much of the window from start to end the intervals (start, end) cover together."""
    covered_ns = 0
    reached_ns = start_ns
    for begin, end in sorted(intervals):
        stop_ns = min(end, end_ns)
        new_ns = stop_ns - max(begin, reached_ns)
        if new_ns > 0:
            covered_ns += new_ns
            reached_ns = stop_ns
    return covered_ns


Label = TypeVar("Label")


@dataclass(frozen=True, kw_only=True)
class Windows(Generic[Label]):
    """Labelled windows of time; of windows that overlap the earliest begun counts."""

    starts_ns: tuple[int, ...]
    ends_ns: tuple[int, ...]
    labels: tuple[Label, ...]

    @classmethod
    def of(cls, windows: Iterable[tuple[int, int, Label]]) -> "Windows[Label]":
        """Make them from (start, end, label) in any order."""
        apart: list[tuple[int, int, Label]] = []
        for window in sorted(windows, key=lambda window: (window[0], -window[1])):
            if not apart or window[0] >= apart[-1][1]:
                apart.append(window)
        return cls(
            starts_ns=tuple(start for start, _, _ in apart),
            ends_ns=tuple(end for _, end, _ in apart),
            labels=tuple(label for _, _, label in apart),
        )

    def at(self, time_ns: int) -> Label | None:
        """The label of the window that holds this moment; a window's end lies outside it."""
        index = bisect_right(self.starts_ns, time_ns) - 1
        return self.labels[index] if index >= 0 and time_ns < self.ends_ns[index] else None
