"""Which shapes each operation was called with, how long that took, and how near it came to what the
device can do.

calls with recorded shapes -> rows of equal name, shapes and types -> their time, arithmetic and
bytes -> SHAPES

The formulas are those of PyTorch's FlopCounterMode (torch.utils.flop_counter): a multiplication and
an addition are two operations, only products and convolutions count, and a mask of attention saves
nothing. A convolution's weight gradient takes its groups into account, which FlopCounterMode leaves
out.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import nan, prod
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from gpu_report.records.data_sheets import data_sheets
from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.traces.attribution import DeviceWork, HostCalls
from gpu_report.traces.document import kept_name
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
from gpu_report.traces.kernels import on_tensor_cores
from gpu_report.traces.nesting import lies_in_its_like, with_inner
from gpu_report.traces.trace import NONE, Floats, Trace

SHAPES: Final = Table(
    name="operation_shapes",
    meaning=(
        "One row per operation, shapes and types of its inputs, over all profiled steps: those "
        "that launch work themselves (without an accelerator, all) and those with a formula. What "
        "runs inside another of them counts in both. No rows where the profiler recorded no "
        "shapes. Of a record with two profiles the times are those of the rich one, which slows "
        "the host."
    ),
    columns=(
        text("name", "The operation's name as in the trace."),
        text("shapes", "Shapes of its inputs, such as [[16, 3, 128, 128], [64, 3, 3, 3]]."),
        text("types", 'Types of its inputs as in the trace, such as ["float", "float"].'),
        whole("calls", "1", "Calls in the profiled steps."),
        number("host_ms", "ms", "Time in the calls on the host, with all they call."),
        number(
            "device_ms",
            "ms",
            "Sum of the run times of the work that they launched, with all they call; missing "
            "without an accelerator.",
        ),
        number(
            "flop",
            "FLOP",
            "Floating-point operations of the calls by formula; missing for all but matrix "
            "products, convolutions and attention, and where the trace lacks what it reads.",
        ),
        number(
            "bytes",
            "B",
            "Size of their inputs, and of the outputs where flop has a formula. At least that much "
            "is moved, unless an input is expanded. Missing where the trace has no sizes, for "
            "operations that read a part of an input, and on the CPU without a formula.",
        ),
        number(
            "tflop_per_s",
            "TFLOP/s",
            "flop over device_ms, without an accelerator over host_ms. Libraries that do with less "
            "arithmetic than the formula can exceed the peak.",
        ),
        number("tb_per_s", "TB/s", "bytes over the same time."),
        number(
            "flop_share",
            "1",
            "tflop_per_s over the data sheet's peak of dense matrix products in that precision: "
            "tf32 for float unless its kernels are known to use no tensor cores. Missing for a GPU "
            "or precision that is not known.",
        ),
        number(
            "bandwidth_share",
            "1",
            "tb_per_s over the data sheet's bandwidth of the memory. What caches hold can exceed "
            "it.",
        ),
    ),
)
_PRECISIONS: Final = {"float": "fp32", "c10::Half": "fp16", "c10::BFloat16": "bf16"}
_ITEM_BYTES: Final = {
    **dict.fromkeys(("bool", "unsigned char", "signed char"), 1),
    **dict.fromkeys(("c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short", "short int"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long", "long int", "long long", "c10::complex<float>"), 8),
    "c10::complex<double>": 16,
}
"""Of one element, by what the profiler calls its type."""

_READS_A_PART: Final = re.compile(r"aten::_?(embedding|index|gather|scatter|take|select|slice)")
_TERA: Final = 1e12
_MOST: Final = 10**30  # more than any call computes; shapes that give more are damaged


def shape_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of SHAPES, the longest time on the device first, then on the host, then by name,
    shapes and types.
    """
    spans, every = calls.spans, len(trace.texts)
    has_shapes = np.array([bool(text) for text in trace.texts], dtype=np.bool_)
    described = np.flatnonzero(calls.in_step & has_shapes[spans.inputs])
    if not len(described):
        return []
    pairs, pair = grouped(spans.name[described] * every + spans.inputs[described])
    inputs = [
        (trace.names[place // every], *trace.texts[place % every].split("\0"))
        for place in pairs.tolist()
    ]
    numbering: dict[tuple[str, ...], int] = {}
    row_of_pair = np.array([numbering.setdefault(each[:3], len(numbering)) for each in inputs])
    names, shapes, types = zip(*numbering, strict=True)
    row_of_call = np.full(len(spans), NONE)
    row_of_call[described] = row_of_pair[pair]
    outer = described[~lies_in_its_like(calls.parent, row_of_call)[described]]
    row, rows = row_of_call[outer], len(numbering)

    launched = work.call != NONE
    on_cores = fits(trace.names, work.name, lambda name: on_tensor_cores(name) != "no")
    own_ns, own_on_cores_ns = (
        sums(work.call[chosen], work.duration_ns[chosen], len(spans))
        for chosen in (launched, launched & on_cores)
    )
    device_ns, on_cores_ns = (
        sums(row, with_inner(calls.parent, each_ns)[outer], rows)
        for each_ns in (own_ns, own_on_cores_ns)
    )
    launches = sums(row_of_pair[pair], own_ns[described], rows) > 0
    host_ns = sums(row, spans.duration_ns[outer], rows)
    amounts = np.array([amounts_of(*each) for each in inputs], dtype=np.float64)
    flop, size = (
        np.bincount(row_of_pair, each * counts(pair, len(pairs)), rows) for each in amounts.T
    )
    has_device = trace.device is not None
    if not has_device:
        size[np.isnan(flop)] = np.nan
    time_ns = (device_ns if has_device else host_ns).astype(np.float64)
    time_ns[time_ns == 0] = np.nan
    flop_per_s, bytes_per_s = flop / time_ns * 1e9, size / time_ns * 1e9
    peak, bandwidth = _peaks(trace, types, (on_cores_ns > 0).tolist())
    found = rows_of(
        np.flatnonzero(launches | ~np.isnan(flop) & (device_ns > 0)) if has_device else range(rows),
        name=names,
        shapes=[*map(evenly_spaced, shapes)],
        types=[*map(kept_name, types)],
        calls=counts(row_of_pair[pair], rows),
        host_ms=host_ns / NS_PER_MS,
        device_ms=device_ns / NS_PER_MS if has_device else np.full(rows, np.nan),
        flop=flop,
        bytes=size,
        tflop_per_s=flop_per_s / _TERA,
        tb_per_s=bytes_per_s / _TERA,
        flop_share=flop_per_s / peak,
        bandwidth_share=bytes_per_s / bandwidth,
    )
    return sorted(
        found,
        key=lambda row: (
            -(row["device_ms"] or 0),
            -row["host_ms"],
            *(row[name] for name in ("name", "shapes", "types")),
        ),
    )


def _peaks(
    trace: Trace, types: Sequence[str], on_tensor_cores: Sequence[bool]
) -> tuple[Floats, float]:
    """What the data sheet of the trace's device gives: FLOP/s of each row's precision, and B/s."""
    sheet = data_sheets().get(str(trace.first_device.get("name")))
    if sheet is None or trace.device is None:
        return np.full(len(types), nan), nan
    precisions = [
        next(filter(None, map(_PRECISIONS.get, re.findall('"(.*?)"', each))), "") for each in types
    ]
    rates = [
        sheet.rate("matrix product", "tf32" if is_tf32 and precision == "fp32" else precision)
        for precision, is_tf32 in zip(precisions, on_tensor_cores, strict=True)
    ]
    return np.array([rate or nan for rate in rates]), sheet.rate("device copy", "") or nan


_Size = Annotated[int, msgspec.Meta(ge=0)]
_SHAPES: Final = msgspec.json.Decoder(list[list[_Size | list[_Size]]])
_WORDS: Final = msgspec.json.Decoder(list[str])


def amounts_of(name: str, shapes: str, types: str, settings: str = "") -> tuple[float, float]:
    """What one call computes, and the bytes that it reads and writes at least; NaN where that is
    not known.

    By the texts of the trace: the shapes of all inputs, their types, and those that are no tensors,
    which may be empty.
    """
    try:
        sizes: list[Any] = _SHAPES.decode(shapes)
        words = _WORDS.decode(types or "[]")
        each_bytes = [_ITEM_BYTES.get(word, 0) for word in words]
        read = sum(
            prod(size) * item
            for size, item in zip(sizes, each_bytes, strict=False)
            if size and isinstance(size[0], int)
        )
    except (msgspec.DecodeError, RecursionError, TypeError):
        return nan, nan
    flop, written = nan, 0
    if name in FORMULAS:
        with suppress(
            ArithmeticError, IndexError, TypeError, ValueError, msgspec.DecodeError
        ):  # or older than it writes settings
            flop, written = FORMULAS[name](sizes, _WORDS.decode(settings or "[]"))
    if not 0 <= flop < _MOST:
        flop, written = nan, 0
    moved = read + written * max(each_bytes, default=0)
    is_known = 0 < moved < _MOST and not _READS_A_PART.match(name)
    return flop, moved if is_known else nan


Sizes = Sequence[list[int]]


def matrix_product(sizes: Sizes, _: Sequence[str], *, first: int) -> tuple[int, int]:
    """2 m n k for an m x k matrix times a k x n one, in each of the batch; and m n results."""
    *batch, rows, inner = sizes[first]
    *_batch, _inner, columns = sizes[first + 1]
    return 2 * prod(batch) * rows * inner * columns, prod(batch) * rows * columns


def convolution(sizes: Sizes, settings: Sequence[str]) -> tuple[int, int]:
    """Each weight meets every position of the outputs once in each sample; of the inputs, where it
    is transposed, whose outputs are not counted.

    The outputs' sizes follow from stride, padding and dilation by the formula of torch.nn.Conv2d.
    """
    (images, *inputs), (outputs, _, *kernel) = sizes[0][0:1] + sizes[0][2:], sizes[1]
    if settings[6] == "True":
        return 2 * images * prod(inputs) * prod(sizes[1]), 0
    stride, padding, dilation = (_numbers(settings[place], len(kernel)) for place in (3, 4, 5))
    positions = prod(
        (size + 2 * pad - dilate * (width - 1) - 1) // step + 1
        for size, width, step, pad, dilate in zip(
            inputs, kernel, stride, padding, dilation, strict=True
        )
    )
    return 2 * images * positions * prod(sizes[1]), images * outputs * positions


def convolution_backward(sizes: Sizes, settings: Sequence[str]) -> tuple[int, int]:
    """The gradient of the inputs and that of the weight take as much as the way forward, where they
    are asked for.
    """
    gradient, images, weight = sizes[:3]
    positions = images[2:] if settings[7] == "True" else gradient[2:]
    asked = [word.strip() == "True" for word in settings[10].strip("[]").split(",")]
    flop = 2 * images[0] * prod(positions) * prod(weight) * sum(asked[:2])
    return flop, prod(images) * asked[0] + prod(weight) * asked[1]


def attention(sizes: Sizes, _: Sequence[str]) -> tuple[int, int]:
    """The queries times the keys, and the scores times the values; queries may have more heads than
    keys.
    """
    query, key, value = sizes[:3]
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1]), prod(query[:-1]) * value[-1]


