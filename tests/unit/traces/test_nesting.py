"""Which call lies in which, whose time is whose, and how much of a window is covered."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.nesting import Windows, nest, union_ns
from gpu_report.traces.trace import Event
from tests.unit.traces.by_hand import event

EVENTS = st.lists(st.builds(event, st.integers(0, 60), st.integers(0, 30)), max_size=25)
DISTINCT = st.lists(
    st.builds(event, st.integers(0, 60), st.integers(0, 30)),
    max_size=12,
    unique_by=lambda e: (e.start_ns, e.duration_ns),
)


def busy_ns(events: list[Event]) -> int:
    return len({moment for each in events for moment in range(each.start_ns, each.end_ns)})


@given(EVENTS)
def test_own_times_add_up_to_the_busy_time_of_the_thread(events: list[Event]) -> None:
    assert sum(place.self_ns for place in nest(events)) == busy_ns(events)


@given(EVENTS)
def test_no_event_has_less_than_nothing_or_more_than_its_duration_of_its_own(events: list[Event]) -> None:
    assert all(0 <= place.self_ns <= place.event.duration_ns for place in nest(events))


@given(DISTINCT, st.randoms())
def test_the_order_in_the_file_does_not_matter_but_for_exact_ties(events: list[Event], random: Random) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)

    assert nest(shuffled) == nest(events)


@given(EVENTS, st.integers(0, 50), st.integers(0, 50))
def test_the_union_counts_each_moment_of_the_window_once(events: list[Event], start_ns: int, length_ns: int) -> None:
    end_ns = start_ns + length_ns
    covered = {moment for each in events for moment in range(each.start_ns, each.end_ns)}

    union = union_ns(((each.start_ns, each.end_ns) for each in events), start_ns=start_ns, end_ns=end_ns)

    assert union == len(covered & set(range(start_ns, end_ns)))


def test_a_parent_keeps_what_its_children_leave() -> None:
    outer, first, second = event(0, 100), event(10, 20), event(40, 50)

    assert [place.self_ns for place in nest([outer, first, second])] == [30, 20, 50]


def test_only_the_direct_children_are_taken_off() -> None:
    places = nest([event(0, 100), event(10, 50), event(20, 30)])

    assert [(place.parent, place.self_ns) for place in places] == [(None, 50), (0, 20), (1, 30)]


def test_an_event_that_begins_where_another_ends_does_not_lie_in_it() -> None:
    assert [place.parent for place in nest([event(0, 10), event(10, 10)])] == [None, None]


def test_of_events_that_begin_and_end_together_the_later_in_the_file_is_the_inner_one() -> None:
    places = nest([event(0, 10, "outer"), event(0, 10, "inner")])

    assert [(place.event.name, place.parent, place.self_ns) for place in places] == [
        ("outer", None, 0),
        ("inner", 0, 10),
    ]


def test_an_event_that_outlives_the_one_it_began_in_takes_the_time_both_run() -> None:
    places = nest([event(0, 100, "outer"), event(60, 80, "late"), event(110, 10, "inside late")])

    assert [(place.event.name, place.parent, place.self_ns) for place in places] == [
        ("outer", None, 60),
        ("late", 0, 70),
        ("inside late", 1, 10),
    ]


def test_a_window_holds_its_start_and_not_its_end() -> None:
    windows = Windows.of([(10, 20, "second"), (0, 10, "first"), (30, 40, "third")])

    assert [windows.at(moment) for moment in (0, 9, 10, 19, 20, 35, 40)] == [
        "first",
        "first",
        "second",
        "second",
        None,
        "third",
        None,
    ]


def test_of_nested_windows_the_outer_one_counts() -> None:
    windows = Windows.of([(0, 100, "outer"), (10, 20, "inner")])

    assert [windows.at(moment) for moment in (5, 15, 50)] == ["outer", "outer", "outer"]
