"""Gaps in the accelerator's work and their causes, the table of idleness, and how far the host ran
ahead.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.attribution import attribute_device, attribute_host
from gpu_report.traces.idle import CAUSES, gaps_in_steps, idle_rows, launch_rows, loop_thread
from gpu_report.traces.steps import step_rows
from gpu_report.traces.trace import NONE
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    LOADER,
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
)

PIN_MEMORY = (100, "pin memory")
WORK = st.tuples(st.integers(0, 60), st.integers(0, 20), st.sampled_from([7, 8, 9]))


def waiting(
    name: str, start_us: float, duration_us: float, *, on: tuple[int, int | str] = MAIN
) -> RawEvent:
    return span("cuda_runtime", name, start_us, duration_us, on=on)


def causes(*events: RawEvent) -> list[tuple[str, float, float]]:
    """Cause, begin and end in microseconds of each gap, in order."""
    trace = trace_of(*events)
    _, gaps = gaps_in_steps(trace, attribute_host(trace))
    names = [CAUSES[cause] for cause in gaps.cause.tolist()]
    return list(
        zip(names, (gaps.start_ns / 1e3).tolist(), (gaps.end_ns / 1e3).tolist(), strict=True)
    )


def causes_between(*events: RawEvent) -> list[str]:
    """Causes of the gaps in a step from 0 to 1000 us whose work begins with it and ends with it."""
    work = [
        launch(1, 0),
        kernel("first", 0, 100, correlation=1),
        kernel("last", 500, 500, correlation=2),
    ]
    return [cause for cause, _, _ in causes(step(1, 0, 1000), *work, *events)]


@given(st.lists(WORK, max_size=10))
def test_busy_and_idle_moments_are_all_moments_of_a_step(
    pieces: list[tuple[int, int, int]],
) -> None:
    windows = [range(5, 30), range(33, 60)]
    work = [kernel("gemm", start, duration, on=(0, stream)) for start, duration, stream in pieces]
    busy = {moment for start, duration, _ in pieces for moment in range(start, start + duration)}

    found = causes(
        *(step(number, window.start, len(window)) for number, window in enumerate(windows)),
        *work,
        operation("aten::begin", 0, 1),
    )

    idle = [moment for _, start, end in found for moment in range(round(start), round(end))]
    assert sorted(idle) == [
        m for window in windows if busy & set(window) for m in window if m not in busy
    ]


def test_gaps_lie_before_the_first_work_between_and_after_the_last() -> None:
    found = causes(
        step(1, 0, 1000),
        launch(1, 100),
        kernel("first", 200, 100, correlation=1),
        launch(2, 250),
        kernel("second", 400, 100, correlation=2),
    )

    assert found == [("host", 0, 200), ("launch", 300, 400), ("host", 500, 1000)]


CAUSE_BETWEEN: dict[str, tuple[list[RawEvent], list[str]]] = {
    "work on another stream fills a gap": (
        [launch(2, 400), kernel("beside", 50, 460, on=(0, 9))],
        [],
    ),
    "a launch that began before the gap did not cause it": ([launch(2, 99)], ["launch"]),
    "a launch within the gap came late": ([launch(2, 101)], ["host"]),
    "work whose launch is not recorded shows no cause": ([], ["unknown"]),
    "a wait after the launch was queued is not its cause": (
        [launch(2, -399), waiting("cudaStreamSynchronize", -395, 500)],
        ["launch"],
    ),
    "a wait after the late launch is not its cause": (
        [launch(2, 150), waiting("cudaStreamSynchronize", 160, 800)],
        ["host"],
    ),
    "a wait for the loader of half the gap is its cause": (
        [mark(LOADER, 150, 200), launch(2, 490)],
        ["loader"],
    ),
    "a shorter wait for the loader is not": ([mark(LOADER, 150, 199), launch(2, 490)], ["host"]),
    "a wait on another thread does not hold the loop up": (
        [
            operation("aten::add", 10, 20),
            waiting("cudaStreamSynchronize", 50, 400, on=PIN_MEMORY),
            launch(2, 490),
        ],
        ["host"],
    ),
    "the loader goes before the device where both held the host up": (
        [waiting("cudaStreamSynchronize", -100, 210), mark(LOADER, 110, 380), launch(2, 490)],
        ["loader"],
    ),
    "a copy to pageable memory waits for the device whatever its call's name": (
        [
            span("cuda_runtime", "cudaMemcpyAsync", 10, 300, on=MAIN, correlation=3),
            span(
                "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 90, 10, on=(0, 7), correlation=3
            ),
            launch(2, 490),
        ],
        ["synchronisation"],
    ),
    "of work that starts together the earliest launched shows the cause": (
        [launch(2, 490), launch(3, 95), kernel("beside", 500, 10, on=(0, 9), correlation=3)],
        ["launch"],
    ),
    **{
        f"{name} does not wait for the device": ([waiting(name, 50, 400), launch(2, 490)], ["host"])
        for name in ("cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventRecord", "cudaMalloc")
    },
}


@pytest.mark.parametrize("case", CAUSE_BETWEEN)
def test_the_cause_of_a_gap_is_what_held_its_launch_up(case: str) -> None:
    events, expected = CAUSE_BETWEEN[case]

    assert causes_between(*events) == expected


@pytest.mark.parametrize(
    "name",
    [
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "cudaMemcpy",
        "hipMemcpyWithStream",
    ],
)
def test_the_time_for_which_the_host_had_waited_for_the_device_counts_as_it_delayed_the_launch(
    name: str,
) -> None:
    assert causes_between(waiting(name, 0, 110), launch(2, 490), launch(3, 150)) == ["host"]
    assert causes_between(waiting(name, -95, 200), launch(2, 490)) == ["synchronisation"]


def test_a_gap_over_a_steps_end_has_one_cause_in_both_steps() -> None:
    found = causes(
        step(1, 0, 400),
        step(2, 410, 390),
        launch(1, 0),
        kernel("first", 10, 290, correlation=1),
        waiting("cudaDeviceSynchronize", 20, 290),
        launch(2, 490),
        kernel("second", 500, 300, correlation=2),
    )

    assert found == [("host", 0, 10), ("synchronisation", 300, 400), ("synchronisation", 410, 500)]


def test_time_between_profiled_steps_does_not_make_a_gap_longer() -> None:
    found = causes(
        step(1, 0, 400),
        step(2, 90_000, 800),
        launch(1, 0),
        kernel("first", 0, 400, correlation=1),
        mark(LOADER, 90_000, 300),
        launch(2, 90_490),
        kernel("second", 90_500, 300, correlation=2),
    )

    assert found == [("loader", 90_000, 90_500)]


def test_a_kernel_of_a_graph_was_launched_with_the_graph() -> None:
    graph = span("cuda_runtime", "cudaGraphLaunch", 0, 90, on=MAIN, correlation=1)

    found = causes(
        step(1, 0, 500),
        graph,
        kernel("first", 0, 200, correlation=1),
        kernel("second", 210, 290, correlation=1),
    )

    assert found == [("launch", 200, 210)]


def test_a_step_without_device_work_has_no_gap() -> None:
    found = causes(step(1, 0, 400), step(2, 400, 400), kernel("only", 100, 100))

    assert {(start, end) for _, start, end in found} == {(0, 100), (200, 400)}


def test_the_delay_is_from_the_end_of_the_launching_call_to_the_start_of_the_work() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        launch(1, 100, 30),
        kernel("late", 200, 100, correlation=1),
        kernel("unknown", 400, 100),
        launch(2, 590, 30),
        kernel("at once", 600, 400, correlation=2),
    )

    _, gaps = gaps_in_steps(trace, attribute_host(trace))

    assert gaps.delay_ns.tolist() == [70_000, NONE, 0]


def test_the_loops_thread_ran_the_steps() -> None:
    trace = trace_of(operation("aten::mm", 0, 900, on=AUTOGRAD), step(1, 0, 1000))

    assert trace.threads[loop_thread(trace, attribute_host(trace))] == "100/100"


def test_without_steps_the_loops_thread_has_the_most_time_in_marks_and_else_in_calls() -> None:
    events = [operation("aten::mm", 0, 900, on=AUTOGRAD), operation("aten::add", 0, 10)]
    with_marks, without_marks = trace_of(*events, mark("forward", 0, 10)), trace_of(*events)

    threads = [
        trace.threads[loop_thread(trace, attribute_host(trace))]
        for trace in (with_marks, without_marks)
    ]

    assert threads == ["100/100", "100/autograd"]


def operations_between(*events: RawEvent) -> list[tuple[str, str]]:
    """Cause and operation of the gap from 100 to 500 us."""
    work = [
        launch(1, 0),
        kernel("first", 0, 100, correlation=1),
        kernel("last", 500, 500, correlation=2),
    ]
    rows = made_by(idle_rows, trace_of(step(1, 0, 1000), *work, *events))
    return [(row["cause"], row["operation"]) for row in rows]


def test_gaps_are_summed_by_cause_and_operation_the_longest_first() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        launch(1, 0),
        kernel("a", 0, 100, correlation=1),
        operation("aten::mm", 110, 200),
        launch(2, 290),
        launch(3, 305),
        kernel("b", 300, 100, correlation=2),
        kernel("c", 410, 90, correlation=3),
        operation("aten::mm", 520, 70),
        launch(4, 580),
        kernel("d", 600, 400, correlation=4),
    )

    assert made_by(idle_rows, trace) == [
        {
            "cause": "host",
            "operation": "aten::mm",
            "gaps": 2,
            "total_ms": 0.3,
            "longest_us": 200.0,
            "share": 0.3,
        },
        {
            "cause": "launch",
            "operation": "",
            "gaps": 1,
            "total_ms": 0.01,
            "longest_us": 10.0,
            "share": 0.01,
        },
    ]


def test_the_longest_in_all_is_first_whatever_its_cause() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        launch(1, 90),
        launch(2, 95),
        kernel("a", 100, 100, correlation=1),
        kernel("b", 400, 600, correlation=2),
    )

    assert [(row["cause"], row["total_ms"]) for row in made_by(idle_rows, trace)] == [
        ("launch", 0.2),
        ("host", 0.1),
    ]


def test_the_operation_is_the_innermost_in_the_middle_of_the_gap() -> None:
    found = operations_between(
        operation("aten::conv2d", 110, 380),
        operation("aten::empty", 120, 180),
        operation("aten::convolution", 300, 190),
        launch(2, 480),
    )

    assert found == [("host", "aten::convolution")]


def test_the_operation_is_looked_for_on_the_launching_thread_first() -> None:
    loop, backward = operation("loop", 0, 490), operation("MmBackward0", 200, 290, on=AUTOGRAD)

    found = operations_between(loop, backward, launch(2, 480, on=AUTOGRAD))

    assert found == [("host", "MmBackward0")]


def test_where_the_launching_thread_did_nothing_yet_the_loops_operation_stands() -> None:
    loop, backward = operation("loop", 0, 490), operation("MmBackward0", 400, 90, on=AUTOGRAD)

    found = operations_between(loop, backward, launch(2, 480, on=AUTOGRAD))

    assert found == [("host", "loop")]


def test_a_driver_call_stands_for_itself_only_outside_of_operations() -> None:
    graph = span("cuda_runtime", "cudaGraphLaunch", 110, 380, on=MAIN, correlation=2)

    assert operations_between(graph) == [("host", "cudaGraphLaunch")]
    assert operations_between(graph, operation("replay", 105, 390)) == [("host", "replay")]


def test_for_a_synchronisation_the_operation_that_waited_stands() -> None:
    found = operations_between(
        operation("aten::item", -400, 505),
        operation("aten::_local_scalar_dense", -395, 499),
        span("cuda_runtime", "cudaStreamSynchronize", -390, 493, on=MAIN),
        operation("aten::add", 110, 380),
        launch(2, 480),
    )

    assert found[0] == ("synchronisation", "aten::_local_scalar_dense")


def test_steps_without_device_work_take_no_part_in_the_share() -> None:
    trace = trace_of(step(1, 0, 1000), step(2, 1000, 1000), launch(1, 240), kernel("a", 250, 750))

    (row,) = made_by(idle_rows, trace)

    assert (row["total_ms"], row["share"]) == (0.25, 0.25)


def test_without_an_accelerator_there_is_no_idleness() -> None:
    assert made_by(idle_rows, trace_of(step(1, 0, 1000), operation("aten::add", 0, 10))) == []


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_idle_and_busy_time_of_a_real_trace_make_the_wall_time(fixture: str) -> None:
    trace = recorded(fixture)
    calls = attribute_host(trace)
    steps = step_rows(trace, calls, attribute_device(trace, calls))

    idle_ms = sum(row["total_ms"] for row in made_by(idle_rows, trace))

    assert idle_ms + sum(row["device_busy_ms"] for row in steps) == pytest.approx(
        sum(row["wall_ms"] for row in steps)
    )


LAUNCHED = st.tuples(
    st.integers(0, 30), st.integers(0, 30), st.integers(1, 15), st.sampled_from([7, 8])
)


def rows_of(*events: RawEvent) -> list[dict[str, Any]]:
    trace = trace_of(*events)
    return made_by(launch_rows, trace)


def launched(number: int, launch_us: float, start_us: float, duration_us: float) -> list[RawEvent]:
    """A launch whose call lasts 1 us, and its kernel."""
    return [launch(number, launch_us), kernel("gemm", start_us, duration_us, correlation=number)]


def test_a_step_shows_its_launches_and_how_long_their_work_waited() -> None:
    (row,) = rows_of(
        step(1, 0, 100),
        *launched(1, 0, 3, 9.999),
        *launched(2, 10, 21, 10),
        *launched(3, 20, 91, 100),
    )

    assert row == {
        "step": 1,
        "launches": 3,
        "short_share": pytest.approx(1 / 3),
        "median_delay_us": 10.0,
        "mean_queue": pytest.approx((2 + 10 + 70) / 100),
        "longest_queue": 1,
        "launch_bound_share": pytest.approx(0.03),
    }


def test_work_belongs_to_the_step_that_launched_it_and_waits_in_both() -> None:
    first, second = rows_of(
        step(1, 0, 100),
        step(2, 100, 100),
        *launched(1, 0, 10, 80),
        *launched(2, 59, 140, 50),
        *launched(3, 79, 190, 10),
    )

    assert (first["launches"], second["launches"]) == (3, 0)
    assert (second["short_share"], second["median_delay_us"]) == (None, None)
    assert (first["mean_queue"], second["mean_queue"]) == (
        pytest.approx((9 + 40 + 20) / 100),
        pytest.approx(1.3),
    )
    assert (first["longest_queue"], second["longest_queue"]) == (2, 2)


def test_work_that_starts_before_its_call_ends_does_not_wait() -> None:
    (row,) = rows_of(step(1, 0, 100), launch(1, 0, 50), kernel("gemm", 10, 90, correlation=1))

    assert (row["median_delay_us"], row["mean_queue"], row["longest_queue"]) == (0.0, 0.0, 0)


def test_work_whose_launch_is_not_recorded_counts_nowhere() -> None:
    (row,) = rows_of(step(1, 0, 100), operation("aten::add", 0, 1), kernel("gemm", 5, 95))

    assert row == {
        "step": 1,
        "launches": 0,
        "short_share": None,
        "median_delay_us": None,
        "mean_queue": 0.0,
        "longest_queue": 0,
        "launch_bound_share": 0.0,
    }


def test_every_kernel_of_a_graph_is_launched_by_the_graphs_launch() -> None:
    graph = span("cuda_runtime", "cudaGraphLaunch", 0, 10, on=MAIN, correlation=1)
    kernels = [kernel("gemm", start_us, 29, correlation=1) for start_us in (10, 40, 70)]

    (row,) = rows_of(step(1, 0, 100), graph, *kernels)

    assert (row["launches"], row["longest_queue"], row["median_delay_us"]) == (3, 2, 30.0)


def test_an_accelerator_that_starts_each_small_kernel_as_it_is_launched_is_launch_bound() -> None:
    work = [event for n in range(10) for event in launched(n + 1, 100 * n, 100 * n + 5, 20)]

    (row,) = rows_of(step(1, 0, 1000), *work)

    assert row["launch_bound_share"] == pytest.approx((5 + 9 * 80) / 1000)


def test_one_long_stall_of_the_host_is_not_launch_bound() -> None:
    (row,) = rows_of(step(1, 0, 1000), *launched(1, 0, 1, 99), *launched(2, 890, 900, 100))

    assert row["launch_bound_share"] == pytest.approx(0.001)


def test_gaps_between_queued_kernels_are_not_launch_bound() -> None:
    work = [event for n in range(10) for event in launched(n + 1, 2 * n, 100 * n + 50, 95)]

    (row,) = rows_of(step(1, 0, 995), *work)

    assert row["launch_bound_share"] == 0.0


def test_waiting_for_the_loader_is_not_launch_bound() -> None:
    loader = mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 101, 90)

    (row,) = rows_of(step(1, 0, 300), *launched(1, 0, 0, 100), loader, *launched(2, 195, 200, 100))

    assert row["launch_bound_share"] == 0.0


def test_steps_without_device_work_have_no_row() -> None:
    rows = rows_of(step(1, 0, 100), step(2, 100, 100), *launched(1, 10, 20, 10))

    assert [row["step"] for row in rows] == [1]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=10))
def test_the_queue_holds_what_was_launched_and_has_not_started(
    pieces: list[tuple[int, int]],
) -> None:
    work = [
        event
        for number, (called, waits) in enumerate(pieces, start=1)
        for event in launched(number, called, called + 1 + waits, 5)
    ]

    rows = rows_of(step(1, 0, 20), step(2, 20, 90), *work)

    for row in rows:
        window = range(20) if row["step"] == 1 else range(20, 110)
        length = [
            sum(called + 1 <= moment < called + 1 + waits for called, waits in pieces)
            for moment in window
        ]
        assert row["longest_queue"] == max(length)
        assert row["mean_queue"] == pytest.approx(sum(length) / len(window))
