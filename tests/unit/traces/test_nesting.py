"""Which call lies in which, whose time is whose, and how much of a window is covered."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.nesting import begin_order, cover, cover_of, innermost_at, nearest, nest
from gpu_report.traces.trace import NONE, Integers, Spans

Interval = tuple[int, int]
"""Start and duration."""

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=25)
TIED = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)), max_size=25)
"""Hardly any two events without others that begin or end with them, or are the same altogether."""

ON_THREADS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 2)), max_size=25
)


def column(values: list[int]) -> Integers:
    return np.array(values, dtype=np.int64)


def spans(intervals: list[Interval], threads: list[int] | None = None) -> Spans:
    """Events named by their position in the list."""
    return Spans(
        thread=column(threads or [0] * len(intervals)),
        start_ns=column([start for start, _ in intervals]),
        name=column(list(range(len(intervals)))),
        kind=column([0] * len(intervals)),
        duration_ns=column([duration for _, duration in intervals]),
    )


def nested(*intervals: Interval) -> list[tuple[int, int, int]]:
    """Per event in order of begin its position in the list, its parent and its own time."""
    ordered = spans(list(intervals)).chosen(begin_order(spans(list(intervals))))
    parent, self_ns = nest(ordered)
    return list(zip(ordered.name.tolist(), parent.tolist(), self_ns.tolist(), strict=True))


@given(st.one_of(ON_THREADS, TIED), st.sampled_from([1, 10**15]))
def test_events_are_ordered_by_thread_and_begin_the_longer_first_and_else_as_in_the_file(
    events: list[tuple[int, int, int]], scale: int
) -> None:
    mixed = spans(
        [(scale * start, scale * length) for start, length, _ in events],
        [thread for _, _, thread in events],
    )

    order = begin_order(mixed)

    assert order.tolist() == np.lexsort((-mixed.duration_ns, mixed.start_ns, mixed.thread)).tolist()


def nested_moment_by_moment(intervals: list[Interval]) -> list[tuple[int, int]]:
    """Of events in order of begin the parents and the own times, by what they mean."""
    starts, ends = (
        [start for start, _ in intervals],
        [start + duration for start, duration in intervals],
    )

    def latest_begun(among: Iterable[int], moment: int) -> int:
        return max((n for n in among if starts[n] <= moment < ends[n]), default=NONE)

    own_ns = Counter(
        latest_begun(range(len(starts)), moment) for moment in range(max(ends, default=0))
    )
    return [(latest_begun(range(n), start), own_ns[n]) for n, start in enumerate(starts)]


def in_begin_order(intervals: list[Interval]) -> list[Interval]:
    return sorted(intervals, key=lambda interval: (interval[0], -interval[1]))


@given(INTERVALS)
def test_a_parent_runs_when_its_child_begins_and_a_moment_belongs_to_the_latest_begun(
    intervals: list[Interval],
) -> None:
    found = [(parent, self_ns) for _, parent, self_ns in nested(*intervals)]

    assert found == nested_moment_by_moment(in_begin_order(intervals))


@given(INTERVALS, st.integers(0, 50), st.integers(0, 50))
def test_what_is_covered_of_a_window_counts_each_moment_once(
    intervals: list[Interval], start_ns: int, length_ns: int
) -> None:
    end_ns = start_ns + length_ns
    covered = {moment for start, duration in intervals for moment in range(start, start + duration)}

    found = cover_of(spans(intervals)).within(column([start_ns]), column([end_ns]))

    assert found.tolist() == [len(covered & set(range(start_ns, end_ns)))]


@given(INTERVALS, INTERVALS, st.integers(0, 50), st.integers(0, 50))
def test_what_another_cover_hides_is_not_exposed(
    first: list[Interval], second: list[Interval], start_ns: int, length_ns: int
) -> None:
    end_ns = start_ns + length_ns
    covered, hidden = (
        {moment for start, duration in each for moment in range(start, start + duration)}
        for each in (first, second)
    )

    found = cover_of(spans(first)).exposed_within(
        column([start_ns]), column([end_ns]), hiding=cover_of(spans(second))
    )

    assert found.tolist() == [len((covered - hidden) & set(range(start_ns, end_ns)))]


def test_a_cover_joins_what_touches_and_shows_where_the_last_stretch_until_a_moment_began() -> None:
    found = cover(column([30, 10, 0]), column([40, 20, 10]))

    assert list(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)) == [
        (0, 20),
        (30, 40),
    ]
    assert found.last_begin(column([-5, 0, 15, 20, 25, 30, 41])).tolist() == [
        -5,
        0,
        0,
        0,
        0,
        30,
        30,
    ]


@given(ON_THREADS, st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 95)), max_size=20))
def test_the_innermost_event_is_the_latest_begun_that_runs_on_the_thread(
    events: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    together = spans(
        [(start, duration) for start, duration, _ in events], [thread for _, _, thread in events]
    )
    ordered = together.chosen(begin_order(together))
    bounds = list(
        zip(
            ordered.thread.tolist(), ordered.start_ns.tolist(), ordered.end_ns.tolist(), strict=True
        )
    )

    found = innermost_at(
        ordered,
        nest(ordered)[0],
        column([thread for thread, _ in asked]),
        column([moment for _, moment in asked]),
    )

    assert found.tolist() == [
        max(
            (
                n
                for n, (on, start, end) in enumerate(bounds)
                if on == thread and start <= moment < end
            ),
            default=NONE,
        )
        for thread, moment in asked
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12))
def test_the_nearest_wanted_event_is_the_first_on_the_way_out(
    events: list[tuple[int, bool]],
) -> None:
    parents = [min(parent, position) - 1 for position, (parent, _) in enumerate(events)]
    wanted = [is_wanted for _, is_wanted in events]

    def searched(position: int) -> int:
        return position if position == NONE or wanted[position] else searched(parents[position])

    found = nearest(np.array(parents, dtype=np.int64), np.array(wanted, dtype=np.bool_))

    assert found.tolist() == [searched(position) for position in range(len(events))]
