"""Where the loop sets no marks, autograd, the optimizer and the loader tell the phases."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpu_report.traces.reading import read_trace
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    STREAM,
    RawEvent,
    kernel,
    launch,
    mark,
    operation,
    span,
    step,
    trace_of,
)
from tests.unit.traces.by_hand import MAIN as LOOP
from tests.unit.traces.by_phase import ALL_FIXTURES, FIXTURES, Row, rows_of, self_us, without_marks

EVALUATE = "autograd::engine::evaluate_function: "
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def rows_of_step(folder: Path, *events: RawEvent) -> list[Row]:
    """The phases of one step of a millisecond, in which the events lie."""
    return rows_of(trace_of(folder, step(1, 0, 1000), *events))


def numbered(
    sequence: int, name: str, start_us: float, duration_us: float, *, on: tuple[Any, Any] = LOOP, **arguments: int
) -> RawEvent:
    """An operation with its number in autograd's sequence."""
    return operation(name, start_us, duration_us, on=on, **{"Sequence number": sequence}, **arguments)


def test_autograd_the_optimizer_and_the_loader_tell_the_phases(tmp_path: Path) -> None:
    rows = rows_of_step(
        tmp_path,
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

    assert self_us("cpu", rows) == {"data": 50, "forward": 65, "backward": 80, "optimizer": 80, "other": 40}
    assert self_us("cuda", rows) == {"forward": 300, "backward": 200, "optimizer": 100}


def test_a_copy_to_the_device_is_data_with_the_conversions_around_it_and_the_waits_inside(
    tmp_path: Path,
) -> None:
    rows = rows_of_step(
        tmp_path,
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


def test_the_forward_pass_of_a_second_part_of_the_batch_is_forward_and_sums_between_are_backward(
    tmp_path: Path,
) -> None:
    rows = rows_of_step(
        tmp_path,
        numbered(1, "aten::mm", 0, 10),
        numbered(1, EVALUATE + "MmBackward0", 100, 20, on=AUTOGRAD),
        operation("aten::add", 130, 5, on=AUTOGRAD),
        numbered(2, "aten::mm", 200, 40),
        numbered(2, EVALUATE + "MmBackward0", 300, 80, on=AUTOGRAD),
        numbered(3, "aten::mm", 400, 160),
    )

    assert self_us("cpu", rows) == {"forward": 50, "backward": 105, "other": 160}


def test_a_closure_that_the_optimizer_calls_is_not_the_optimizers_work(tmp_path: Path) -> None:
    rows = rows_of_step(
        tmp_path,
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


def test_each_step_has_phases_of_its_own(tmp_path: Path) -> None:
    rows = rows_of(
        trace_of(
            tmp_path,
            *[step(number, 1000 * number, 1000) for number in (1, 2)],
            numbered(1, "aten::mm", 1000, 10),
            numbered(1, EVALUATE + "MmBackward0", 1100, 20),
            operation("aten::relu", 1200, 40),
            operation("aten::mm", 2000, 80),
        )
    )

    assert self_us("cpu", rows) == {"forward": 90, "backward": 20, "other": 40}


def test_a_step_that_is_launched_as_one_has_no_phases_within(tmp_path: Path) -> None:
    rows = rows_of_step(
        tmp_path,
        operation("aten::copy_", 10, 20),
        span("cuda_runtime", "cudaGraphLaunch", 200, 10, on=LOOP, correlation=1),
        kernel("gemm", 300, 100, correlation=1),
    )

    assert self_us("cpu", rows) == {"other": 30}
    assert self_us("cuda", rows) == {"other": 100}


def test_a_step_that_launches_a_part_as_a_graph_has_its_phases(tmp_path: Path) -> None:
    rows = rows_of_step(
        tmp_path,
        operation("aten::mm", 10, 20, external_id=1),
        span("cuda_runtime", "cudaGraphLaunch", 15, 10, on=LOOP, correlation=1),
        kernel("gemm", 300, 100, correlation=1),
        operation(EVALUATE + "MmBackward0", 100, 40, on=AUTOGRAD),
    )

    assert self_us("cpu", rows) == {"forward": 20, "backward": 40}
    assert self_us("cuda", rows) == {"forward": 100}


@pytest.mark.parametrize("fixture", ALL_FIXTURES)
def test_autograd_tells_much_the_same_as_the_loops_marks(fixture: str) -> None:
    trace = read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz")

    marked, told = (
        Counter({(row["device"], row["phase"]): row["share"] for row in rows_of(each)})
        for each in (trace, without_marks(trace))
    )

    assert dict(marked) != dict(told)
    assert max(abs(marked[key] - told[key]) for key in marked | told) < 0.05
