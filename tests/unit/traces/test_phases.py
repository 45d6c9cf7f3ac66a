"""Work belongs to the phase in which it was launched, whichever thread launched it and whenever it ran."""

from pathlib import Path

import pytest

from gpu_report.traces.attribution import CATEGORY_NAMES, attribute_device, attribute_host
from gpu_report.traces.reading import read_trace
from tests.unit.traces.by_hand import AUTOGRAD, kernel, launch, mark, operation, span, step, trace_of
from tests.unit.traces.by_hand import MAIN as LOOP
from tests.unit.traces.by_phase import ALL_FIXTURES, FIXTURES, phases_on, rows_of, self_us, without_marks


def test_work_counts_in_the_phase_in_which_it_was_launched_even_where_it_ran_later(tmp_path: Path) -> None:
    rows = rows_of(
        trace_of(
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
    )

    assert {phase: (row["self_ms"], row["share"]) for phase, row in phases_on("cuda", rows).items()} == {
        "forward": (0.3, 0.75),
        "backward": (0.1, 0.25),
    }


def test_on_the_host_each_call_counts_its_own_time_in_the_phase_in_which_it_began(tmp_path: Path) -> None:
    rows = rows_of(
        trace_of(
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
    tmp_path: Path, operation_name: str, kernel_name: str, cudnn_ms: float
) -> None:
    rows = rows_of(
        trace_of(
            tmp_path,
            step(1, 0, 1000),
            mark("forward", 0, 500),
            operation(operation_name, 10, 20, external_id=1),
            launch(1, 12),
            kernel(kernel_name, 100, 200, correlation=1, external_id=1),
        )
    )

    assert phases_on("cuda", rows)["forward"]["cudnn_ms"] == cudnn_ms


def test_a_step_that_is_launched_as_one_has_no_phases_within(tmp_path: Path) -> None:
    rows = rows_of(
        trace_of(
            tmp_path,
            step(1, 0, 1000),
            mark("data", 0, 100),
            span("cuda_runtime", "cudaGraphLaunch", 200, 10, on=LOOP, correlation=1),
            kernel("gemm", 300, 100, correlation=1),
            kernel("relu", 400, 100, correlation=1),
        )
    )

    assert self_us("cuda", rows) == {"other": 200}


def test_phases_come_in_the_order_of_the_step(tmp_path: Path) -> None:
    names = ["optimizer", "backward", "forward", "data"]
    events = [
        event
        for position, name in enumerate(names)
        for event in (mark(name, 100 * position, 50), operation("aten::add", 100 * position, 10))
    ]

    rows = rows_of(trace_of(tmp_path, step(1, 0, 1000), *events))

    assert [row["phase"] for row in rows] == names[::-1]


def test_marks_for_the_copy_the_loss_and_for_zeroing_count_beside_the_loops_own(tmp_path: Path) -> None:
    events = [
        step(1, 0, 1000),
        mark("data_transfer", 0, 100),
        operation("aten::to", 10, 20),
        mark("zero_grad", 100, 100),
        operation("aten::zero_", 110, 30),
        mark("loss", 200, 100),
        operation("aten::mul", 210, 40),
    ]

    marked = rows_of(trace_of(tmp_path, *events, mark("forward", 300, 100), operation("aten::mm", 310, 50)))
    vague = rows_of(trace_of(tmp_path, *events))

    assert self_us("cpu", marked) == {"data": 20, "optimizer": 30, "loss": 40, "forward": 50}
    assert self_us("cpu", vague) == {"forward": 90}


@pytest.mark.parametrize("has_marks", [True, False])
@pytest.mark.parametrize("fixture", ALL_FIXTURES)
def test_the_phases_of_a_device_hold_all_its_time_and_its_convolutions_and_no_more(
    fixture: str, *, has_marks: bool
) -> None:
    trace = read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz")
    calls = attribute_host(trace)
    work = attribute_device(trace, calls)
    convolution = CATEGORY_NAMES.index("convolution")
    times_ns = {
        "cpu": (calls.self_ns * calls.in_step, calls.category),
        "cuda": (work.spans.duration_ns, work.category),
    }

    rows = rows_of(trace if has_marks else without_marks(trace))

    for device, (time_ns, category) in times_ns.items():
        phases = phases_on(device, rows)
        assert sum(row["self_ms"] for row in phases.values()) == pytest.approx(time_ns.sum() / 1e6)
        assert sum(row["share"] for row in phases.values()) == pytest.approx(1)
        assert sum(row["convolution_ms"] for row in phases.values()) == pytest.approx(
            time_ns[category == convolution].sum() / 1e6
        )
