"""What the quality gate lets through, on traces written by hand and on what was recorded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.quality import quality_rows, row_of
from tests.unit.traces.by_hand import (
    RawEvent,
    kernel,
    launch,
    made_by,
    mark,
    operation,
    span,
    step,
    trace_of,
    trusted,
)


def gate(*events: RawEvent, **metadata: Any) -> list[dict[str, Any]]:
    return made_by(quality_rows, trace_of(*events, **metadata))


def failed(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["check"]: row["value"] for row in rows if not row["passed"]}


def launched(correlation: int, start_us: float) -> list[RawEvent]:
    return [
        operation("aten::mm", start_us, 10),
        launch(correlation, start_us + 2, 2),
        kernel("gemm", start_us + 20, 30, correlation=correlation),
    ]


def two_good_steps() -> list[RawEvent]:
    return [step(1, 0, 100), *launched(1, 10), step(2, 100, 100), *launched(2, 110)]


def test_a_sound_trace_passes_every_check() -> None:
    rows = gate(*two_good_steps())

    assert failed(rows) == {}
    assert len(rows) > 5


def test_a_step_without_device_work_is_not_reported_as_idle() -> None:
    rows = gate(*two_good_steps(), step(3, 200, 100), operation("aten::mm", 210, 10))

    assert failed(rows) == {"device work in the step": 0}
    assert not trusted("steps", "device_idle_share", rows, step=3)
    assert not trusted("steps", "operator_ms", rows, step=3)
    assert trusted("steps", "device_idle_share", rows, step=2)
    assert trusted("steps", "wall_ms", rows, step=3)
    assert not trusted("kernels", "total_ms", rows)


def test_no_busy_time_is_known_before_work_that_was_launched_before_the_recording() -> None:
    began_before = [operation("aten::mm", 0, 10), kernel("gemm", 15, 5, correlation=9999)]
    launches = [event for n in range(1, 150) for event in launched(n, 100 + 100 * n)]

    rows = gate(step(1, 0, 100), step(2, 100, 15_000), *began_before, *launches)

    assert failed(rows) == {"begin of the recording": pytest.approx(0.15)}
    assert not trusted("steps", "device_busy_ms", rows, step=1)
    assert trusted("steps", "device_busy_ms", rows, step=2)
    assert trusted("idle", "total_ms", rows)


def test_work_of_a_library_that_numbers_no_launch_may_have_been_launched_here() -> None:
    unnumbered = [operation("c10d::allreduce_", 30, 10), kernel("ncclDevKernel", 50, 10)]

    rows = gate(step(1, 0, 100), *unnumbered, step(2, 100, 100), *launched(2, 110))

    assert "begin of the recording" not in {row["check"] for row in rows}


def test_a_host_that_runs_ahead_of_the_device_is_named_and_withholds_nothing() -> None:
    events = [
        event
        for n in range(3)
        for event in (
            step(n, 100 * n, 100),
            operation("aten::mm", 100 * n, 20),
            launch(n + 1, 100 * n + 2),
            kernel("gemm", 10 + 250 * n, 250, correlation=n + 1),
        )
    ]

    rows = gate(*events)

    assert failed(rows) == {"host ahead of the device": pytest.approx(2.5)}
    passed = next(row for row in gate(*two_good_steps()) if row["check"].startswith("host ahead"))
    assert "ran ahead" not in passed["text"]
    assert trusted("steps", "wall_ms", rows)


def test_launches_whose_kernels_were_dropped_invalidate_the_device_times() -> None:
    rows = gate(*two_good_steps(), operation("aten::mm", 150, 10), launch(9, 152, 2))

    assert failed(rows) == {"work of the launches": pytest.approx(1 / 3)}
    assert not trusted("steps", "device_busy_ms", rows)
    assert not trusted("operations", "self_ms", rows, on="cuda")
    assert trusted("operations", "self_ms", rows, on="cpu")


def test_work_without_a_launch_invalidates_what_names_operations_but_not_the_busy_time() -> None:
    rows = gate(*two_good_steps(), kernel("stray", 165, 10, correlation=77))

    assert failed(rows) == {"launch of the work": pytest.approx(1 / 3)}
    assert not trusted("kernels", "operation", rows)
    assert trusted("kernels", "total_ms", rows)
    assert trusted("steps", "device_idle_share", rows)


def test_kernels_of_a_graph_are_reported_for_no_operation_but_keep_the_device_busy() -> None:
    graph = span("cuda_runtime", "cudaGraphLaunch", 112, 5, on=(100, 100), correlation=3)
    replayed = [
        kernel(f"part_{number}", 120 + 10 * number, 10, correlation=3) for number in range(3)
    ]

    rows = gate(step(1, 0, 100), *launched(1, 10), step(2, 100, 100), graph, *replayed)

    assert failed(rows) == {
        "work outside of graphs": pytest.approx(0.5),
        "work launched one by one": pytest.approx(0.5),
    }
    assert not trusted("operations", "self_ms", rows, on="cuda")
    assert not trusted("phases", "self_ms", rows, on="cuda")
    assert not trusted("allocations", "share", rows, on="cuda")
    assert trusted("allocations", "share", rows, on="cpu")
    assert trusted("kernels", "total_ms", rows)
    assert trusted("steps", "device_idle_share", rows)


def test_work_that_overlaps_in_one_stream_fails_and_in_two_streams_does_not() -> None:
    overlapping = kernel("second", 30, 30, correlation=1)
    apart = kernel("second", 30, 30, correlation=1, on=(0, 8))

    assert failed(gate(step(1, 0, 100), *launched(1, 10), overlapping)) == {
        "one after the other in a stream": pytest.approx(0.5)
    }
    assert failed(gate(step(1, 0, 100), *launched(1, 10), apart)) == {}


@pytest.mark.parametrize(("overlap_us", "is_trusted"), [(40, True), (60, False)])
def test_kernels_of_a_stream_may_overlap_by_a_twentieth(
    overlap_us: int, *, is_trusted: bool
) -> None:
    second = kernel("second", 500 - overlap_us, 500, correlation=2)

    rows = gate(
        step(1, 0, 1200),
        operation("aten::mm", 0, 10),
        *(launch(1, 1), kernel("first", 0, 500, correlation=1), launch(2, 3), second),
    )

    assert trusted("kernels", "total_ms", rows) == is_trusted


def test_a_call_that_outlives_the_one_it_began_in_invalidates_own_times() -> None:
    rows = gate(step(1, 0, 100), operation("aten::a", 10, 10), operation("aten::b", 15, 10))

    assert failed(rows) == {"calls inside calls": pytest.approx(5 / 15)}
    assert not trusted("operations", "self_ms", rows, on="cpu")
    assert trusted("steps", "operator_ms", rows)


@pytest.mark.parametrize(
    ("backward", "expected"),
    [
        ("aten::convolution_backward", {"backward pass": 0}),
        ("autograd::engine::evaluate_function: ConvolutionBackward0", {}),
    ],
)
def test_an_optimizer_without_a_backward_pass_leaves_no_phases(
    backward: str, expected: dict[str, float]
) -> None:
    optimizer = mark("Optimizer.step#SGD.step", 80, 10)
    rows = gate(step(1, 0, 100), *launched(1, 10), operation(backward, 60, 10), optimizer)

    assert failed(rows) == expected
    assert trusted("phases", "self_ms", rows) == (not expected)
    assert trusted("operations", "self_ms", rows)


@pytest.mark.parametrize(("last_us", "expected"), [(49, {"whole last step": 0.49}), (51, {})])
def test_a_last_step_under_half_of_the_shortest_other_is_cut(
    last_us: float, expected: dict[str, float]
) -> None:
    rows = gate(step(1, 0, 300), step(2, 300, 100), step(3, 400, last_us))

    assert failed(rows) == expected
    assert trusted("steps", "wall_ms", rows, step=3) == (not expected)
    assert trusted("steps", "wall_ms", rows, step=2)


@given(
    invalidated=st.sampled_from(
        ["kernels", "kernels.total_ms", "kernels on device", "kernels.total_ms on device"]
    ),
    passed=st.booleans(),
    step=st.integers(-1, 3),
)
def test_a_number_is_trusted_exactly_where_no_failed_check_names_it(
    *, invalidated: str, passed: bool, step: int
) -> None:
    rows = [row_of("any", 0, 0, passed=passed, text="", invalidates=[invalidated], step=step)]

    assert trusted("kernels", "total_ms", rows) == passed
    assert trusted("kernels", "total_ms", rows, on="cpu") == (
        passed or invalidated.endswith("on device")
    )
    assert trusted("kernels", "total_ms", rows, step=2) == (passed or step not in (-1, 2))
    assert trusted("idle", "total_ms", rows)
