"""The phases of a step, with the marks of the loop and without."""

from typing import Any

import pytest

from gpu_report.traces.attribution import CATEGORY_NAMES, attribute_device, attribute_host
from gpu_report.traces.phases import phase_rows
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    GPU_FIXTURES,
    LOADER,
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
        "cuda": (work.duration_ns, work.category),
    }

    rows = made_by(phase_rows, trace if has_marks else without_marks(trace))

    for device, (time_ns, category) in times_ns.items():
        phases = phases_on(device, rows)
        assert sum(row["self_ms"] for row in phases.values()) == pytest.approx(time_ns.sum() / 1e6)
        assert sum(row["share"] for row in phases.values()) == pytest.approx(1)
        assert sum(row["convolution_ms"] for row in phases.values()) == pytest.approx(
            time_ns[category == convolution].sum() / 1e6
        )


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
