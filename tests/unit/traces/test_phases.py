"""Work belongs to the phase in which it was launched, whichever thread launched it and whenever it ran."""

from pathlib import Path
from typing import Any

import pytest

from gpu_report.traces import TraceTables, read_trace, tabulate_trace
from gpu_report.traces.phases import PHASE_NAMES
from tests.unit.traces.by_hand import (
    AUTOGRAD,
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

FIXTURES = Path(__file__).parents[2] / "data" / "traces"


def tables_of(folder: Path, *events: RawEvent) -> TraceTables:
    return tabulate_trace(trace_of(folder, *events))


def phases_on(device: str, tables: TraceTables) -> dict[str, dict[str, Any]]:
    frame = tables.phases[tables.phases["device"] == device].drop(columns="device").set_index("phase")
    return {str(phase): dict(row) for phase, row in frame.iterrows()}


def test_work_counts_in_the_phase_in_which_it_was_launched_even_where_it_ran_later(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 1000),
        mark("forward", 0, 100),
        operation("aten::mm", 10, 20, external_id=1),
        launch(1, 12),
        kernel("gemm", 500, 300, correlation=1, external_id=1),
        mark("backward", 100, 100),
        operation("aten::mm", 110, 20, on=AUTOGRAD, external_id=2),
        launch(2, 112, on=AUTOGRAD),
        kernel("gemm", 800, 100, correlation=2, external_id=2),
    )

    assert {phase: (row["self_ms"], row["share"]) for phase, row in phases_on("cuda", tables).items()} == {
        "forward": (0.3, 0.75),
        "backward": (0.1, 0.25),
    }


def test_on_the_host_each_call_counts_its_own_time_in_the_phase_in_which_it_began(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 1000),
        mark("data", 0, 100),
        operation("aten::stack", 0, 40),
        mark("forward", 100, 300),
        operation("aten::conv2d", 100, 200),
        operation("aten::convolution", 150, 100),
        operation("aten::relu", 350, 50),
        operation("aten::add", 500, 10),
    )

    phases = phases_on("cpu", tables)

    assert [phases[name]["self_ms"] for name in ("data", "forward", "other")] == [0.04, 0.25, 0.01]
    assert phases["forward"]["convolution_ms"] == 0.2
    assert tables.phases["cudnn_ms"].isna().all()


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
    tmp_path: Path, operation_name: str, kernel_name: str, cudnn_ms: float
) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 1000),
        mark("forward", 0, 500),
        operation(operation_name, 10, 20, external_id=1),
        launch(1, 12),
        kernel(kernel_name, 100, 200, correlation=1, external_id=1),
    )

    assert phases_on("cuda", tables)["forward"]["cudnn_ms"] == cudnn_ms


def test_a_step_that_is_launched_as_one_has_no_phases_within(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 1000),
        mark("data", 0, 100),
        span("cuda_runtime", "cudaGraphLaunch", 200, 10, on=LOOP, correlation=1),
        kernel("gemm", 300, 100, correlation=1),
        kernel("relu", 400, 100, correlation=1),
    )

    assert phases_on("cuda", tables) == {
        "other": {"self_ms": 0.2, "share": 1.0, "convolution_ms": 0.0, "cudnn_ms": 0.0}
    }


def test_phases_come_in_the_order_of_the_step(tmp_path: Path) -> None:
    names = ["optimizer", "backward", "forward", "data"]
    events = [
        event
        for position, name in enumerate(names)
        for event in (mark(name, 100 * position, 50), operation("aten::add", 100 * position, 10))
    ]

    assert list(tables_of(tmp_path, step(1, 0, 1000), *events).phases["phase"]) == names[::-1]


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_the_phases_of_a_device_hold_all_its_time_and_no_more(fixture: str) -> None:
    tables = tabulate_trace(read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz"))

    sums = tables.phases.groupby("device")["self_ms"].sum()

    assert dict(sums) == pytest.approx(dict(tables.categories.groupby("device")["self_ms"].sum()))
    assert dict(tables.phases.groupby("device")["share"].sum()) == pytest.approx(dict.fromkeys(sums.index, 1.0))
    assert set(tables.phases["phase"]) <= set(PHASE_NAMES)


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_convolutions_of_all_phases_are_those_of_the_category(fixture: str) -> None:
    tables = tabulate_trace(read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz"))
    of_category = tables.categories[tables.categories["category"] == "convolution"].groupby("device")["self_ms"].sum()

    convolutions = tables.phases.groupby("device")["convolution_ms"].sum()

    assert {device: value for device, value in convolutions.items() if value} == pytest.approx(dict(of_category))
