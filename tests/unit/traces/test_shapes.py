"""Rows by operation and shapes have the time of their calls and their work, and arithmetic that counts once."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.flop_counter import FlopCounterMode

from gpu_report.traces.attribution import attribute_device, attribute_host
from gpu_report.traces.reading import read_trace
from gpu_report.traces.shapes import shape_rows
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import RawEvent, kernel, launch, operation, step, trace_of
from tests.unit.traces.conftest import one_thread

FIXTURES = Path(__file__).parents[2] / "data" / "traces"
SMALL, LARGE = [[2, 3], [3, 5]], [[20, 3], [3, 5]]


def rows_of(trace: Trace) -> list[dict[str, Any]]:
    calls = attribute_host(trace)
    return shape_rows(trace, calls, attribute_device(trace, calls))


def shaped(name: str, start_us: float, duration_us: float, shapes: list[list[int]]) -> RawEvent:
    event = operation(name, start_us, duration_us)
    event["args"]["Input Dims"] = shapes
    return event


def test_calls_with_equal_shapes_are_one_row_with_their_rate_on_the_device(tmp_path: Path) -> None:
    rows = rows_of(
        trace_of(
            tmp_path,
            step(1, 0, 90_000),
            shaped("aten::mm", 0, 1000, SMALL),
            launch(1, 500),
            shaped("aten::mm", 2000, 3000, SMALL),
            launch(2, 2500),
            shaped("aten::mm", 6000, 1000, LARGE),
            kernel("gemm", 20_000, 100, correlation=1),
            kernel("gemm", 21_000, 200, correlation=2),
        )
    )

    # 2 x 2 x 3 x 5 = 60 each; 120 FLOP in 300 us are 0.4 MFLOP/s
    assert rows == [
        {
            "name": "aten::mm",
            "shapes": "[[2, 3], [3, 5]]",
            "calls": 2,
            "host_ms": 4.0,
            "device_ms": 0.3,
            "flop": 120.0,
            "tflop_per_s": pytest.approx(4e-7),
        },
        {
            "name": "aten::mm",
            "shapes": "[[20, 3], [3, 5]]",
            "calls": 1,
            "host_ms": 1.0,
            "device_ms": None,
            "flop": 600.0,
            "tflop_per_s": pytest.approx(6e-7),
        },
    ]


def test_arithmetic_counts_in_the_outermost_operation_that_has_a_formula(tmp_path: Path) -> None:
    rows = rows_of(
        trace_of(
            tmp_path,
            step(1, 0, 9000),
            shaped("aten::linear", 0, 1000, [[2, 3], [5, 3], [5]]),
            shaped("aten::addmm", 100, 800, [[5], [2, 3], [3, 5]]),
            shaped("aten::addmm", 2000, 800, [[5], [2, 3], [3, 5]]),
        )
    )

    assert [(row["name"], row["calls"], row["flop"]) for row in rows] == [
        ("aten::addmm", 2, 60.0),
        ("aten::linear", 1, 60.0),
    ]


def test_an_operation_without_a_formula_has_a_row_where_it_launched_work(tmp_path: Path) -> None:
    rows = rows_of(
        trace_of(
            tmp_path,
            step(1, 0, 90_000),
            shaped("aten::relu", 0, 1000, [[2, 3]]),
            launch(1, 500),
            shaped("aten::relu", 2000, 1000, [[4]]),
            kernel("k", 20_000, 100, correlation=1),
        )
    )

    assert [(row["shapes"], row["device_ms"], row["flop"], row["tflop_per_s"]) for row in rows] == [
        ("[[2, 3]]", 0.1, None, None)
    ]


def test_work_counts_once_in_an_operation_that_calls_its_like(tmp_path: Path) -> None:
    (row,) = rows_of(
        trace_of(
            tmp_path,
            step(1, 0, 90_000),
            shaped("aten::div_", 0, 1000, [[2, 3]]),
            shaped("aten::div_", 100, 800, [[2, 3]]),
            launch(1, 500),
            kernel("k", 20_000, 100, correlation=1),
        )
    )

    assert (row["calls"], row["host_ms"], row["device_ms"]) == (2, 1.0, 0.1)


def test_calls_outside_the_steps_do_not_count(tmp_path: Path) -> None:
    before, inside = shaped("aten::mm", 0, 10, SMALL), shaped("aten::mm", 200, 10, SMALL)

    (row,) = rows_of(trace_of(tmp_path, before, step(1, 100, 1000), inside))

    assert row["calls"] == 1


def test_without_recorded_shapes_there_are_no_rows(tmp_path: Path) -> None:
    assert rows_of(trace_of(tmp_path, step(1, 0, 9000), operation("aten::mm", 0, 100))) == []


class SmallNet(nn.Module):
    """Convolutions of all sorts and products; groups apart, which FlopCounterMode takes for one on the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(8, 8, 3, dilation=2, padding="same")
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(4 * 16 * 16, 8, bias=False)
        self.mix = nn.Linear(8, 8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.head(torch.relu(self.up(self.wide(self.down(images)))).flatten(1))
        heads = self.mix(features).reshape(2, 1, 4, 8)
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        products: torch.Tensor = attended @ heads.mT
        return products.sum()


def test_the_arithmetic_of_a_model_is_what_pytorchs_counter_counts(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with one_thread(), torch.random.fork_rng():
        model, images = SmallNet(), torch.randn(8, 3, 16, 16)
        with FlopCounterMode(display=False) as counter:
            model(images).backward()
        record_two_steps(model, images, path)

    rows = rows_of(read_trace(path))

    assert counter.get_total_flops() > 0
    assert sum(row["flop"] or 0 for row in rows) == 2 * counter.get_total_flops()


def record_two_steps(model: nn.Module, images: torch.Tensor, path: Path) -> None:
    steps = schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, record_shapes=True, acc_events=True) as profiler:
        for _ in range(3):
            model(images).backward()
            profiler.step()
    profiler.export_chrome_trace(str(path))


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_real_layers_stay_below_what_an_h100_can_do(fixture: str) -> None:
    rows = rows_of(read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz"))

    rates = [row["tflop_per_s"] for row in rows if row["tflop_per_s"] is not None and row["device_ms"]]
    # 495 TFLOP/s in TF32 without sparsity (NVIDIA's H100 data sheet)
    assert rates
    assert max(rates) < 495
