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
from gpu_report.traces.quality import QUALITY, quality_rows
from gpu_report.traces.tables import tabulate_trace
from gpu_report.traces.timeline import (
    MOST_BINS,
    MOST_THREADS,
    OTHER_STREAMS,
    TIMELINE,
    median_step,
    timeline_rows,
)
from gpu_report.traces.trace import Step
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    GPU_FIXTURES,
    MAIN,
    RawEvent,
    kernel,
    launch,
    made_by,
    mark,
    operation,
    recorded,
    span,
    step,
    trace_of,
    trusted,
    without_marks,
)

WALL_US = 3000
"""Of a step by hand: ten microseconds a bin."""

PLACE_AND_TIME = (st.integers(0, 3), st.integers(0, WALL_US + 500), st.integers(0, 900))
TIMES = st.tuples(st.sampled_from(["operation", "launch", "kernel"]), *PLACE_AND_TIME)
KERNELS = st.tuples(st.just("kernel"), *PLACE_AND_TIME)


def stretches(rows: list[dict[str, Any]], lane: str) -> list[tuple[float, float, str]]:
    return [
        (row["begin_ms"], row["end_ms"], row["category"]) for row in rows if row["lane"] == lane
    ]


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


def test_every_row_names_the_step_and_its_wall_time() -> None:
    rows = made_by(
        timeline_rows,
        trace_of(
            *(
                step(number, start, wall)
                for number, start, wall in ((4, 0, 900), (5, 1000, 2000), (6, 3000, 4000))
            ),
            *(operation("aten::add", start, 100) for start in (0, 1000, 3000)),
        ),
    )

    assert {(row["step"], row["wall_ms"]) for row in rows} == {(5, 2.0)}
    assert stretches(rows, "host 1") == [(0.0, 0.1, "elementwise")]


def test_a_recording_without_steps_is_shown_as_a_whole() -> None:
    rows = made_by(
        timeline_rows, trace_of(operation("aten::add", 0, 1000), operation("aten::mm", 2000, 1000))
    )

    assert {(row["step"], row["wall_ms"]) for row in rows} == {(0, 3.0)}
    assert stretches(rows, "host 1") == [(0.0, 1.0, "elementwise"), (2.0, 3.0, "matrix product")]


def test_a_thread_shows_the_innermost_call_and_driver_calls_as_runtime() -> None:
    rows = one_step(
        operation("aten::conv2d", 0, 2000),
        operation("aten::mm", 500, 1000),
        launch(1, 1000, 300),
        span(
            "user_annotation",
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            2500,
            500,
            on=MAIN,
        ),
    )

    assert stretches(rows, "host 1") == [
        (0.0, 0.5, "convolution"),
        (0.5, 1.0, "matrix product"),
        (1.0, 1.3, "runtime"),
        (1.3, 1.5, "matrix product"),
        (1.5, 2.0, "convolution"),
        (2.5, 3.0, "data loading"),
    ]


def test_threads_come_by_the_time_they_were_busy_and_only_the_first_of_them() -> None:
    busy_us = {"a": 300, "b": 900, "c": 600, "d": 100}
    rows = one_step(
        *(operation("aten::add", 0, busy, on=(100, thread)) for thread, busy in busy_us.items()),
    )

    lanes = dict.fromkeys(row["lane"] for row in rows if row["lane"] != "phases")

    assert len(lanes) == MOST_THREADS
    assert [stretches(rows, lane)[0][1] for lane in lanes] == [0.9, 0.6, 0.3]


def test_a_stream_shows_its_work_where_it_ran_under_the_category_of_its_operation() -> None:
    rows = one_step(
        operation("aten::conv2d", 0, 100, external_id=1),
        launch(1, 10),
        kernel("some_kernel", 1500, 600, correlation=1, external_id=1),
    )

    (row,) = (row for row in rows if row["lane"] == "stream 7")
    assert (row["device"], row["category"]) == ("cuda", "convolution")
    assert (row["begin_ms"], row["end_ms"], row["busy_share"]) == (1.5, 2.1, 1.0)


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


