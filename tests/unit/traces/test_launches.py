"""How far the host ran ahead: delays, the queue of launched work, and whether the accelerator waited for launches."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.attribution import attribute_device, attribute_host
from gpu_report.traces.idle import launch_rows
from tests.unit.traces.by_hand import MAIN, RawEvent, kernel, launch, mark, operation, span, step, trace_of


def rows_of(folder: Path, *events: RawEvent) -> list[dict[str, Any]]:
    trace = trace_of(folder, *events)
    calls = attribute_host(trace)
    return launch_rows(trace, calls, attribute_device(trace, calls))


def launched(number: int, launch_us: float, start_us: float, duration_us: float) -> list[RawEvent]:
    """A launch whose call lasts 1 us, and its kernel."""
    return [launch(number, launch_us), kernel("gemm", start_us, duration_us, correlation=number)]


def test_a_step_tells_its_launches_and_how_long_their_work_waited(tmp_path: Path) -> None:
    (row,) = rows_of(
        tmp_path, step(1, 0, 100), *launched(1, 0, 3, 9.999), *launched(2, 10, 21, 10), *launched(3, 20, 91, 100)
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


def test_work_belongs_to_the_step_that_launched_it_and_waits_in_both(tmp_path: Path) -> None:
    first, second = rows_of(
        tmp_path,
        step(1, 0, 100),
        step(2, 100, 100),
        *launched(1, 0, 10, 80),
        *launched(2, 59, 140, 50),
        *launched(3, 79, 190, 10),
    )

    assert (first["launches"], second["launches"]) == (3, 0)
    assert (second["short_share"], second["median_delay_us"]) == (None, None)
    assert (first["mean_queue"], second["mean_queue"]) == (pytest.approx((9 + 40 + 20) / 100), pytest.approx(1.3))
    assert (first["longest_queue"], second["longest_queue"]) == (2, 2)


def test_work_that_starts_before_its_call_ends_does_not_wait(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, step(1, 0, 100), launch(1, 0, 50), kernel("gemm", 10, 90, correlation=1))

    assert (row["median_delay_us"], row["mean_queue"], row["longest_queue"]) == (0.0, 0.0, 0)


def test_work_whose_launch_is_not_recorded_counts_nowhere(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, step(1, 0, 100), operation("aten::add", 0, 1), kernel("gemm", 5, 95))

    assert row == {
        "step": 1,
        "launches": 0,
        "short_share": None,
        "median_delay_us": None,
        "mean_queue": 0.0,
        "longest_queue": 0,
        "launch_bound_share": 0.0,
    }


def test_every_kernel_of_a_graph_is_launched_by_the_graphs_launch(tmp_path: Path) -> None:
    graph = span("cuda_runtime", "cudaGraphLaunch", 0, 10, on=MAIN, correlation=1)
    kernels = [kernel("gemm", start_us, 29, correlation=1) for start_us in (10, 40, 70)]

    (row,) = rows_of(tmp_path, step(1, 0, 100), graph, *kernels)

    assert (row["launches"], row["longest_queue"], row["median_delay_us"]) == (3, 2, 30.0)


def test_an_accelerator_that_starts_each_small_kernel_as_it_is_launched_is_launch_bound(tmp_path: Path) -> None:
    work = [event for n in range(10) for event in launched(n + 1, 100 * n, 100 * n + 5, 20)]

    (row,) = rows_of(tmp_path, step(1, 0, 1000), *work)

    assert row["launch_bound_share"] == pytest.approx((5 + 9 * 80) / 1000)


def test_one_long_stall_of_the_host_is_not_launch_bound(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, step(1, 0, 1000), *launched(1, 0, 1, 99), *launched(2, 890, 900, 100))

    assert row["launch_bound_share"] == pytest.approx(0.001)


def test_gaps_between_queued_kernels_are_not_launch_bound(tmp_path: Path) -> None:
    work = [event for n in range(10) for event in launched(n + 1, 2 * n, 100 * n + 50, 95)]

    (row,) = rows_of(tmp_path, step(1, 0, 995), *work)

    assert row["launch_bound_share"] == 0.0


def test_waiting_for_the_loader_is_not_launch_bound(tmp_path: Path) -> None:
    loader = mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 101, 90)

    (row,) = rows_of(tmp_path, step(1, 0, 300), *launched(1, 0, 0, 100), loader, *launched(2, 195, 200, 100))

    assert row["launch_bound_share"] == 0.0


def test_steps_without_device_work_have_no_row(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, step(1, 0, 100), step(2, 100, 100), *launched(1, 10, 20, 10))

    assert [row["step"] for row in rows] == [1]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=10))
def test_the_queue_holds_what_was_launched_and_has_not_started(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int]]
) -> None:
    work = [
        event
        for number, (called, waits) in enumerate(pieces, start=1)
        for event in launched(number, called, called + 1 + waits, 5)
    ]

    rows = rows_of(tmp_path_factory.mktemp("trace"), step(1, 0, 20), step(2, 20, 90), *work)

    for row in rows:
        window = range(20) if row["step"] == 1 else range(20, 110)
        length = [sum(called + 1 <= moment < called + 1 + waits for called, waits in pieces) for moment in window]
        assert row["longest_queue"] == max(length)
        assert row["mean_queue"] == pytest.approx(sum(length) / len(window))
