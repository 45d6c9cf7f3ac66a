"""Kernels tell how long they ran, how long they waited for their launch to take effect, and where they came from."""

from pathlib import Path
from typing import Any

import pytest

from gpu_report.traces.attribution import attribute_device, attribute_host
from gpu_report.traces.kernels import kernel_rows
from gpu_report.traces.reading import read_trace
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import MAIN, RawEvent, kernel, launch, operation, span, step, trace_of

FIXTURES = Path(__file__).parents[2] / "data" / "traces"

Row = dict[str, Any]


def rows_of(trace: Trace) -> list[Row]:
    calls = attribute_host(trace)
    return kernel_rows(trace, calls, attribute_device(trace, calls))


def run(name: str, start_us: float, duration_us: float, correlation: int, **more: Any) -> RawEvent:
    event = kernel(name, start_us, duration_us, correlation=correlation)
    event["args"].update(more)
    return event


def test_a_row_holds_all_that_the_trace_says_of_a_kernel(tmp_path: Path) -> None:
    gemm = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>"
    sizes = {"grid": [4, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 25}
    trace = trace_of(
        tmp_path,
        step(1, 0, 9000),
        span("python_function", "train.py(80): main", 0, 9000, on=MAIN),
        span("python_function", "nn.Module: Linear_0", 0, 3000, on=MAIN),
        operation("aten::mm", 0, 1000),
        launch(1, 10, 2),
        launch(2, 20, 2),
        launch(3, 30, 2),
        run(gemm, 20, 10, 1, **sizes),
        run(gemm, 40, 30, 2, **sizes),
        run(gemm, 80, 20, 3, **{**sizes, "grid": [8, 1, 1], "est. achieved occupancy %": 75}),
    )

    assert rows_of(trace) == [
        {
            "name": gemm,
            "category": "matrix product",
            "calls": 3,
            "total_ms": 0.06,
            "mean_us": 20.0,
            "share": 1.0,
            "p10_us": 10.0,
            "median_us": 20.0,
            "p90_us": 30.0,
            "launch_delay_us": 18.0,
            "library": "CUTLASS",
            "tensor_cores": "yes",
            "grid": "[4, 1, 1]",
            "block": "[128, 1, 1]",
            "occupancy": 0.25,
            "operation": "aten::mm",
            "module": "Linear_0",
            "source": "train.py(80): main",
        }
    ]


def test_what_the_trace_does_not_say_is_missing(tmp_path: Path) -> None:
    (row,) = rows_of(trace_of(tmp_path, step(1, 0, 9000), kernel("k", 10, 1, correlation=4)))

    assert (row["launch_delay_us"], row["occupancy"]) == (None, None)
    assert [row[column] for column in ("grid", "block", "operation", "module", "source")] == [""] * 5


def test_a_kernel_that_starts_before_its_launch_returns_has_not_waited(tmp_path: Path) -> None:
    events = step(1, 0, 9000), operation("aten::mm", 0, 100), launch(1, 10, 50), kernel("k", 20, 5, correlation=1)

    (row,) = rows_of(trace_of(tmp_path, *events))

    assert row["launch_delay_us"] == 0.0


def test_a_kernel_that_two_kinds_of_operation_launch_stands_in_two_rows(tmp_path: Path) -> None:
    rows = rows_of(
        trace_of(
            tmp_path,
            step(1, 0, 20_000),
            operation("aten::add", 0, 1000),
            launch(1, 100),
            operation("aten::_foreach_add_", 2000, 1000),
            launch(2, 2100),
            kernel("elementwise_kernel", 5000, 1000, correlation=1),
            kernel("elementwise_kernel", 7000, 3000, correlation=2),
        )
    )

    assert [(row["category"], row["calls"], row["total_ms"], row["share"]) for row in rows] == [
        ("optimizer", 1, 3.0, 0.75),
        ("elementwise", 1, 1.0, 0.25),
    ]


def test_the_operation_that_launched_most_of_the_time_is_named_even_if_another_launched_more_often(
    tmp_path: Path,
) -> None:
    (row,) = rows_of(
        trace_of(
            tmp_path,
            step(1, 0, 20_000),
            span("python_function", "nn.Module: Often_0", 0, 1000, on=MAIN),
            operation("aten::add", 0, 900),
            launch(1, 100),
            launch(2, 200),
            span("python_function", "nn.Module: Long_0", 2000, 1000, on=MAIN),
            operation("aten::mul", 2000, 900),
            launch(3, 2100),
            kernel("elementwise_kernel", 5000, 10, correlation=1),
            kernel("elementwise_kernel", 6000, 10, correlation=2),
            kernel("elementwise_kernel", 7000, 30, correlation=3),
        )
    )

    assert (row["operation"], row["module"]) == ("aten::mul", "Long_0")


def test_the_most_frequent_launch_is_one_pair_of_grid_and_block(tmp_path: Path) -> None:
    pairs = [([1, 1, 1], [64, 1, 1]), ([2, 1, 1], [32, 1, 1]), ([2, 1, 1], [64, 1, 1]), ([1, 1, 1], [64, 1, 1])]
    runs = [
        run("k", 10 * number, 1, number, grid=grid, block=block) for number, (grid, block) in enumerate(pairs, start=1)
    ]

    (row,) = rows_of(trace_of(tmp_path, step(1, 0, 9000), *runs))

    assert (row["grid"], row["block"]) == ("[1, 1, 1]", "[64, 1, 1]")


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_kernels_of_real_layers_come_from_their_module_forward_and_backward(fixture: str) -> None:
    rows = rows_of(read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz"))

    modules = {row["operation"]: row["module"].rpartition("_")[0] for row in rows if row["category"] != "optimizer"}

    layer = {
        "aten::cudnn_convolution": "Conv2d",
        "aten::convolution_backward": "Conv2d",
        "aten::cudnn_batch_norm": "BatchNorm2d",
        "aten::cudnn_batch_norm_backward": "BatchNorm2d",
        "aten::_cudnn_rnn": "LSTM",
        "aten::_cudnn_rnn_backward": "LSTM",
    }
    found = {operation: module for operation, module in modules.items() if operation in layer}
    assert found
    assert found == {operation: layer[operation] for operation in found}
    assert {row["source"].rpartition(": ")[2] for row in rows if row["module"]} == {"forward"}
