"""How many floating-point operations a call does, from the shapes of its inputs and the formula of its operation.

The conventions are those of PyTorch's FlopCounterMode (torch.utils.flop_counter): a multiplication and an addition are
two, what is neither product nor convolution is nothing, and a mask of attention spares nothing. A convolution's weight
gradient takes its number of groups into account here, which FlopCounterMode leaves out. Recurrent layers, which it does
not count, are counted by their definition.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Annotated, Any, Final

import msgspec

Shapes = Sequence[Any]
"""The inputs' shapes in order: a list of sizes, a list of such lists for a list of tensors, or an empty list."""

Inputs = Sequence[str]
"""The inputs that are no tensors, as PyTorch prints them, such as `[1, 1]` or `False`; empty text for the tensors."""

Formula = Callable[[Shapes, Inputs], int | None]

_MOST: Final = 10**30
"""More floating-point operations than any call does; shapes that give more are damaged."""


def flop_of_call(name: str, shapes: str, inputs: str) -> int | None:
    """The floating-point operations of a call whose inputs the profiler describes in these texts.

    None where the operation has no formula, or the texts do not tell what it needs.
    """
    formula = FORMULAS.get(name)
    if formula is None:
        return None
    try:
        flop = formula(_SHAPES.decode(shapes), _TEXTS.decode(inputs or "[]"))
    except (msgspec.DecodeError, RecursionError, ValueError, LookupError, TypeError, ZeroDivisionError):
        return None
    return flop if flop is not None and 0 <= flop < _MOST else None


_Size = Annotated[int, msgspec.Meta(ge=0)]
_SHAPES: Final = msgspec.json.Decoder(list[list[_Size | list[_Size]]])
_TEXTS: Final = msgspec.json.Decoder(list[str])


def matrix_product(first: Sequence[int], second: Sequence[int]) -> int:
    """2 m n k for an m x k matrix times a k x n one; times the batch where both have one."""
    *batch, rows, inner = first
    *_, columns = second
    return 2 * prod(batch) * rows * inner * columns


def linear(inputs: Sequence[int], weight: Sequence[int]) -> int:
    """Every row of the inputs times the transposed weight, 2 n k each."""
    return 2 * prod(inputs[:-1]) * prod(weight)


def convolution(inputs: Sequence[int], weight: Sequence[int], outputs: Sequence[int], *, transposed: bool) -> int:
    """Each weight meets every position of the outputs once in each sample; of the inputs, where it is transposed."""
    positions = inputs[2:] if transposed else outputs
    return 2 * inputs[0] * prod(positions) * prod(weight)


def attention(query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> int:
    """The queries times the keys, and the scores times the values; queries may have more heads than keys."""
    return _scores(query, key) * (query[-1] + value[-1])


def attention_backward(query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> int:
    """The scores once more, and the gradients of scores, values, queries and keys: five products."""
    return _scores(query, key) * (3 * query[-1] + 2 * value[-1])


def _scores(query: Sequence[int], key: Sequence[int]) -> int:
    batch, heads, queries, _ = query
    return 2 * batch * heads * queries * key[2]


def recurrent(inputs: Sequence[int], matrices: Sequence[Sequence[int]]) -> int:
    """Each weight matrix, of every layer, direction and gate, meets every time step of every sequence once.

    By the definition of RNN, LSTM and GRU in PyTorch's documentation (torch.nn.LSTM).
    """
    return sum(2 * prod(inputs[:-1]) * prod(matrix) for matrix in matrices)


def output_sizes(inputs: Sequence[int], weight: Sequence[int], settings: Inputs) -> list[int]:
    """The sizes of a convolution's output from stride, padding and dilation, by the formula of torch.nn.Conv2d."""
    stride, padding, dilation = (_numbers(setting, len(inputs) - 2) for setting in settings)
    return [
        (size + 2 * pad - dilate * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, dilate in zip(inputs[2:], weight[2:], stride, padding, dilation, strict=True)
    ]


def _numbers(text: str, count: int) -> list[int]:
    numbers = [int(number) for number in text.strip("[]").split(",")]
    return numbers * count if len(numbers) == 1 else numbers


def _flags(text: str) -> list[bool]:
    return [{"True": True, "False": False}[flag.strip()] for flag in text.strip("[]").split(",")]


def _of_convolution(shapes: Shapes, inputs: Inputs) -> int:
    (transposed,) = _flags(inputs[6])
    outputs = [] if transposed else output_sizes(shapes[0], shapes[1], inputs[3:6])
    return convolution(shapes[0], shapes[1], outputs, transposed=transposed)


def _of_convolution_backward(shapes: Shapes, inputs: Inputs) -> int:
    """The gradient of the inputs and that of the weight take as much as the way forward, where they are asked for."""
    gradient, forward_inputs, weight = shapes[:3]
    (transposed,), (of_inputs, of_weight, _) = _flags(inputs[7]), _flags(inputs[10])
    return convolution(forward_inputs, weight, gradient[2:], transposed=transposed) * (of_inputs + of_weight)


def _of_cudnn_rnn(shapes: Shapes, inputs: Inputs) -> int:
    """A layer has two matrices, then two biases if any, then the projection's matrix if any; some of them flattened."""
    in_layer = int(inputs[2])
    matrices = (0, 1) if in_layer % 2 == 0 else (0, 1, in_layer - 1)
    weights = [weight for position, weight in enumerate(shapes[1]) if position % in_layer in matrices]
    return recurrent(shapes[0], weights)


def _of_cudnn_rnn_backward(shapes: Shapes, inputs: Inputs) -> int:
    """Back through time as much as forward, and as much again for the weights' gradient where it is asked for."""
    *_, of_weights = _flags(inputs[21])
    return _of_cudnn_rnn(shapes, inputs) * (1 + of_weights)


FORMULAS: Final[dict[str, Formula]] = {
    "aten::mm": lambda shapes, _: matrix_product(shapes[0], shapes[1]),
    "aten::addmm": lambda shapes, _: matrix_product(shapes[1], shapes[2]),
    "aten::bmm": lambda shapes, _: matrix_product(shapes[0], shapes[1]),
    "aten::baddbmm": lambda shapes, _: matrix_product(shapes[1], shapes[2]),
    "aten::_scaled_mm": lambda shapes, _: matrix_product(shapes[0], shapes[1]),
    "aten::linear": lambda shapes, _: linear(shapes[0], shapes[1]),
    "aten::convolution": _of_convolution,
    "aten::convolution_backward": _of_convolution_backward,
    "aten::_cudnn_rnn": _of_cudnn_rnn,
    "aten::_cudnn_rnn_backward": _of_cudnn_rnn_backward,
    "aten::mkldnn_rnn_layer": lambda shapes, _: recurrent(shapes[0], shapes[1:3]),
    "aten::mkldnn_rnn_layer_backward": lambda shapes, _: 2 * recurrent(shapes[0], shapes[1:3]),
    **{
        f"aten::_scaled_dot_product_{kind}": lambda shapes, _: attention(*shapes[:3])
        for kind in ("efficient_attention", "flash_attention", "flash_attention_for_cpu", "cudnn_attention")
    },
    **{
        f"aten::_scaled_dot_product_{kind}_backward": lambda shapes, _: attention_backward(*shapes[1:4])
        for kind in ("efficient_attention", "flash_attention", "flash_attention_for_cpu", "cudnn_attention")
    },
}
"""Operations whose arithmetic is known; some hold others, as a linear layer holds a matrix product."""
