"""The phases of a step, with the marks of the loop and without."""

from collections import Counter
from typing import Any

import pytest

from gpu_report.traces.attribution import CATEGORY_NAMES, attribute_device, attribute_host
from gpu_report.traces.phases import phase_rows
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    GPU_FIXTURES,
    LOADER,
    STREAM,
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
    without_marks,
)
from tests.unit.traces.by_hand import MAIN as LOOP

Row = dict[str, Any]


def phases_on(device: str, rows: list[Row]) -> dict[str, Row]:
    return {row["phase"]: row for row in rows if row["device"] == device}


def self_us(device: str, rows: list[Row]) -> dict[str, float]:
    """Phase to time in microseconds, as the events by hand have it."""
    return {
        phase: round(1000 * row["self_ms"], 6) for phase, row in phases_on(device, rows).items()
    }


def test_work_counts_in_the_phase_in_which_it_was_launched_even_where_it_ran_later() -> None:
    rows = made_by(
        phase_rows,
        trace_of(
            step(1, 0, 1000),
            mark("forward", 0, 100),
            operation("aten::mm", 10, 20, external_id=1),
            launch(1, 12),
            kernel("gemm", 500, 300, correlation=1, external_id=1),
            mark("backward", 100, 100),
            operation("aten::mm", 110, 20, on=AUTOGRAD, external_id=2),
            launch(2, 112, on=AUTOGRAD),
            kernel("gemm", 800, 100, correlation=2, external_id=2),
        ),
    )

    assert {
        phase: (row["self_ms"], row["share"]) for phase, row in phases_on("cuda", rows).items()
    } == {
        "forward": (0.3, 0.75),
        "backward": (0.1, 0.25),
    }


def test_on_the_host_each_call_counts_its_own_time_in_the_phase_in_which_it_began() -> None:
    rows = made_by(
        phase_rows,
        trace_of(
            step(1, 0, 1000),
            mark("data", 0, 100),
            operation("aten::stack", 0, 40),
            mark("forward", 100, 300),
            operation("aten::conv2d", 100, 200),
            operation("aten::convolution", 150, 100),
            operation("aten::relu", 350, 50),
            operation("aten::add", 500, 10),
        ),
    )

    phases = phases_on("cpu", rows)

    assert [phases[name]["self_ms"] for name in ("data", "forward", "other")] == [0.04, 0.25, 0.01]
    assert phases["forward"]["convolution_ms"] == 0.2
    assert {row["cudnn_ms"] for row in rows} == {None}


@pytest.mark.parametrize(
    ("operation_name", "kernel_name", "cudnn_ms"),
    [
        ("aten::cudnn_convolution", "implicit_convolve_sgemm", 0.2),
        ("aten::convolution_backward", "sm90_xmma_dgrad_implicit_gemm_bf16", 0.2),
        ("aten::convolution_backward", "cudnn::ops::nchwToNhwcKernel", 0.2),
        ("aten::mm", "sm90_xmma_gemm_bf16", 0.0),
        ("aten::mm", "nvjet_tst_128x256", 0.0),
    ],
)
def test_cudnn_is_known_by_its_kernels_and_by_the_operations_that_call_it(
    operation_name: str, kernel_name: str, cudnn_ms: float
) -> None:
    rows = made_by(
        phase_rows,
        trace_of(
            step(1, 0, 1000),
            mark("forward", 0, 500),
            operation(operation_name, 10, 20, external_id=1),
            launch(1, 12),
            kernel(kernel_name, 100, 200, correlation=1, external_id=1),
        ),
    )

    assert phases_on("cuda", rows)["forward"]["cudnn_ms"] == cudnn_ms


def test_a_step_that_is_launched_as_one_has_no_phases_within() -> None:
    rows = made_by(
        phase_rows,
        trace_of(
            step(1, 0, 1000),
            mark("data", 0, 100),
            span("cuda_runtime", "cudaGraphLaunch", 200, 10, on=LOOP, correlation=1),
            kernel("gemm", 300, 100, correlation=1),
            kernel("relu", 400, 100, correlation=1),
        ),
    )

    assert self_us("cuda", rows) == {"other": 200}


def test_phases_come_in_the_order_of_the_step() -> None:
    names = ["optimizer", "backward", "forward", "data"]
    events = [
        event
        for position, name in enumerate(names)
        for event in (mark(name, 100 * position, 50), operation("aten::add", 100 * position, 10))
    ]

    rows = made_by(phase_rows, trace_of(step(1, 0, 1000), *events))

    assert [row["phase"] for row in rows] == names[::-1]


def test_marks_for_the_copy_the_loss_and_for_zeroing_count_beside_the_loops_own() -> None:
    events = [
        step(1, 0, 1000),
        mark("data_transfer", 0, 100),
        operation("aten::to", 10, 20),
        mark("zero_grad", 100, 100),
        operation("aten::zero_", 110, 30),
        mark("loss", 200, 100),
        operation("aten::mul", 210, 40),
    ]

    marked = made_by(
        phase_rows, trace_of(*events, mark("forward", 300, 100), operation("aten::mm", 310, 50))
    )
    vague = made_by(phase_rows, trace_of(*events))

    assert self_us("cpu", marked) == {"data": 20, "optimizer": 30, "loss": 40, "forward": 50}
    assert self_us("cpu", vague) == {"forward": 90}


