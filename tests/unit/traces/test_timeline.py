"""One step as a picture: which step it is of, what each lane holds, and that no more is told than
went on.
"""

from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.attribution import attribute_device, attribute_host
from gpu_report.traces.quality import quality_rows
from gpu_report.traces.timeline import OTHER_STREAMS, TIMELINE, median_step, timeline_rows
from gpu_report.traces.trace import Step
from tests.unit.traces.by_hand import (
    RawEvent,
    kernel,
    launch,
    made_by,
    operation,
    step,
    trace_of,
    trusted,
)

WALL_US = 3000
"""Of a step by hand: ten microseconds a bin."""

PLACE_AND_TIME = (st.integers(0, 3), st.integers(0, WALL_US + 500), st.integers(0, 900))
TIMES = st.tuples(st.sampled_from(["operation", "launch", "kernel"]), *PLACE_AND_TIME)
KERNELS = st.tuples(st.just("kernel"), *PLACE_AND_TIME)


def one_step(*events: RawEvent) -> list[dict[str, Any]]:
    return made_by(timeline_rows, trace_of(step(1, 0, WALL_US), *events))


def any_event(kind: str, place: int, start_us: int, duration_us: int) -> RawEvent:
    if kind == "kernel":
        return kernel("gemm", start_us, duration_us, on=(0, place))
    if kind == "launch":
        return launch(1, start_us, duration_us, on=(100, f"thread {place}"))
    return operation("aten::add", start_us, duration_us, on=(100, f"thread {place}"))


@pytest.mark.parametrize(
    ("walls_ns", "number"),
    [([7], 0), ([9, 4, 6], 2), ([5, 8, 5, 9], 2), ([3, 3, 3], 1), ([8, 2], 1)],
)
def test_the_step_shown_is_that_of_median_wall_time(walls_ns: list[int], number: int) -> None:
    steps = [
        Step(number=index, start_ns=100 * index, end_ns=100 * index + wall)
        for index, wall in enumerate(walls_ns)
    ]

    assert median_step(steps).number == number


@given(st.lists(TIMES, max_size=20))
def test_stretches_of_a_lane_follow_each_other_within_the_step(
    times: list[tuple[str, int, int, int]],
) -> None:
    rows = one_step(*(any_event(*each) for each in times))

    TIMELINE.from_rows(rows)
    for _, lane in groupby(rows, key=itemgetter("lane")):
        of_lane = list(lane)
        assert all(before["end_ms"] <= after["begin_ms"] for before, after in pairwise(of_lane))
        assert all(0 <= row["begin_ms"] < row["end_ms"] <= row["wall_ms"] for row in of_lane)
        assert all(0 < row["busy_share"] <= 1 for row in of_lane)


@given(st.lists(KERNELS, min_size=1, max_size=8))
def test_what_a_stream_shows_adds_up_to_the_time_it_was_busy(
    times: list[tuple[str, int, int, int]],
) -> None:
    rows = one_step(launch(1, 0), *(any_event(*each) for each in times))

    for stream in {place for _, place, _, _ in times}:
        busy_us = {
            moment
            for _, place, begin, length in times
            if place == stream
            for moment in range(begin, begin + length)
        }
        shown = [row for row in rows if row["lane"] == f"stream {stream}"]
        shown_ms = sum((row["end_ms"] - row["begin_ms"]) * row["busy_share"] for row in shown)
        assert shown_ms == pytest.approx(len(busy_us & set(range(WALL_US))) / 1e3, abs=1e-3)


def test_a_device_that_recorded_nothing_in_the_step_is_not_shown_as_idle() -> None:
    trace = trace_of(step(1, 0, WALL_US), operation("aten::mm", 0, 100), launch(1, 10))
    calls = attribute_host(trace)

    quality = quality_rows(trace, calls, attribute_device(trace, calls))

    assert not trusted("timeline", "begin_ms", quality, step=1, on="cuda")
    assert trusted("timeline", "begin_ms", quality, step=1, on="cpu")


def stretches(rows: list[dict[str, Any]], lane: str) -> list[tuple[float, float, str]]:
    return [
        (row["begin_ms"], row["end_ms"], row["category"]) for row in rows if row["lane"] == lane
    ]


def test_a_stream_whose_name_an_old_profiler_wrote_out_is_not_named_twice() -> None:
    rows = one_step(launch(1, 0, 10), kernel("gemm", 100, 50, correlation=1, on=(0, "stream 7")))

    assert [row["lane"] for row in rows if row["device"] == "cuda"] == ["stream 7"]


def test_of_many_streams_three_are_alone_and_the_others_together() -> None:
    rows = one_step(
        launch(1, 0),
        *(
            kernel("gemm", 100 * stream, 100 * stream, correlation=1, on=(0, stream))
            for stream in range(1, 6)
        ),
    )

    lanes = list(dict.fromkeys(row["lane"] for row in rows if row["device"] == "cuda"))

    assert lanes == ["stream 5", "stream 4", "stream 3", OTHER_STREAMS]
    assert stretches(rows, OTHER_STREAMS) == [(0.1, 0.4, "matrix product")]


def test_streams_of_one_number_on_two_devices_are_distinguished() -> None:
    rows = one_step(
        launch(1, 0), *(kernel("gemm", 0, 500, correlation=1, on=(device, 7)) for device in (0, 1))
    )

    assert {row["lane"] for row in rows if row["device"] == "cuda"} == {
        "stream 7 of device 0",
        "stream 7 of device 1",
    }
