"""Gaps in the accelerator's work: where they are, and what kept the next work from starting."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.attribution import attribute_host
from gpu_report.traces.idle import CAUSES, gaps_in_steps, loop_thread
from gpu_report.traces.trace import NONE
from tests.unit.traces.by_hand import AUTOGRAD, MAIN, RawEvent, kernel, launch, mark, operation, span, step, trace_of

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
PIN_MEMORY = (100, "pin memory")
WORK = st.tuples(st.integers(0, 60), st.integers(0, 20), st.sampled_from([7, 8, 9]))


def waiting(name: str, start_us: float, duration_us: float, *, on: tuple[int, int | str] = MAIN) -> RawEvent:
    return span("cuda_runtime", name, start_us, duration_us, on=on)


def causes(folder: Path, *events: RawEvent) -> list[tuple[str, float, float]]:
    """Cause, begin and end in microseconds of each gap, in order."""
    trace = trace_of(folder, *events)
    _, gaps = gaps_in_steps(trace, attribute_host(trace))
    names = [CAUSES[cause] for cause in gaps.cause.tolist()]
    return list(zip(names, (gaps.start_ns / 1e3).tolist(), (gaps.end_ns / 1e3).tolist(), strict=True))


def causes_between(folder: Path, *events: RawEvent) -> list[str]:
    """Causes of the gaps in a step from 0 to 1000 us whose work begins with it and ends with it."""
    work = [launch(1, 0), kernel("first", 0, 100, correlation=1), kernel("last", 500, 500, correlation=2)]
    return [cause for cause, _, _ in causes(folder, step(1, 0, 1000), *work, *events)]


@given(st.lists(WORK, max_size=10))
def test_busy_and_idle_moments_are_all_moments_of_a_step(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int, int]]
) -> None:
    windows = [range(5, 30), range(33, 60)]
    work = [kernel("gemm", start, duration, on=(0, stream)) for start, duration, stream in pieces]
    busy = {moment for start, duration, _ in pieces for moment in range(start, start + duration)}

    found = causes(
        tmp_path_factory.mktemp("trace"),
        *(step(number, window.start, len(window)) for number, window in enumerate(windows)),
        *work,
        operation("aten::begin", 0, 1),
    )

    idle = [moment for _, start, end in found for moment in range(round(start), round(end))]
    assert sorted(idle) == [m for window in windows if busy & set(window) for m in window if m not in busy]


def test_gaps_lie_before_the_first_work_between_and_after_the_last(tmp_path: Path) -> None:
    found = causes(
        tmp_path,
        step(1, 0, 1000),
        launch(1, 100),
        kernel("first", 200, 100, correlation=1),
        launch(2, 250),
        kernel("second", 400, 100, correlation=2),
    )

    assert found == [("host", 0, 200), ("launch", 300, 400), ("host", 500, 1000)]


def test_work_on_another_stream_fills_a_gap(tmp_path: Path) -> None:
    assert causes_between(tmp_path, launch(2, 400), kernel("beside", 50, 460, on=(0, 9))) == []


def test_a_launch_that_began_before_the_gap_did_not_cause_it(tmp_path: Path) -> None:
    assert causes_between(tmp_path, launch(2, 99)) == ["launch"]


def test_a_wait_after_the_launch_was_queued_is_not_its_cause(tmp_path: Path) -> None:
    assert causes_between(tmp_path, launch(2, -399), waiting("cudaStreamSynchronize", -395, 500)) == ["launch"]


def test_a_launch_within_the_gap_came_late(tmp_path: Path) -> None:
    assert causes_between(tmp_path, launch(2, 101)) == ["host"]


def test_work_whose_launch_is_not_recorded_tells_no_cause(tmp_path: Path) -> None:
    assert causes_between(tmp_path) == ["unknown"]


@pytest.mark.parametrize(("duration_us", "cause"), [(200, "loader"), (199, "host")])
def test_a_wait_for_the_loader_of_half_the_gap_is_its_cause(tmp_path: Path, duration_us: float, cause: str) -> None:
    assert causes_between(tmp_path, mark(LOADER, 150, duration_us), launch(2, 490)) == [cause]


@pytest.mark.parametrize(
    "name",
    ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "hipMemcpyWithStream"],
)
def test_the_time_for_which_the_host_had_waited_for_the_device_counts_as_it_delayed_the_launch(
    tmp_path: Path, name: str
) -> None:
    assert causes_between(tmp_path, waiting(name, 0, 110), launch(2, 490), launch(3, 150)) == ["host"]
    assert causes_between(tmp_path, waiting(name, -95, 200), launch(2, 490)) == ["synchronisation"]


@pytest.mark.parametrize("name", ["cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventRecord", "cudaMalloc"])
def test_a_call_that_does_not_wait_for_the_device_is_no_synchronisation(tmp_path: Path, name: str) -> None:
    assert causes_between(tmp_path, waiting(name, 50, 400), launch(2, 490)) == ["host"]


def test_a_copy_to_pageable_memory_waits_for_the_device_whatever_its_calls_name(tmp_path: Path) -> None:
    copying = span("cuda_runtime", "cudaMemcpyAsync", 10, 300, on=MAIN, correlation=3)
    copy = span("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 90, 10, on=(0, 7), correlation=3)

    assert causes_between(tmp_path, copying, copy, launch(2, 490)) == ["synchronisation"]


def test_a_wait_on_another_thread_does_not_hold_the_loop_up(tmp_path: Path) -> None:
    found = causes_between(
        tmp_path,
        operation("aten::add", 10, 20),
        waiting("cudaStreamSynchronize", 50, 400, on=PIN_MEMORY),
        launch(2, 490),
    )

    assert found == ["host"]


def test_a_wait_after_the_late_launch_is_not_its_cause(tmp_path: Path) -> None:
    assert causes_between(tmp_path, launch(2, 150), waiting("cudaStreamSynchronize", 160, 800)) == ["host"]


def test_the_loader_goes_before_the_device_where_both_held_the_host_up(tmp_path: Path) -> None:
    found = causes_between(
        tmp_path, waiting("cudaStreamSynchronize", -100, 210), mark(LOADER, 110, 380), launch(2, 490)
    )

    assert found == ["loader"]


def test_a_gap_over_a_steps_end_has_one_cause_in_both_steps(tmp_path: Path) -> None:
    found = causes(
        tmp_path,
        step(1, 0, 400),
        step(2, 410, 390),
        launch(1, 0),
        kernel("first", 10, 290, correlation=1),
        waiting("cudaDeviceSynchronize", 20, 290),
        launch(2, 490),
        kernel("second", 500, 300, correlation=2),
    )

    assert found == [("host", 0, 10), ("synchronisation", 300, 400), ("synchronisation", 410, 500)]


def test_time_between_profiled_steps_does_not_make_a_gap_longer(tmp_path: Path) -> None:
    found = causes(
        tmp_path,
        step(1, 0, 400),
        step(2, 90_000, 800),
        launch(1, 0),
        kernel("first", 0, 400, correlation=1),
        mark(LOADER, 90_000, 300),
        launch(2, 90_490),
        kernel("second", 90_500, 300, correlation=2),
    )

    assert found == [("loader", 90_000, 90_500)]


def test_of_work_that_starts_together_the_earliest_launched_tells_the_cause(tmp_path: Path) -> None:
    beside = [launch(3, 95), kernel("beside", 500, 10, on=(0, 9), correlation=3)]

    assert causes_between(tmp_path, launch(2, 490), *beside) == ["launch"]


def test_a_kernel_of_a_graph_was_launched_with_the_graph(tmp_path: Path) -> None:
    graph = span("cuda_runtime", "cudaGraphLaunch", 0, 90, on=MAIN, correlation=1)

    found = causes(
        tmp_path,
        step(1, 0, 500),
        graph,
        kernel("first", 0, 200, correlation=1),
        kernel("second", 210, 290, correlation=1),
    )

    assert found == [("launch", 200, 210)]


def test_a_step_without_device_work_has_no_gap(tmp_path: Path) -> None:
    found = causes(tmp_path, step(1, 0, 400), step(2, 400, 400), kernel("only", 100, 100))

    assert {(start, end) for _, start, end in found} == {(0, 100), (200, 400)}


def test_the_delay_is_from_the_end_of_the_launching_call_to_the_start_of_the_work(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 1000),
        launch(1, 100, 30),
        kernel("late", 200, 100, correlation=1),
        kernel("unknown", 400, 100),
        launch(2, 590, 30),
        kernel("at once", 600, 400, correlation=2),
    )

    _, gaps = gaps_in_steps(trace, attribute_host(trace))

    assert gaps.delay_ns.tolist() == [70_000, NONE, 0]


def test_the_loops_thread_ran_the_steps(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, operation("aten::mm", 0, 900, on=AUTOGRAD), step(1, 0, 1000))

    assert trace.threads[loop_thread(trace, attribute_host(trace))] == "100/100"


def test_without_steps_the_loops_thread_has_the_most_time_in_marks_and_else_in_calls(tmp_path: Path) -> None:
    events = [operation("aten::mm", 0, 900, on=AUTOGRAD), operation("aten::add", 0, 10)]
    with_marks, without_marks = trace_of(tmp_path, *events, mark("forward", 0, 10)), trace_of(tmp_path, *events)

    threads = [trace.threads[loop_thread(trace, attribute_host(trace))] for trace in (with_marks, without_marks)]

    assert threads == ["100/100", "100/autograd"]
