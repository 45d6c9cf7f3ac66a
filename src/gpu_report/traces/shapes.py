"""Which shapes an operation was called with, how long these calls took, and how much arithmetic
they did a second.

HostCalls -> rows of equal name and shapes -> their calls, time and arithmetic -> SHAPES

The conventions of the formulas are those of PyTorch's FlopCounterMode (torch.utils.flop_counter): a
multiplication and an addition are two, only products and convolutions count, and a mask of
attention saves nothing. A convolution's weight gradient takes its number of groups into account
here, which FlopCounterMode leaves out. Recurrent layers, which it does not count, are counted by
their definition.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.traces.attribution import DeviceWork, HostCalls
from gpu_report.traces.grouping import (
    NS_PER_MS,
    Row,
    counts,
    evenly_spaced,
    fits,
    grouped,
    rows_of,
    sums,
)
from gpu_report.traces.operations import counted_around, lies_in_its_like
from gpu_report.traces.trace import NONE, Flags, Floats, Integers, Trace

SHAPES: Final = Table(
    name="shapes",
    meaning=(
        "One row per operation and shapes of its inputs, that launched work or whose arithmetic "
        "is known; no rows where the profiler recorded no shapes. Of a record with two profiles "
        "the times are those of the rich one, which slows the host."
    ),
    columns=(
        text("name", "The operation's name as in the trace."),
        text(
            "shapes",
            "Shapes of its inputs as in the trace, such as [[16, 3, 128, 128], [64, 3, 3, 3]].",
        ),
        whole("calls", "1", "Calls in the profiled steps."),
        number("host_ms", "ms", "Time in the calls on the host, with all they call."),
        number(
            "device_ms",
            "ms",
            "Run time of the work that they launched, with all they call; missing without any.",
        ),
        number(
            "flop",
            "FLOP",
            "Floating-point operations of the calls by formula, those apart that lie in a call "
            "with a formula; missing where there is no formula.",
        ),
        number(
            "tflop_per_s",
            "TFLOP/s",
            "flop over the time on the device, or on the host where none ran on one. Libraries "
            "that do with less arithmetic than the formula, by Winograd's or Fourier's transform, "
            "can exceed the device's peak.",
        ),
    ),
)
Sizes = list[int]
_Described = TypeVar("_Described", str, list[int | Sizes])
_GFLOP_PER_TFLOP: Final = 1e3
_MOST: Final = 10**30
"""More floating-point operations than any call does; shapes that give more are damaged."""


def shape_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of SHAPES: the longest time on the device first, then on the host, then by name and
    shapes.

    Where one operation with a formula is inside another, as a matrix product in a linear layer,
    only the outer counts its arithmetic, so that nothing counts twice. A row has no arithmetic
    where that of one of its calls is not known.
    """
    spans = calls.spans
    is_described = _is_described(trace, calls)
    if not is_described.any():
        return []
    keys, row = grouped((spans.name * len(trace.texts) + spans.shapes)[is_described])
    row_of_call = np.full(len(spans), NONE)
    row_of_call[is_described] = row
    names = [trace.names[position] for position in (keys // len(trace.texts)).tolist()]
    shapes = [trace.texts[position] for position in (keys % len(trace.texts)).tolist()]

    is_outer = ~lies_in_its_like(calls, row_of_call)[is_described]
    host_ns = sums(row, spans.duration_ns[is_described] * is_outer, len(keys))
    launching, group = grouped(work.call[work.call != NONE])
    launched_ns = sums(group, work.spans.duration_ns[work.call != NONE], len(launching))
    around = counted_around(calls, launching, row_of_call[launching], row_of_call)
    device_ns = sums(around.key, launched_ns[around.piece], len(keys))
    ran_on_device = sums(around.key, counts(group, len(launching))[around.piece], len(keys)) > 0

    flop_of_call = _flop_of_calls(trace, calls, is_described)
    has_flop = flop_of_call >= 0
    counted = np.flatnonzero(has_flop & ~lies_in_its_like(calls, has_flop))
    flop = _flop_of_rows(row_of_call, flop_of_call, counted, len(keys))
    device_ns_of_call = sums(around.caller, launched_ns[around.piece], len(spans))
    on_device, on_host = (
        sums(row_of_call[counted], of_call[counted], len(keys))
        for of_call in (device_ns_of_call, spans.duration_ns)
    )
    counted_ns = np.where(ran_on_device, on_device, on_host).astype(np.float64)
    counted_ns[counted_ns == 0] = np.nan

    kept = np.flatnonzero(ran_on_device | ~np.isnan(flop)).tolist()
    kept.sort(key=lambda row: (-device_ns[row], -host_ns[row], names[row], shapes[row]))
    return rows_of(
        kept,
        name=names,
        shapes=list(map(evenly_spaced, shapes)),
        calls=counts(row, len(keys)),
        host_ms=host_ns / NS_PER_MS,
        device_ms=np.where(ran_on_device, device_ns / NS_PER_MS, np.nan),
        flop=flop,
        tflop_per_s=flop / counted_ns / _GFLOP_PER_TFLOP,
    )


def _is_described(trace: Trace, calls: HostCalls) -> Flags:
    """Whether a call is in a step and its inputs' shapes are recorded."""
    has_shapes = np.array([bool(text) for text in trace.texts], dtype=np.bool_)
    return (
        calls.in_step & has_shapes[calls.spans.shapes]
        if len(has_shapes)
        else np.zeros_like(calls.in_step)
    )


def count_malformed(trace: Trace, calls: HostCalls) -> tuple[int, int]:
    """Of how many calls with a formula the trace describes the inputs otherwise than PyTorch does,
    and of how many.
    """
    flop = _flop_of_calls(trace, calls, _is_described(trace, calls))
    return int((flop == NONE).sum()), int((~np.isnan(flop)).sum())


def _flop_of_calls(trace: Trace, calls: HostCalls, is_described: Flags) -> Floats:
    """By formula, once for all calls with the same inputs; NaN without one, NONE where the inputs
    are malformed.
    """
    spans = calls.spans
    found = np.flatnonzero(fits(trace.names, spans.name, FORMULAS.__contains__) & is_described)
    columns = np.stack([spans.name[found], spans.shapes[found], spans.inputs[found]])
    distinct, which = np.unique(columns, axis=1, return_inverse=True)
    values = []
    for name, shapes, settings in distinct.T.tolist():
        try:
            values.append(
                flop_of_call(trace.names[name], trace.texts[shapes], trace.texts[settings])
            )
        except MalformedInputsError:
            values.append(NONE)
    flop = np.full(len(spans), np.nan)
    flop[found] = np.array(values, dtype=np.float64)[which.reshape(-1)]
    return flop


def _flop_of_rows(row_of_call: Integers, flop: Floats, counted: Integers, rows: int) -> Floats:
    row = row_of_call[counted]
    found = np.bincount(row, weights=flop[counted], minlength=rows)
    is_known = counts(row, rows) > 0
    is_known[row_of_call[flop == NONE]] = False
    return np.where(is_known, found, np.nan)


def flop_of_call(name: str, shapes: str, settings: str) -> int:
    """The floating-point operations of a call of one of FORMULAS whose inputs the profiler
    describes in these texts.

    Raises:
        MalformedInputsError: the texts do not describe what the operation takes.
    """
    flop = FORMULAS[name](Inputs.decoded(shapes, settings))
    if not 0 <= flop < _MOST:
        raise MalformedInputsError
    return flop


class MalformedInputsError(Exception):
    """A trace describes the inputs of a call otherwise than PyTorch does, so that its arithmetic is
    not known.
    """


_Size = Annotated[int, msgspec.Meta(ge=0)]
_SHAPES: Final = msgspec.json.Decoder(list[list[_Size | list[_Size]]])
_SETTINGS: Final = msgspec.json.Decoder(list[str])
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class Inputs(NamedTuple):
    """The inputs of one call, checked as they are asked for: every method raises
    MalformedInputsError.

    `shapes` has for each input a list of sizes, a list of such lists for a list of tensors, or an
    empty list. `settings` has the inputs that are no tensors, as PyTorch prints them, such as `[1,
    1]` or `False`.
    """

    shapes: list[list[int | Sizes]]
    settings: list[str]

    @classmethod
    def decoded(cls, shapes: str, settings: str) -> "Inputs":
        """The inputs from the texts of the trace; older profilers write no settings."""
        try:
            return cls(_SHAPES.decode(shapes), _SETTINGS.decode(settings or "[]"))
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedInputsError from error

    def sizes(self, position: int, *, least: int, most: int | None = None) -> Sizes:
        """The sizes of the tensor at that position: at least `least`, at most `most`."""
        sizes = [size for size in _at(self.shapes, position) if isinstance(size, int)]
        if (
            len(sizes) != len(self.shapes[position])
            or len(sizes) < least
            or len(sizes) > (most or len(sizes))
        ):
            raise MalformedInputsError
        return sizes

    def sizes_of_list(self, position: int) -> list[Sizes]:
        """The sizes of each tensor of the list at that position."""
        tensors = [sizes for sizes in _at(self.shapes, position) if isinstance(sizes, list)]
        if len(tensors) != len(self.shapes[position]):
            raise MalformedInputsError
        return tensors

    def numbers(self, position: int, count: int, *, least: int = 0) -> list[int]:
        """`count` numbers, each at least `least`; one alone is for all."""
        words = [word.strip() for word in _at(self.settings, position).strip("[]").split(",")]
        numbers = [int(word) for word in words if _NUMBER.fullmatch(word)]
        if len(numbers) != len(words) or len(words) not in (1, count) or min(numbers) < least:
            raise MalformedInputsError
        return numbers * (count // len(numbers))

    def flags(self, position: int, count: int) -> list[bool]:
        """`count` flags."""
        words = [word.strip() for word in _at(self.settings, position).strip("[]").split(",")]
        if len(words) != count or not set(words) <= {"True", "False"}:
            raise MalformedInputsError
        return [word == "True" for word in words]


def _at(described: Sequence[_Described], position: int) -> _Described:
    if position >= len(described):
        raise MalformedInputsError
    return described[position]


def matrix_product(inputs: Inputs, first: int, second: int) -> int:
    """2 m n k for an m x k matrix times a k x n one; times the batch where both have one."""
    *batch, rows, inner = inputs.sizes(first, least=2)
    *_, columns = inputs.sizes(second, least=2)
    return 2 * prod(batch) * rows * inner * columns


def linear(inputs: Inputs) -> int:
    """Every row of the inputs times the transposed weight, 2 n k each."""
    return 2 * prod(inputs.sizes(0, least=1)[:-1]) * prod(inputs.sizes(1, least=1))


def convolution(inputs: Inputs) -> int:
    """Each weight meets every position of the outputs once in each sample; of the inputs, where it
    is transposed.

    The outputs' sizes follow from stride, padding and dilation by the formula of torch.nn.Conv2d.
    """
    images = inputs.sizes(0, least=3)
    weight, sides = inputs.sizes(1, least=len(images), most=len(images)), len(images) - 2
    if inputs.flags(6, 1) == [True]:
        return 2 * images[0] * prod(images[2:]) * prod(weight)
    stride, padding, dilation = (
        inputs.numbers(position, sides, least=least) for position, least in ((3, 1), (4, 0), (5, 1))
    )
    positions = [
        (size + 2 * pad - dilate * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, dilate in zip(
            images[2:], weight[2:], stride, padding, dilation, strict=True
        )
    ]
    return 2 * images[0] * prod(positions) * prod(weight)


def convolution_backward(inputs: Inputs) -> int:
    """The gradient of the inputs and that of the weight take as much as the way forward, where they
    are asked for.
    """
    gradient, images, weight = (inputs.sizes(position, least=3) for position in range(3))
    positions = images[2:] if inputs.flags(7, 1) == [True] else gradient[2:]
    of_inputs, of_weight, _ = inputs.flags(10, 3)
    return 2 * images[0] * prod(positions) * prod(weight) * (of_inputs + of_weight)


def attention(inputs: Inputs) -> int:
    """The queries times the keys, and the scores times the values; queries may have more heads than
    keys.
    """
    query, key, value = (inputs.sizes(position, least=4, most=4) for position in range(3))
    return 2 * prod(query[:3]) * key[2] * (query[-1] + value[-1])


def attention_backward(inputs: Inputs) -> int:
    """The scores once more, and the gradients of scores, values, queries and keys: five
    products.
    """
    query, key, value = (inputs.sizes(position, least=4, most=4) for position in range(1, 4))
    return 2 * prod(query[:3]) * key[2] * (3 * query[-1] + 2 * value[-1])


def recurrent(inputs: Inputs, matrices: Sequence[Sizes]) -> int:
    """Each weight matrix, of every layer, direction and gate, meets every time step of every
    sequence once.

    By the definition of RNN, LSTM and GRU in PyTorch's documentation (torch.nn.LSTM).
    """
    return sum(2 * prod(inputs.sizes(0, least=1)[:-1]) * prod(matrix) for matrix in matrices)


def mkldnn_rnn(inputs: Inputs) -> int:
    """One layer with two matrices."""
    return recurrent(inputs, [inputs.sizes(position, least=1) for position in (1, 2)])


def cudnn_rnn(inputs: Inputs) -> int:
    """A layer has two matrices, then two biases if any, then the projection's matrix if any; some
    of them flattened.
    """
    (in_layer,) = inputs.numbers(2, 1, least=1)
    matrices = (0, 1) if in_layer % 2 == 0 else (0, 1, in_layer - 1)
    weights = enumerate(inputs.sizes_of_list(1))
    return recurrent(
        inputs, [weight for position, weight in weights if position % in_layer in matrices]
    )


def cudnn_rnn_backward(inputs: Inputs) -> int:
    """Back through time as much as forward, and as much again for the weights' gradient where it is
    asked for.
    """
    *_, of_weights = inputs.flags(21, 4)
    return cudnn_rnn(inputs) * (1 + of_weights)


_FUSED_ATTENTION: Final = (
    "efficient_attention",
    "flash_attention",
    "flash_attention_for_cpu",
    "cudnn_attention",
)
FORMULAS: Final[dict[str, Callable[[Inputs], int]]] = {
    "aten::mm": partial(matrix_product, first=0, second=1),
    "aten::addmm": partial(matrix_product, first=1, second=2),
    "aten::bmm": partial(matrix_product, first=0, second=1),
    "aten::baddbmm": partial(matrix_product, first=1, second=2),
    "aten::_scaled_mm": partial(matrix_product, first=0, second=1),
    "aten::linear": linear,
    "aten::convolution": convolution,
    "aten::convolution_backward": convolution_backward,
    "aten::_cudnn_rnn": cudnn_rnn,
    "aten::_cudnn_rnn_backward": cudnn_rnn_backward,
    "aten::mkldnn_rnn_layer": mkldnn_rnn,
    "aten::mkldnn_rnn_layer_backward": lambda inputs: 2 * mkldnn_rnn(inputs),
    **{f"aten::_scaled_dot_product_{kind}": attention for kind in _FUSED_ATTENTION},
    **{
        f"aten::_scaled_dot_product_{kind}_backward": attention_backward
        for kind in _FUSED_ATTENTION
    },
}
"""Operations whose arithmetic is known; some hold others, as a linear layer holds a matrix
product.
"""