@pytest.mark.parametrize("has_marks", [True, False])
@pytest.mark.parametrize("fixture", GPU_FIXTURES)
def test_the_phases_of_a_device_hold_all_its_time_and_its_convolutions_and_no_more(
    fixture: str, *, has_marks: bool
) -> None:
    trace = recorded(fixture)
    calls = attribute_host(trace)
    work = attribute_device(trace, calls)
    convolution = CATEGORY_NAMES.index("convolution")
    times_ns = {
        "cpu": (calls.self_ns * calls.in_step, calls.category),
        "cuda": (work.spans.duration_ns, work.category),
    }

    rows = made_by(phase_rows, trace if has_marks else without_marks(trace))

    for device, (time_ns, category) in times_ns.items():
        phases = phases_on(device, rows)
        assert sum(row["self_ms"] for row in phases.values()) == pytest.approx(time_ns.sum() / 1e6)
        assert sum(row["share"] for row in phases.values()) == pytest.approx(1)
        assert sum(row["convolution_ms"] for row in phases.values()) == pytest.approx(
            time_ns[category == convolution].sum() / 1e6
        )


def loop_with(*marks: RawEvent) -> list[RawEvent]:
    """A step whose loss is computed from 100 to 200 µs, in which a kernel is launched that runs
    later.
    """
    return [
        step(1, 0, 1000),
        *marks,
        operation("aten::linear", 10, 40, external_id=1),
        launch(1, 12),
        kernel("gemm", 400, 100, correlation=1, external_id=1),
        operation("aten::mse_loss", 110, 30, external_id=2),
        launch(2, 112),
        kernel("mse", 500, 60, correlation=2, external_id=2),
        operation("aten::mul", 210, 20, external_id=3),
        launch(3, 212),
        kernel("mul", 600, 20, correlation=3, external_id=3),
    ]


FORWARD, LOSS, BACKWARD = (
    mark("forward", 0, 100),
    mark("loss", 100, 100),
    mark("backward", 200, 100),
)
BOTH = mark("forward", 0, 200)


def test_what_is_launched_in_a_mark_of_the_loss_is_the_loss_on_host_and_device() -> None:
    rows = made_by(phase_rows, trace_of(*loop_with(FORWARD, LOSS, BACKWARD)))

    assert self_us("cuda", rows) == {"forward": 100, "loss": 60, "backward": 20}
    assert self_us("cpu", rows)["loss"] == 30
    assert [row["phase"] for row in rows if row["device"] == "cuda"] == [
        "forward",
        "loss",
        "backward",
    ]


def test_without_a_mark_of_its_own_the_loss_is_part_of_what_holds_it_and_has_no_row() -> None:
    rows = made_by(phase_rows, trace_of(*loop_with(BOTH, BACKWARD)))

    assert self_us("cuda", rows) == {"forward": 160, "backward": 20}
    assert "loss" not in phases_on("cpu", rows)


def test_a_loss_between_marks_is_none_of_theirs() -> None:
    rows = made_by(phase_rows, trace_of(*loop_with(FORWARD, BACKWARD)))

    assert self_us("cuda", rows) == {"forward": 100, "backward": 20, "other": 60}


EVALUATE = "autograd::engine::evaluate_function: "


def rows_of_step(*events: RawEvent) -> list[Row]:
    """The phases of one step of a millisecond, in which the events lie."""
    return made_by(phase_rows, trace_of(step(1, 0, 1000), *events))


def numbered(
    sequence: int,
    name: str,
    start_us: float,
    duration_us: float,
    *,
    on: tuple[Any, Any] = LOOP,
    **arguments: int,
) -> RawEvent:
    """An operation with its number in autograd's sequence."""
    return operation(
        name, start_us, duration_us, on=on, **{"Sequence number": sequence}, **arguments
    )


def test_autograd_the_optimizer_and_the_loader_show_the_phases() -> None:
    rows = rows_of_step(
        span("user_annotation", LOADER, 0, 50, on=LOOP),
        operation("aten::stack", 10, 10),
        numbered(5, "aten::linear", 100, 60, external_id=1),
        launch(1, 110, 10),
        kernel("gemm", 400, 300, correlation=1),
        operation("aten::ones_like", 170, 5),
        numbered(5, EVALUATE + "AddmmBackward0", 200, 70, on=AUTOGRAD, external_id=2),
        numbered(5, "AddmmBackward0", 210, 50, on=AUTOGRAD),
        launch(2, 220, 10, on=AUTOGRAD),
        kernel("gemm", 700, 200, correlation=2),
        operation(EVALUATE + "torch::autograd::AccumulateGrad", 280, 10, on=AUTOGRAD),
        numbered(6, "aten::item", 300, 40),
        mark("Optimizer.step#SGD.step", 350, 100),
        operation("aten::_foreach_add_", 360, 80, external_id=3),
        launch(3, 370, 10),
        kernel("multi_tensor_apply", 900, 100, correlation=3),
    )

    assert self_us("cpu", rows) == {
        "data": 50,
        "forward": 65,
        "backward": 80,
        "optimizer": 80,
        "other": 40,
    }
    assert self_us("cuda", rows) == {"forward": 300, "backward": 200, "optimizer": 100}


