"""Arithmetic by formula: by hand, by PyTorch's own counter, and missing where the trace does not tell enough."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import conv1d
from torch.utils.flop_counter import FlopCounterMode

from gpu_report.traces.shapes import FORMULAS, flop_of_call

SIZES = st.integers(1, 4)
CONVOLUTION = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
BACKWARD = ["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]
RNN = ["", "", "4", "", "", "", "2", "256", "0", "2", "True", "0.", "True", "True", "[]", ""]
IMAGES, WEIGHT = [2, 3, 8, 8], [5, 3, 3, 3]


def flop(name: str, shapes: list[object], inputs: list[str] | None = None) -> int | None:
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
        ("aten::_scaled_dot_product_flash_attention", [[2, 3, 5, 4], [2, 3, 7, 4], [2, 3, 7, 6]], 4200),
        # The same with 4 for the scores, 6 each for theirs and the values' gradients, 4 each for queries and keys
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
def test_products_count_a_multiplication_and_an_addition(name: str, shapes: list[object], expected: int) -> None:
    assert flop(name, shapes) == expected


def test_a_convolution_meets_each_position_of_its_output() -> None:
    # 2 images, 8 x 8 positions, 5 x 3 x 3 x 3 weights; with stride 2 only 4 x 4 positions
    assert flop("aten::convolution", [IMAGES, WEIGHT, []], CONVOLUTION) == 2 * 2 * 64 * 135
    assert flop("aten::convolution", [IMAGES, WEIGHT, []], replaced(CONVOLUTION, 3, "[2, 2]")) == 2 * 2 * 16 * 135


def test_a_transposed_convolution_meets_each_position_of_its_input() -> None:
    inputs = replaced(replaced(CONVOLUTION, 6, "True"), 3, "[2, 2]")

    assert flop("aten::convolution", [[2, 5, 8, 8], WEIGHT, []], inputs) == 2 * 2 * 64 * 135


@pytest.mark.parametrize(("asked", "times"), [("[True, True, True]", 2), ("[False, True, False]", 1)])
def test_only_gradients_that_are_asked_for_count(asked: str, times: int) -> None:
    shapes: list[object] = [[2, 5, 8, 8], IMAGES, WEIGHT]

    assert flop("aten::convolution_backward", shapes, replaced(BACKWARD, 10, asked)) == times * 2 * 2 * 64 * 135


def test_a_recurrent_layer_counts_its_matrices_and_not_its_biases() -> None:
    flat = [[20, 1], [24, 1], [8, 1], [8, 1]]

    assert flop("aten::_cudnn_rnn", [[3, 2, 5], [[20, 5], [20, 4], [20], [20]]], RNN) == 2 * 6 * (100 + 80)
    assert flop("aten::_cudnn_rnn", [[3, 2, 5], flat], RNN) == 2 * 6 * (20 + 24)


def test_a_projection_is_one_more_matrix_of_its_layer() -> None:
    layer = [[20, 5], [20, 3], [20], [20], [3, 4]]

    assert flop("aten::_cudnn_rnn", [[3, 2, 5], layer], replaced(RNN, 2, "5")) == 2 * 6 * (100 + 60 + 12)


@pytest.mark.parametrize(("of_weights", "times"), [("True", 2), ("False", 1)])
def test_back_through_time_takes_as_much_as_forward_for_states_and_for_weights(of_weights: str, times: int) -> None:
    inputs = [*RNN[:3], *[""] * 18, f"[True, False, False, {of_weights}]"]

    assert flop("aten::_cudnn_rnn_backward", [[3, 2, 5], [[20, 5], [20, 4]]], replaced(inputs, 2, "2")) == (
        times * 2 * 6 * 180
    )


def replaced(inputs: list[str], position: int, text: str) -> list[str]:
    return [*inputs[:position], text, *inputs[position + 1 :]]


@pytest.mark.parametrize(
    ("name", "shapes", "inputs"),
    [
        ("aten::relu", "[[2, 3]]", ""),
        ("aten::convolution", json.dumps([IMAGES, WEIGHT, []]), ""),
        ("aten::convolution", json.dumps([IMAGES, WEIGHT, []]), json.dumps(replaced(CONVOLUTION, 3, "[0, 0]"))),
        ("aten::convolution", json.dumps([IMAGES, WEIGHT, []]), json.dumps(replaced(CONVOLUTION, 6, ""))),
        ("aten::mm", "[[2, 3]]", ""),
        ("aten::mm", '[["a", 3], [3, 4]]', ""),
        ("aten::mm", "[[-2, -3], [3, 4]]", ""),
        ("aten::mm", f"[[{10**30}, {10**30}], [{10**30}, 4]]", ""),
        ("aten::mm", "[" * 100_000, ""),
        ("aten::mm", "{}", "[]"),
        ("aten::mm", "", ""),
    ],
)
def test_what_the_trace_does_not_tell_is_not_guessed(name: str, shapes: str, inputs: str) -> None:
    assert flop_of_call(name, shapes, inputs) is None


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
    images, weight = torch.empty(batch, channels, size, device="meta"), torch.empty(2, channels, kernel, device="meta")

    with FlopCounterMode(display=False) as counter:
        conv1d(images, weight, stride=stride, padding=padding, dilation=dilation)

    assert flop("aten::convolution", [list(images.shape), list(weight.shape), []], inputs) == counter.get_total_flops()


def test_every_operation_with_a_formula_is_one_of_pytorchs() -> None:
    for name in FORMULAS:
        assert hasattr(torch.ops.aten, name.removeprefix("aten::")), name