def test_a_bin_is_of_the_category_that_took_most_and_shows_how_busy_it_was() -> None:
    rows = one_step(operation("aten::add", 0, 3), operation("aten::mm", 4, 4))

    (row,) = (row for row in rows if row["lane"] == "host 1")
    assert (row["begin_ms"], row["end_ms"]) == (0.0, 0.01)
    assert (row["category"], row["busy_share"]) == ("matrix product", 0.7)


def test_bins_that_differ_much_in_how_busy_they_were_are_stretches_apart() -> None:
    rows = one_step(
        operation("aten::add", 0, 1), operation("aten::add", 12, 2), operation("aten::add", 20, 9)
    )

    shares = [
        (row["begin_ms"], row["end_ms"], row["busy_share"])
        for row in rows
        if row["lane"] == "host 1"
    ]

    assert shares == [(0.0, 0.02, 0.15), (0.02, 0.03, 0.9)]


def test_marks_of_the_loop_are_its_phases_also_where_no_call_ran() -> None:
    rows = one_step(
        mark("data", 0, 300),
        mark("forward", 300, 1200),
        operation("aten::conv2d", 400, 100),
        operation("aten::item", 2000, 500),
    )

    assert stretches(rows, "phases") == [
        (0.0, 0.3, "data"),
        (0.3, 1.5, "forward"),
        (2.0, 2.5, "other"),
    ]


def test_without_marks_a_phase_goes_on_from_one_of_its_calls_to_the_next() -> None:
    rows = one_step(
        operation("aten::conv2d", 0, 100),
        operation("aten::relu", 500, 100),
        operation("autograd::engine::evaluate_function: ReluBackward0", 1000, 100, on=AUTOGRAD),
        operation(
            "autograd::engine::evaluate_function: ConvolutionBackward0", 1500, 100, on=AUTOGRAD
        ),
        mark("Optimizer.step#SGD.step", 2000, 500),
        operation("aten::add_", 2100, 100),
    )

    assert stretches(rows, "phases") == [
        (0.0, 0.6, "forward"),
        (1.0, 1.6, "backward"),
        (2.1, 2.2, "optimizer"),
    ]


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


@pytest.mark.parametrize("fixture", GPU_FIXTURES)
def test_a_step_of_a_gpu_has_phases_threads_and_streams(fixture: str) -> None:
    rows = made_by(timeline_rows, recorded(fixture))

    TIMELINE.from_rows(rows)
    lanes = [lane for lane, _ in groupby(rows, key=itemgetter("lane"))]
    assert lanes[:2] == ["phases", "host 1"]
    assert any(lane.startswith("stream ") for lane in lanes)
    assert len(lanes) == len(set(lanes))
    assert max(sum(row["lane"] == lane for row in rows) for lane in lanes) <= MOST_BINS


def test_phases_without_marks_lie_where_the_marks_do() -> None:
    marked = recorded("unet_cuda")
    middles = {}

    for trace in (marked, without_marks(marked)):
        found = stretches(made_by(timeline_rows, trace), "phases")
        longest = {
            phase: max((row for row in found if row[2] == phase), key=lambda row: row[1] - row[0])
            for phase in ("forward", "backward", "optimizer")
        }
        middles[trace is marked] = [(begin + end) / 2 for begin, end, _ in longest.values()]

    assert middles[False] == pytest.approx(middles[True], abs=1.0)


def test_kernels_of_a_graph_are_shown_and_their_categories_are_not_trusted() -> None:
    rows = tabulate_trace(recorded("unet_graph_cuda"))

    assert trusted("timeline", "begin_ms", rows[QUALITY], on="cuda")
    assert not trusted("timeline", "category", rows[QUALITY], on="cuda")
    assert trusted("timeline", "category", rows[QUALITY], on="cpu")


def test_a_device_that_recorded_nothing_in_the_step_is_not_shown_as_idle() -> None:
    trace = trace_of(step(1, 0, WALL_US), operation("aten::mm", 0, 100), launch(1, 10))
    calls = attribute_host(trace)

    quality = quality_rows(trace, calls, attribute_device(trace, calls))

    assert not trusted("timeline", "begin_ms", quality, step=1, on="cuda")
    assert trusted("timeline", "begin_ms", quality, step=1, on="cpu")