def test_a_copy_to_the_device_is_data_with_the_conversions_around_it_and_the_waits_inside() -> None:
    rows = rows_of_step(
        operation("MyModel", 0, 200),
        operation("aten::to", 10, 100),
        operation("aten::_to_copy", 20, 80),
        operation("aten::copy_", 30, 60),
        span("cuda_runtime", "cudaMemcpyAsync", 40, 10, on=LOOP, correlation=1),
        span("cuda_runtime", "cudaStreamSynchronize", 55, 20, on=LOOP, correlation=2),
        span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 45, 25, on=STREAM, correlation=1),
        operation("aten::copy_", 120, 30),
        span("cuda_runtime", "cudaMemcpyAsync", 130, 10, on=LOOP, correlation=3),
        span("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 140, 5, on=STREAM, correlation=3),
    )

    assert self_us("cpu", rows) == {"data": 100, "forward": 100}
    assert self_us("cuda", rows) == {"data": 25, "forward": 5}


def test_a_second_micro_batchs_forward_is_forward_and_sums_between_are_backward() -> None:
    rows = rows_of_step(
        numbered(1, "aten::mm", 0, 10),
        numbered(1, EVALUATE + "MmBackward0", 100, 20, on=AUTOGRAD),
        operation("aten::add", 130, 5, on=AUTOGRAD),
        numbered(2, "aten::mm", 200, 40),
        numbered(2, EVALUATE + "MmBackward0", 300, 80, on=AUTOGRAD),
        numbered(3, "aten::mm", 400, 160),
    )

    assert self_us("cpu", rows) == {"forward": 50, "backward": 105, "other": 160}


def test_a_closure_that_the_optimizer_calls_is_not_the_optimizers_work() -> None:
    rows = rows_of_step(
        mark("Optimizer.step#LBFGS.step", 0, 900),
        mark("Optimizer.zero_grad#LBFGS.zero_grad", 10, 20),
        operation("aten::zero_", 12, 8),
        numbered(1, "aten::mm", 50, 40),
        numbered(1, EVALUATE + "MmBackward0", 100, 80),
        operation("aten::mm", 110, 20),
        operation("aten::add_", 300, 160),
        launch(9, 500, 20),
    )

    assert self_us("cpu", rows) == {"forward": 40, "backward": 80, "optimizer": 188}


def test_each_step_has_phases_of_its_own() -> None:
    rows = made_by(
        phase_rows,
        trace_of(
            *[step(number, 1000 * number, 1000) for number in (1, 2)],
            numbered(1, "aten::mm", 1000, 10),
            numbered(1, EVALUATE + "MmBackward0", 1100, 20),
            operation("aten::relu", 1200, 40),
            operation("aten::mm", 2000, 80),
        ),
    )

    assert self_us("cpu", rows) == {"forward": 90, "backward": 20, "other": 40}


def test_a_step_that_is_launched_as_one_has_no_phases_without_marks_either() -> None:
    rows = rows_of_step(
        operation("aten::copy_", 10, 20),
        span("cuda_runtime", "cudaGraphLaunch", 200, 10, on=LOOP, correlation=1),
        kernel("gemm", 300, 100, correlation=1),
    )

    assert self_us("cpu", rows) == {"other": 30}
    assert self_us("cuda", rows) == {"other": 100}


def test_a_step_that_launches_a_part_as_a_graph_has_its_phases() -> None:
    rows = rows_of_step(
        operation("aten::mm", 10, 20, external_id=1),
        span("cuda_runtime", "cudaGraphLaunch", 15, 10, on=LOOP, correlation=1),
        kernel("gemm", 300, 100, correlation=1),
        operation(EVALUATE + "MmBackward0", 100, 40, on=AUTOGRAD),
    )

    assert self_us("cpu", rows) == {"forward": 20, "backward": 40}
    assert self_us("cuda", rows) == {"forward": 100}


@pytest.mark.parametrize("fixture", GPU_FIXTURES)
def test_autograd_shows_much_the_same_as_the_loops_marks(fixture: str) -> None:
    trace = recorded(fixture)

    marked, told = (
        Counter({(row["device"], row["phase"]): row["share"] for row in made_by(phase_rows, each)})
        for each in (trace, without_marks(trace))
    )

    assert dict(marked) != dict(told)
    assert max(abs(marked[key] - told[key]) for key in marked | told) < 0.05