def attention_backward(sizes: Sizes, _: Sequence[str]) -> tuple[int, int]:
    """The scores once more, and the gradients of scores, values, queries and keys: five
    products.
    """
    query, key, value = sizes[1:4]
    products = 3 * query[-1] + 2 * value[-1]
    return 2 * prod(query[:-1]) * key[-2] * products, sum(map(prod, (query, key, value)))


def _numbers(setting: str, count: int) -> list[int]:
    """As many numbers as asked for; one alone is for all."""
    numbers = [int(word) for word in setting.strip("[]").split(",")]
    return numbers * count if len(numbers) == 1 else numbers


FORMULAS: Final[dict[str, Callable[[Sizes, Sequence[str]], tuple[int, int]]]] = {
    **dict.fromkeys(("aten::mm", "aten::bmm"), partial(matrix_product, first=0)),
    **dict.fromkeys(("aten::addmm", "aten::baddbmm"), partial(matrix_product, first=1)),
    "aten::convolution": convolution,
    "aten::convolution_backward": convolution_backward,
    **{
        f"aten::_scaled_dot_product_{kind}attention{way}": formula
        for kind in ("flash_", "efficient_", "cudnn_", "fused_")
        for way, formula in (("", attention), ("_backward", attention_backward))
    },
    "aten::_scaled_dot_product_flash_attention_for_cpu": attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
}
"""Operations and elements of the outputs, by operation, from the sizes of the inputs and the inputs
that are no tensors, as PyTorch prints them: `[1, 1]` or `False`.
"""
