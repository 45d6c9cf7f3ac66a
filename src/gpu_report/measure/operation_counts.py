"""How much one training step computes and moves: floating-point operations and bytes, counted
operator by operator.

Operations come from PyTorch's own formulas (torch.utils.flop_counter) and ours for recurrent
layers, bytes from the tensors that each operator reads and writes. What has no formula is named,
since it is missing from the count.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.amp import GradScaler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import FlopCounterMode

from gpu_report.measure.arithmetic import Arithmetic
from gpu_report.measure.batches import example_batch
from gpu_report.measure.training import Training, eager_step
from gpu_report.records.record import Work
from gpu_report.workloads.protocol import Loop

Shape = Sequence[int]

_COPIES: Final = frozenset({"aten::_to_copy", "aten::copy_", "aten::_local_scalar_dense"})
"""Which may cross between host and device."""

_WITHOUT_MEMORY: Final = frozenset(
    {
        "aten::_unsafe_view",
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::lift_fresh",
    }
    | {"aten::new_empty", "aten::new_empty_strided"}
)
"""Allocate or rename and touch no element; views are known by their schema."""

_ONLY_WRITE: Final = frozenset(
    {
        "aten::fill_",
        "aten::full_like",
        "aten::new_full",
        "aten::new_ones",
        "aten::new_zeros",
        "aten::ones_like",
    }
    | {"aten::zero_", "aten::zeros_like", "aten::_foreach_zero_"}
)
"""Take a tensor for its shape or place alone."""

_ONLY_MOVE: Final = frozenset(
    {
        "aten::arange",
        "aten::cat",
        "aten::clone",
        "aten::constant_pad_nd",
        "aten::embedding",
        "aten::full",
    }
    | {
        "aten::gather",
        "aten::index",
        "aten::index_select",
        "aten::ones",
        "aten::repeat",
        "aten::scalar_tensor",
    }
    | {
        "aten::select_backward",
        "aten::slice_backward",
        "aten::split_with_sizes_copy",
        "aten::stack",
        "aten::zeros",
        "aten::_foreach_copy_",
    }
)
"""Compute nothing, so that the count misses nothing in them."""


_NOT_COUNTED: Final = (NotImplementedError, TypeError, torch.OutOfMemoryError)
"""Steps that PyTorch cannot trace, or that do not fit into memory."""


def count_work(training: Training) -> Work | None:
    """Count what a step on a full batch executes: forward pass, loss, backward pass and optimizer.

    The step is the eager one, so that what compiling saves in bytes is not seen. What checkpointing
    computes again is counted again, as it is executed again. Gradients are scaled by 1, so that
    none overflows: a step that the scaler skips lacks the optimizer's bytes. The model is one step
    further afterwards. None where PyTorch cannot look into the step, or the eager step does not fit
    into the device's memory.
    """
    if training.variant.strategy == "dp" or training.pipeline is not None:
        # replicas compute in threads, which the counters do not see; a pipeline's ranks do a stage
        # each
        return None
    if training.custom_loop is not None:
        return _count_custom(training.custom_loop.built, samples=training.variant.batch_size)
    batch = example_batch(training.train_data, training.samples_per_step, training.collate)
    counter = FlopCounterMode(display=False, custom_mapping=_RECURRENT)
    traffic = _Traffic()
    training.model.train()
    try:
        with traffic, counter:
            eager_step(replace(training, arithmetic=_with_scale_of_1(training.arithmetic)), batch)
    except _NOT_COUNTED:
        if training.world.is_launched:
            raise  # the others are in the middle of the same step
        training.optimizer.zero_grad(set_to_none=True)
        return None
    by_operator = {
        str(packet._qualified_op_name): float(flops)
        for packet, flops in counter.get_flop_counts().get("Global", {}).items()
    }
    return Work(
        samples=training.samples_per_step,
        flops=sum(by_operator.values()),
        flops_by_operator=dict(sorted(by_operator.items(), key=lambda item: -item[1])),
        bytes=float(traffic.bytes),
        uncounted_operators={
            name: calls
            for name, calls in traffic.computing.most_common()
            if name not in by_operator
        },
    )


def _with_scale_of_1(arithmetic: Arithmetic) -> Arithmetic:
    scaler = GradScaler(
        arithmetic.device_type, init_scale=1.0, enabled=arithmetic.scaler.is_enabled()
    )
    return replace(arithmetic, scaler=scaler)


def _count_custom(loop: Loop, *, samples: int) -> Work | None:
    """The operations and bytes that the workload declares; without its bytes, those of PyTorch's
    operators.
    """
    moved = loop.bytes_per_step
    if moved is None and loop.eager_step is not None:
        traffic = _Traffic()
        try:
            with traffic:
                loop.eager_step()
        except _NOT_COUNTED:
            return None
        moved = traffic.bytes
    if loop.flops_per_step is None or moved is None:
        return None
    return Work(
        samples=samples,
        flops=loop.flops_per_step,
        flops_by_operator={},
        bytes=float(moved),
        uncounted_operators={},
    )


class _Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sums the bytes of every operator below autograd and autocast, and counts those that
    compute.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0
        self.computing: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        result = func(*args, **given)
        self._note(func, args, given, result)
        return result

    def _note(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        name = str(func._overloadpacket._qualified_op_name)
        read, returned = list(_tensors((args, kwargs))), list(_tensors(result))
        if func.is_view or name in _WITHOUT_MEMORY or not (read or returned):
            return
        if name in _COPIES:
            if (
                name == "aten::_local_scalar_dense"
                or len({tensor.device for tensor in (*read, *returned)}) > 1
            ):
                return
        elif name not in _ONLY_WRITE | _ONLY_MOVE:
            self.computing[name] += 1
        if name == "aten::copy_":
            read = read[1:]
        written = (*_changed(func, args, kwargs), *_fresh(func, result))
        self.bytes += sum(map(_bytes_of, () if name in _ONLY_WRITE else read))
        self.bytes += sum(map(_bytes_of, written))


def _tensors(values: Any) -> Iterator[Tensor]:
    return (value for value in tree_iter(values) if isinstance(value, Tensor))


def _changed(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Tensors that the operator writes in place."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _tensors(args[place] if place < len(args) else kwargs.get(argument.name))


def _fresh(func: OpOverload, result: Any) -> Iterator[Tensor]:
    """Returned tensors that are none of the arguments."""
    returns = func._schema.returns
    for declared, value in zip(returns, result if len(returns) > 1 else (result,), strict=False):
        if declared.alias_info is None:
            yield from _tensors(value)


def _bytes_of(tensor: Tensor) -> int:
    """Of the elements in memory: an expanded tensor has fewer of them than its shape says."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _recurrent_flops(input_shape: Shape, weight_shapes: Sequence[Shape]) -> int:
    """Each matrix of a recurrent layer is multiplied with one vector per sample and time step: 2
    operations per weight.

    `g = W x + U h + b` for all gates g of a cell, Hochreiter and Schmidhuber 1997, as torch.nn.LSTM
    computes it; the gates' elementwise part is left out, as PyTorch's formulas leave it out
    everywhere.
    """
    return (
        2 * prod(input_shape[:-1]) * sum(prod(shape) for shape in weight_shapes if len(shape) == 2)
    )


def _cudnn_flops(
    input_shape: Shape, weight_shapes: Sequence[Shape], *_: Any, **_shapes: Any
) -> int:
    return _recurrent_flops(input_shape, weight_shapes)


def _layer_flops(
    input_shape: Shape, input_weight: Shape, hidden_weight: Shape, *_: Any, **_shapes: Any
) -> int:
    return _recurrent_flops(input_shape, [input_weight, hidden_weight])


def _backward(forward: Callable[..., int]) -> Callable[..., int]:
    """Gradients of the inputs and of the weights take as much as the forward pass each."""

    def flops(*shapes: Any, **_: Any) -> int:
        return 2 * forward(*shapes)

    return flops


_ATEN: Final = torch.ops.aten
_RECURRENT: Final[dict[Any, Callable[..., int]]] = {
    _ATEN._cudnn_rnn: _cudnn_flops,
    _ATEN._cudnn_rnn_backward: _backward(_cudnn_flops),
    _ATEN.mkldnn_rnn_layer: _layer_flops,
    _ATEN.mkldnn_rnn_layer_backward: _backward(_layer_flops),
}
"""By operator: of all layers and directions at once in cuDNN, of one layer in one direction on the
CPU.
"""
