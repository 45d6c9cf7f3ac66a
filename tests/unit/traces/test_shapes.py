"""Calls by the shapes of their inputs, and the arithmetic that the shapes give."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import conv1d
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.flop_counter import FlopCounterMode

from gpu_report.traces.quality import quality_rows
from gpu_report.traces.reading import read_trace
from gpu_report.traces.shapes import FORMULAS, MalformedInputsError, flop_of_call, shape_rows
from tests.unit.traces.by_hand import (
    RawEvent,
    kernel,
    launch,
    made_by,
    operation,
    recorded,
    step,
    trace_of,
)
from tests.unit.traces.conftest import one_thread

SMALL, LARGE = [[2, 3], [3, 5]], [[20, 3], [3, 5]]


def shaped(name: str, start_us: float, duration_us: float, shapes: list[list[int]]) -> RawEvent:
    event = operation(name, start_us, duration_us)
    event["args"]["Input Dims"] = shapes
    return event


def test_calls_with_equal_shapes_are_one_row_with_their_rate_on_the_device() -> None:
    rows = made_by(
        shape_rows,
        trace_of(
            step(1, 0, 90_000),
            shaped("aten::mm", 0, 1000, SMALL),
            launch(1, 500),
            shaped("aten::mm", 2000, 3000, SMALL),
            launch(2, 2500),
            shaped("aten::mm", 6000, 1000, LARGE),
            kernel("gemm", 20_000, 100, correlation=1),
            kernel("gemm", 21_000, 200, correlation=2),
        ),
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


def test_arithmetic_counts_in_the_outermost_operation_that_has_a_formula() -> None:
    rows = made_by(
        shape_rows,
        trace_of(
            step(1, 0, 9000),
            shaped("aten::linear", 0, 1000, [[2, 3], [5, 3], [5]]),
            shaped("aten::addmm", 100, 800, [[5], [2, 3], [3, 5]]),
            shaped("aten::addmm", 2000, 800, [[5], [2, 3], [3, 5]]),
        ),
    )

    assert [(row["name"], row["calls"], row["flop"]) for row in rows] == [
        ("aten::addmm", 2, 60.0),
        ("aten::linear", 1, 60.0),
    ]


def test_an_operation_without_a_formula_has_a_row_where_it_launched_work() -> None:
    rows = made_by(
        shape_rows,
        trace_of(
            step(1, 0, 90_000),
            shaped("aten::relu", 0, 1000, [[2, 3]]),
            launch(1, 500),
            shaped("aten::relu", 2000, 1000, [[4]]),
            kernel("k", 20_000, 100, correlation=1),
        ),
    )

    assert [(row["shapes"], row["device_ms"], row["flop"], row["tflop_per_s"]) for row in rows] == [
        ("[[2, 3]]", 0.1, None, None)
    ]


def test_work_counts_once_in_an_operation_that_calls_its_like() -> None:
    (row,) = made_by(
        shape_rows,
        trace_of(
            step(1, 0, 90_000),
            shaped("aten::div_", 0, 1000, [[2, 3]]),
            shaped("aten::div_", 100, 800, [[2, 3]]),
            launch(1, 500),
            kernel("k", 20_000, 100, correlation=1),
        ),
    )

    assert (row["calls"], row["host_ms"], row["device_ms"]) == (2, 1.0, 0.1)


def test_calls_outside_the_steps_do_not_count() -> None:
    before, inside = shaped("aten::mm", 0, 10, SMALL), shaped("aten::mm", 200, 10, SMALL)

    (row,) = made_by(shape_rows, trace_of(before, step(1, 100, 1000), inside))

    assert row["calls"] == 1


def test_without_recorded_shapes_there_are_no_rows() -> None:
    assert made_by(shape_rows, trace_of(step(1, 0, 9000), operation("aten::mm", 0, 100))) == []


class SmallNet(nn.Module):
    """Convolutions of all sorts and products; groups apart, which FlopCounterMode takes for one on
    the way back.
    """

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

    rows = made_by(shape_rows, read_trace(path))

    assert counter.get_total_flops() > 0
    assert sum(row["flop"] or 0 for row in rows) == 2 * counter.get_total_flops()


def record_two_steps(model: nn.Module, images: torch.Tensor, path: Path) -> None:
    steps = schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(
        activities=[ProfilerActivity.CPU], schedule=steps, record_shapes=True, acc_events=True
    ) as profiler:
        for _ in range(3):
            model(images).backward()
            profiler.step()
    profiler.export_chrome_trace(str(path))


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_real_layers_stay_below_what_an_h100_can_do(fixture: str) -> None:
    rows = made_by(shape_rows, recorded(fixture))

    rates = [
        row["tflop_per_s"] for row in rows if row["tflop_per_s"] is not None and row["device_ms"]
    ]
    # 495 TFLOP/s in TF32 without sparsity (NVIDIA's H100 data sheet)
    assert rates
    assert max(rates) < 495


SIZES = st.integers(1, 4)
CONVOLUTION = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
BACKWARD = [
    "",
    "",
    "",
    "[0]",
    "[1, 1]",
    "[1, 1]",
    "[1, 1]",
    "False",
    "[0, 0]",
    "1",
    "[True, True, False]",
]
RNN = ["", "", "4", "", "", "", "2", "256", "0", "2", "True", "0.", "True", "True", "[]", ""]
IMAGES, WEIGHT = [2, 3, 8, 8], [5, 3, 3, 3]


def flop(name: str, shapes: list[object], inputs: list[str] | None = None) -> int:
    return flop_of_call(name, json.dumps(shapes), json.dumps(inputs) if inputs else "")


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("aten::mm", [[2, 3], [3, 5]], 60),
        ("aten::addmm", [[5], [2, 3], [3, 5], [], []], 60),
        ("aten::bmm", [[7, 2, 3], [7, 3, 5]], 420),
        ("aten::baddbmm", [[7, 2, 5], [7, 2, 3], [7, 3, 5], [], []], 420),
        ("aten::linear", [[4, 2, 3], [5, 3], [5]], 240),
        # 2 x batch 2 x heads 3 x queries 5 x keys 7 x (4 for the scores + 6 for the values)
        (
            "aten::_scaled_dot_product_flash_attention",
            [[2, 3, 5, 4], [2, 3, 7, 4], [2, 3, 7, 6]],
            4200,
        ),
        # The same with 4 for the scores, 6 each for theirs and the values' gradients, 4 each for
        # queries and keys
        (
            "aten::_scaled_dot_product_efficient_attention_backward",
            [[2, 3, 5, 6], [2, 3, 5, 4], [2, 3, 7, 4], [2, 3, 7, 6]],
            10080,
        ),
        # One layer of 4 x 6 gates from 5 inputs and 6 states, 2 x 3 time steps and sequences
        ("aten::mkldnn_rnn_layer", [[3, 2, 5], [24, 5], [24, 6], [24], [24]], 3168),
        ("aten::mkldnn_rnn_layer_backward", [[3, 2, 5], [24, 5], [24, 6], [24], [24]], 6336),
    ],
)
def test_products_count_a_multiplication_and_an_addition(
    name: str, shapes: list[object], expected: int
) -> None:
    assert flop(name, shapes) == expected


def test_a_convolution_meets_each_position_of_its_output() -> None:
    # 2 images, 8 x 8 positions, 5 x 3 x 3 x 3 weights; with stride 2 only 4 x 4 positions
    assert flop("aten::convolution", [IMAGES, WEIGHT, []], CONVOLUTION) == 2 * 2 * 64 * 135
    assert (
        flop("aten::convolution", [IMAGES, WEIGHT, []], replaced(CONVOLUTION, 3, "[2, 2]"))
        == 2 * 2 * 16 * 135
    )


def test_a_transposed_convolution_meets_each_position_of_its_input() -> None:
    inputs = replaced(replaced(CONVOLUTION, 6, "True"), 3, "[2, 2]")

    assert flop("aten::convolution", [[2, 5, 8, 8], WEIGHT, []], inputs) == 2 * 2 * 64 * 135


@pytest.mark.parametrize(
    ("asked", "times"), [("[True, True, True]", 2), ("[False, True, False]", 1)]
)
def test_only_gradients_that_are_asked_for_count(asked: str, times: int) -> None:
    shapes: list[object] = [[2, 5, 8, 8], IMAGES, WEIGHT]

    assert (
        flop("aten::convolution_backward", shapes, replaced(BACKWARD, 10, asked))
        == times * 2 * 2 * 64 * 135
    )


def test_a_recurrent_layer_counts_its_matrices_and_not_its_biases() -> None:
    flat = [[20, 1], [24, 1], [8, 1], [8, 1]]

    assert flop("aten::_cudnn_rnn", [[3, 2, 5], [[20, 5], [20, 4], [20], [20]]], RNN) == 2 * 6 * (
        100 + 80
    )
    assert flop("aten::_cudnn_rnn", [[3, 2, 5], flat], RNN) == 2 * 6 * (20 + 24)


def test_a_projection_is_one_more_matrix_of_its_layer() -> None:
    layer = [[20, 5], [20, 3], [20], [20], [3, 4]]

    assert flop("aten::_cudnn_rnn", [[3, 2, 5], layer], replaced(RNN, 2, "5")) == 2 * 6 * (
        100 + 60 + 12
    )


@pytest.mark.parametrize(("of_weights", "times"), [("True", 2), ("False", 1)])
def test_back_through_time_takes_as_much_as_forward_for_states_and_for_weights(
    of_weights: str, times: int
) -> None:
    inputs = [*RNN[:3], *[""] * 18, f"[True, False, False, {of_weights}]"]

    assert flop(
        "aten::_cudnn_rnn_backward", [[3, 2, 5], [[20, 5], [20, 4]]], replaced(inputs, 2, "2")
    ) == (times * 2 * 6 * 180)


def replaced(inputs: list[str], position: int, text: str) -> list[str]:
    return [*inputs[:position], text, *inputs[position + 1 :]]


@pytest.mark.parametrize(
    ("name", "shapes", "inputs"),
    [
        ("aten::convolution", json.dumps([IMAGES, WEIGHT, []]), ""),
        (
            "aten::convolution",
            json.dumps([IMAGES, WEIGHT, []]),
            json.dumps(replaced(CONVOLUTION, 3, "[0, 0]")),
        ),
        (
            "aten::convolution",
            json.dumps([IMAGES, WEIGHT, []]),
            json.dumps(replaced(CONVOLUTION, 3, "[1, 1, 1]")),
        ),
        (
            "aten::convolution",
            json.dumps([IMAGES, WEIGHT, []]),
            json.dumps(replaced(CONVOLUTION, 6, "")),
        ),
        ("aten::convolution", json.dumps([IMAGES, [5, 3, 3], []]), json.dumps(CONVOLUTION)),
        ("aten::_cudnn_rnn", json.dumps([[3, 2, 5], [[20, 5]]]), json.dumps(replaced(RNN, 2, "0"))),
        ("aten::_cudnn_rnn", json.dumps([[3, 2, 5], [20, 5]]), json.dumps(RNN)),
        ("aten::_scaled_dot_product_flash_attention", "[[5, 4], [7, 4], [7, 6]]", ""),
        ("aten::mm", "[[2, 3]]", ""),
        ("aten::mm", "[[[2, 3]], [3, 4]]", ""),
        ("aten::mm", '[["a", 3], [3, 4]]', ""),
        ("aten::mm", "[[-2, -3], [3, 4]]", ""),
        ("aten::mm", f"[[{10**30}, {10**30}], [{10**30}, 4]]", ""),
        ("aten::mm", "[" * 100_000, ""),
        ("aten::mm", "{}", "[]"),
        ("aten::mm", "", ""),
    ],
)
def test_malformed_inputs_have_no_arithmetic(name: str, shapes: str, inputs: str) -> None:
    with pytest.raises(MalformedInputsError):
        flop_of_call(name, shapes, inputs)


def test_calls_with_malformed_inputs_fail_a_check_and_have_no_arithmetic() -> None:
    trace = trace_of(
        step(1, 0, 9000), shaped("aten::mm", 0, 10, SMALL), shaped("aten::mm", 50, 10, [[2]])
    )

    assert [row["shapes"] for row in made_by(shape_rows, trace)] == ["[[2, 3], [3, 5]]"]
    assert [
        (row["check"], row["value"]) for row in made_by(quality_rows, trace) if not row["passed"]
    ] == [("inputs of the operations", 0.5)]


def test_a_fault_of_a_formula_is_not_taken_for_a_malformed_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FORMULAS, "aten::mm", lambda inputs: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        made_by(shape_rows, trace_of(step(1, 0, 9000), shaped("aten::mm", 0, 10, SMALL)))


@given(
    batch=SIZES,
    channels=SIZES,
    size=st.integers(3, 12),
    kernel=st.integers(1, 3),
    stride=SIZES,
    padding=st.integers(0, 2),
    dilation=st.integers(1, 1),
)
def test_the_output_of_a_convolution_has_the_size_that_pytorch_gives_it(
    batch: int, channels: int, size: int, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    inputs = ["", "", "", f"[{stride}]", f"[{padding}]", f"[{dilation}]", "False", "[0]", "1"]
    images, weight = (
        torch.empty(batch, channels, size, device="meta"),
        torch.empty(2, channels, kernel, device="meta"),
    )

    with FlopCounterMode(display=False) as counter:
        conv1d(images, weight, stride=stride, padding=padding, dilation=dilation)

    assert (
        flop("aten::convolution", [list(images.shape), list(weight.shape), []], inputs)
        == counter.get_total_flops()
    )


def test_every_operation_with_a_formula_is_one_of_pytorchs() -> None:
    for name in FORMULAS:
        assert hasattr(torch.ops.aten, name.removeprefix("aten::")), name
