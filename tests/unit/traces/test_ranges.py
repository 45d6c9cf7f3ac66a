"""What the user's ranges and the modules cost, in traces written by hand, and in one of PyTorch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from gpu_report.traces.ranges import MODULES, RANGES, module_rows, range_rows
from gpu_report.traces.reading import read_trace
from gpu_report.traces.shapes import SHAPES
from gpu_report.traces.tables import tabulate_trace
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    MAIN,
    RawEvent,
    kernel,
    launch,
    made_by,
    mark,
    operation,
    span,
    step,
    trace_of,
)
from tests.unit.traces.conftest import one_thread


def work(
    number: int, start_us: float, run_us: float, *, on: tuple[Any, Any] = MAIN, **arguments: int
) -> list[RawEvent]:
    """An operation that launches a kernel, which runs much later."""
    return [
        operation("aten::mm", start_us, 10, on=on),
        launch(number, start_us + 2, on=on),
        kernel("gemm", 2000 + start_us, run_us, correlation=number),
    ]


def module(name: str, start_us: float, duration_us: float) -> RawEvent:
    return span("python_function", f"nn.Module: {name}", start_us, duration_us, on=MAIN)


def test_a_range_has_what_was_launched_within_it_wherever_that_ran() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        mark("encode", 100, 300),
        mark("attend", 200, 100),
        *work(1, 110, 40),
        *work(2, 210, 60),
        *work(3, 500, 100),
    )

    encode, attend = made_by(range_rows, trace)

    assert encode == {
        "name": "encode",
        "calls": 1,
        "host_ms": 0.3,
        "host_share": pytest.approx(0.3),
        "device_ms": 0.1,
        "device_share": 0.5,
        "kernels": 2,
    }
    assert (attend["name"], attend["device_ms"], attend["kernels"]) == ("attend", 0.06, 1)


def test_nested_ranges_of_one_name_count_once() -> None:
    trace = trace_of(
        step(1, 0, 1000), mark("block", 100, 300), mark("block", 150, 100), *work(1, 160, 50)
    )

    (row,) = made_by(range_rows, trace)

    assert (row["calls"], row["host_ms"], row["device_ms"], row["kernels"]) == (1, 0.3, 0.05, 1)


def test_a_range_around_the_steps_counts_their_time_alone() -> None:
    trace = trace_of(mark("epoch", 0, 5000), step(1, 1000, 1000), operation("aten::mm", 1100, 10))

    (row,) = made_by(range_rows, trace)

    assert (row["host_ms"], row["host_share"], row["device_ms"]) == (1.0, 1.0, None)


def test_backward_work_belongs_to_the_range_in_which_it_was_launched() -> None:
    evaluating = "autograd::engine::evaluate_function: MmBackward0"
    trace = trace_of(
        step(1, 0, 1000),
        mark("model", 100, 100),
        *work(1, 110, 30),
        mark("train", 300, 300),
        operation(evaluating, 400, 100, on=AUTOGRAD),
        *work(2, 410, 70, on=AUTOGRAD),
    )

    found = {row["name"]: row["device_ms"] for row in made_by(range_rows, trace)}

    assert found == {"train": 0.07, "model": 0.03}


@pytest.mark.parametrize(
    "name",
    [
        "Optimizer.step#Adam.step",
        "Optimizer.zero_grad#Adam.zero_grad",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "nccl:all_reduce",
        "DistributedDataParallel.forward",
        "Torch-Compiled Region: 0/0",
        "## Call CompiledFxGraph abc ##",
        "PyTorch Profiler (0)",
    ],
)
def test_marks_of_pytorch_are_no_ranges_of_the_user(name: str) -> None:
    trace = trace_of(step(1, 0, 1000), mark(name, 100, 100), mark("## mine ##", 300, 100))

    assert [row["name"] for row in made_by(range_rows, trace)] == ["## mine ##"]


def test_marks_of_our_loop_are_no_ranges_but_those_of_another_are() -> None:
    theirs = trace_of(step(1, 0, 1000), mark("forward", 100, 100))

    assert [row["name"] for row in made_by(range_rows, theirs)] == ["forward"]
    assert made_by(range_rows, replace(theirs, run_id="a run")) == []


def test_a_module_has_its_forward_and_its_backward_work() -> None:
    forward, backward = work(1, 210, 40), work(2, 610, 60, on=AUTOGRAD)
    forward[0]["args"]["Sequence number"] = 7
    evaluating = operation(
        "autograd::engine::evaluate_function: MmBackward0", 600, 100, on=AUTOGRAD
    )
    evaluating["args"]["Sequence number"] = 7
    trace = trace_of(
        step(1, 0, 1000),
        module("Net_0", 100, 400),
        module("Linear_0", 200, 100),
        *forward,
        *work(3, 400, 100),
        evaluating,
        *backward,
    )

    net, linear = made_by(module_rows, trace)

    assert net == {
        "name": "Net_0",
        "calls": 1,
        "host_ms": 0.4,
        "host_share": pytest.approx(0.4),
        "own_device_ms": 0.1,
        "device_ms": 0.2,
        "backward_ms": 0.06,
        "device_share": 1.0,
        "kernels": 3,
    }
    assert linear["name"] == "Linear_0"
    times = ("own_device_ms", "device_ms", "backward_ms")
    assert [linear[time] for time in times] == [0.1, 0.1, 0.06]


def test_without_stacks_no_module_has_a_row() -> None:
    assert made_by(module_rows, trace_of(step(1, 0, 1000), *work(1, 100, 10))) == []


def test_a_trace_that_pytorch_records_has_ranges_modules_and_shapes(tmp_path: Path) -> None:
    path, model = tmp_path / "recorded.json", nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten())
    head = nn.Linear(8 * 6 * 6, 5)
    with (
        one_thread(),
        profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True) as profiler,
    ):
        for _ in range(2):
            with record_function("encode"):
                features = model(torch.ones(4, 3, 8, 8))
            head(features).sum().backward()
    profiler.export_chrome_trace(str(path))

    found = tabulate_trace(read_trace(path))

    (encode,) = found[RANGES]
    assert (encode["name"], encode["calls"]) == ("encode", 2)
    calls = {row["name"]: row["calls"] for row in found[MODULES]}
    assert calls == {"Sequential_0": 2, "Conv2d_0": 2, "Flatten_0": 2, "Linear_0": 2}
    flop = {row["name"]: row["flop"] for row in found[SHAPES] if row["flop"] is not None}
    # two calls, each twice a multiplication and an addition for each weight and output position
    assert flop["aten::convolution"] == 2 * 2 * 4 * 6 * 6 * 8 * 3 * 3 * 3
    assert flop["aten::addmm"] == 2 * 2 * 4 * 288 * 5
