"""Leaving a user's model, optimizer and random numbers as they were.

left_as_found: keep what is there -> take the model to the device -> steps of any kind -> put back
what was kept

What a step may change in place is copied to host memory first, so that copies do not raise the peak
of the device. A tensor of the model on another device is not copied: the model works on what it
becomes there, and gets the tensor itself back.
"""

import copy
import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.optim import Optimizer

from gpu_report.errors import ProfileError
from gpu_report.measure.arithmetic import ATTENTION_SWITCHES
from gpu_report.measure.cuda_graphs import state_tensors
from gpu_report.measure.random_numbers import keep_random_numbers
from gpu_report.user_training.workload import in_one_line

_MOST_LOOKED_AT: Final = 10_000
_HOLD_NO_MODULE: Final = (type, ModuleType, Tensor, str, bytes, int, float, type(None))
_REGISTERED: Final = ("_parameters", "_buffers", "_modules")
_SETTINGS: Final[Sequence[tuple[Callable[[], Any], Callable[[Any], object]]]] = (
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (
        partial(getattr, torch.backends.cudnn, "allow_tf32"),
        partial(setattr, torch.backends.cudnn, "allow_tf32"),
    ),
    (
        partial(getattr, torch.backends.cuda.matmul, "fp32_precision"),
        partial(setattr, torch.backends.cuda.matmul, "fp32_precision"),
    ),
    (torch.get_num_threads, torch.set_num_threads),
    *(switch[::-1] for switch in ATTENTION_SWITCHES.values()),
)
"""What a measurement itself may set, in the order in which it is put back: PyTorch refuses to read
the older switches where they and the newer ones differ, which come after those that set them too.
"""


@contextmanager
def left_as_found(
    modules: Sequence[nn.Module],
    *,
    optimizer: Optimizer | None,
    loader: object,
    device: torch.device,
    beside: Sequence[nn.Module] = (),
) -> Iterator[None]:
    """Inside, the modules are on the device, in training mode and without gradients; afterwards all
    is as it was.

    That is each tensor of the modules and of the optimizer, also of parameters that belong to no
    module, bit by bit and the same object, gradients, modes, every plain attribute of the modules,
    and the random numbers of Python, NumPy and PyTorch and of the loader's generators; also after
    an exception. Lists that a model changes in place are not restored. Modules `beside` them stay
    on their device and in their modes.

    Raises:
        ProfileError: the device failed inside, so that nothing on it can be restored; or a module
            is TorchScript's, which keeps its attributes.
    """
    try:
        with ExitStack() as stack:
            stack.enter_context(keep_random_numbers(device))
            samplers = (getattr(loader, name, None) for name in ("sampler", "batch_sampler"))
            for owner in (loader, *samplers):
                generator = getattr(owner, "generator", None)
                if isinstance(generator, torch.Generator):
                    stack.callback(generator.set_state, generator.get_state())
            stack.enter_context(_modules_as_found(modules, optimizer, device, beside))
            for get, put in reversed(_SETTINGS):
                with suppress(RuntimeError):
                    stack.callback(put, get())
            yield
    except torch.AcceleratorError as error:
        raise ProfileError(
            f"{device}: {in_one_line(error)}; this process cannot use the device any more, and "
            "what was on it is lost: begin a new process, with CUDA_LAUNCH_BLOCKING=1 in its "
            "environment to see which line fails"
        ) from error


def modules_within(function: object) -> list[nn.Module]:
    """The modules that a function can reach: itself, in its closure, its defaults, its object, in
    globals that it names, in what these hold, and through functions of these; PyTorch's own
    functions have none. It looks at no more than _MOST_LOOKED_AT objects.
    """
    found: list[nn.Module] = []
    seen: set[int] = set()
    parts = [function]
    while parts and len(seen) < _MOST_LOOKED_AT:
        part = parts.pop()
        if id(part) in seen or isinstance(part, _HOLD_NO_MODULE):
            continue
        seen.add(id(part))
        if isinstance(part, nn.Module):
            found.append(part)
        if not isinstance(part, FunctionType):
            parts += gc.get_referents(part)
        elif (part.__module__ or "").partition(".")[0] != "torch":
            parts += _used_by(part)
    return found


def _used_by(function: FunctionType) -> Iterator[object]:
    with suppress(ValueError):  # of a variable that has no value yet
        variables = inspect.getclosurevars(function)
        yield from (*variables.nonlocals.values(), *variables.globals.values())
    yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _is_writable(tensor: Tensor) -> bool:
    """Whether a step can change its values and they can be put back: not of a lazy module, without
    values, of inference mode, or with elements that share memory, as of an expanded mask.
    """
    return not (
        isinstance(tensor, UninitializedTensorMixin)
        or tensor.is_meta
        or tensor.is_inference()
        or (tensor.layout == torch.strided and 0 in tensor.stride() and tensor.numel() > 1)
    )


@contextmanager
def _modules_as_found(
    modules: Sequence[nn.Module],
    optimizer: Optimizer | None,
    device: torch.device,
    beside: Sequence[nn.Module],
) -> Iterator[None]:
    moved = nn.ModuleList(modules)
    other = nn.ModuleList(each for each in beside if each not in {*moved.modules()})
    owners = {*moved.modules(), *other.modules(), *([optimizer] if optimizer is not None else [])}
    if any(isinstance(each, torch.jit.ScriptModule) for each in owners):
        raise ProfileError(
            "model, loss: a part is a torch.jit.ScriptModule, whose state cannot be restored; "
            "expected the module that was compiled, or step="
        )
    kept = [(vars(owner), dict(vars(owner))) for owner in owners]
    kept += [
        (each, dict(each))
        for owner in owners
        if isinstance(owner, nn.Module)
        for each in map(vars(owner).__getitem__, _REGISTERED)
    ]
    others = [*other.parameters(), *other.buffers()]
    if optimizer is not None:
        changing: list[dict[Any, Any]] = [
            optimizer.state,
            *optimizer.state.values(),
            *optimizer.param_groups,
        ]
        kept += [(each, dict(each)) for each in changing]
        others += [each for group in optimizer.param_groups for each in group["params"]]
    parameters = {
        each: (each.data, each.grad, each.requires_grad)
        for each in (*moved.parameters(), *others)
        if (isinstance(each, nn.Parameter) or each.requires_grad)
        and not (isinstance(each, UninitializedTensorMixin) or each.is_inference())
    }
    own = {*moved.parameters(), *moved.buffers()}
    tensors = {each for each in own if each.device == device} | ({*others} - own)
    if optimizer is not None:
        tensors |= {*state_tensors(optimizer)}
    values = [(each, each.detach().to("cpu", copy=True)) for each in tensors if _is_writable(each)]
    try:
        for parameter in parameters:
            parameter.grad = None
        if any(each.device != device for each in moved.parameters()):
            moved.to(device)
            if optimizer is not None:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for module in modules:
            if not module.training:
                module.train()
        yield
    finally:
        for mutable, content in kept:
            mutable.clear()
            mutable.update(content)
        with torch.no_grad():
            for parameter, (data, grad, requires_grad) in parameters.items():
                parameter.data, parameter.grad = data, grad
                parameter.requires_grad_(requires_grad)
            for tensor, value in values:
                tensor.copy_(value)
