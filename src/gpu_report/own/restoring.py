"""Leaving a user's model, optimizer and process as they were: weights, modes, random numbers,
settings, memory peak.

left_as_found: keep what is there -> take the model to the device -> steps of any kind -> put back
what was kept

What a step may change in place is copied to host memory first, so that copies do not raise the peak
of the device. A tensor on another device is not copied: the model works on what it becomes there,
and gets the tensor itself back.
"""

import copy
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

import torch
from torch import nn
from torch.optim import Optimizer

from gpu_report.errors import ProfileError
from gpu_report.measure.cuda_graphs import state_tensors
from gpu_report.measure.random_numbers import keep_random_numbers
from gpu_report.own.step import in_one_line

_REGISTERED: Final = ("_parameters", "_buffers", "_modules")
_MIB: Final = 2**20
_SMALL_BYTES: Final = _MIB
"""Up to here PyTorch's allocator gives exactly what is asked for, in units of 512 bytes: kSmallSize
of its source.
"""
_INEXACT_BYTES: Final = 32 * _MIB


_Switch = tuple[Callable[[], Any], Callable[[Any], object]]


def _attributes(owner: Any, *names: str) -> Iterator[_Switch]:
    return ((partial(getattr, owner, name), partial(setattr, owner, name)) for name in names)


def _reduction(dtype: str) -> _Switch:
    """Whether a matrix product may add up in the dtype, and whether in several parts: two, which
    are set together.
    """
    name, matmul = f"allow_{dtype}_reduced_precision_reduction", torch.backends.cuda.matmul
    return lambda: (getattr(matmul, name), getattr(matmul, f"{name}_split_k", True)), partial(
        setattr, matmul, name
    )


_FLAGS: Final[Sequence[_Switch]] = (
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    *_attributes(torch.backends.cudnn, "allow_tf32"),
    # After those above, which set these too.
    *_attributes(torch.backends.cuda.matmul, "fp32_precision", "allow_fp16_accumulation"),
    *(
        switch
        for owner, names in (
            (torch.backends.cudnn, ("conv", "rnn")),
            (torch.backends.mkldnn, ("matmul", "conv", "rnn")),
        )
        for name in names
        for switch in _attributes(getattr(owner, name), "fp32_precision")
    ),
    *_attributes(torch.backends.cudnn, "enabled", "benchmark", "benchmark_limit", "deterministic"),
    *_attributes(torch.backends.mkldnn, "enabled", "deterministic"),
    *map(_reduction, ("fp16", "bf16")),
    *(
        (
            getattr(torch.backends.cuda, f"{name}_sdp_enabled"),
            getattr(torch.backends.cuda, f"enable_{name}_sdp"),
        )
        for name in ("flash", "mem_efficient", "math", "cudnn")
    ),
    (
        torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed,
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp,
    ),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda enabled_and_checks: torch.set_anomaly_enabled(*enabled_and_checks),
    ),
    (torch.get_num_threads, torch.set_num_threads),
)
"""What decides how operations compute; PyTorch refuses to read some of it where its older and newer
switches differ.
"""


def ambient_state(device: torch.device) -> Mapping[str, object]:
    """What decides how any later code computes, by the name in an error: a step that changes it
    harms its caller.
    """
    types = dict.fromkeys(("cpu", device.type))
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "the gradient mode": torch.is_grad_enabled(),
        **{f"autocast on {each}": torch.is_autocast_enabled(each) for each in types},
    }


@contextmanager
def settings_as_found(device: torch.device) -> Iterator[None]:
    """Afterwards PyTorch's settings of this process are those before.

    Raises:
        ProfileError: what `ambient_state` has was changed by what is inside, which raised nothing
            itself.
    """
    flags = []
    for get, put in _FLAGS:
        with suppress(RuntimeError):
            flags.append((put, get()))
    before, dtype, has_gradients = (
        ambient_state(device),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
    )
    own_device = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    autocasts = {
        each: (torch.is_autocast_enabled(each), torch.get_autocast_dtype(each))
        for each in ("cpu", device.type)
    }
    nesting = _autocast_nesting()
    try:
        yield
        require_same_state(before, device)
    finally:
        for put, value in flags:
            put(value)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(has_gradients)
        if torch.get_default_device() != before["the default device"]:
            torch.set_default_device(own_device and own_device.device)
        for each, (is_on, cast_to) in autocasts.items():
            torch.set_autocast_enabled(each, is_on)
            torch.set_autocast_dtype(each, cast_to)
        while _autocast_nesting() > nesting:
            torch.autocast_decrement_nesting()
        if not nesting:
            torch.clear_autocast_cache()


def _autocast_nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def require_same_state(before: Mapping[str, object], device: torch.device) -> None:
    """Compare the ambient state with that before.

    Raises:
        ProfileError: it is another one.
    """
    for name, now in ambient_state(device).items():
        if now != before[name]:
            raise ProfileError(
                f"step: it changed {name} from {before[name]} to {now}, which is restored; "
                "expected a step that leaves it alone: change it before, or within a with block"
            )


@contextmanager
def left_as_found(
    modules: Sequence[nn.Module],
    *,
    optimizer: Optimizer | None,
    loader: object,
    device: torch.device,
) -> Iterator[None]:
    """Inside, the modules are on the device, in training mode and without gradients; afterwards all
    is as it was.

    That is each tensor of the modules and of the optimizer, bit by bit and the same object,
    gradients, modes, every plain attribute of the modules, the random numbers of Python, NumPy and
    PyTorch and of the loader's generators, PyTorch's settings, and on CUDA `max_memory_allocated`;
    also after an exception. Lists that a model changes in place are not restored.

    Raises:
        ProfileError: what is inside changed how later code computes, see `settings_as_found`, or
            made the device fail, so that nothing on it can be restored.
    """
    try:
        with ExitStack() as stack:
            if device.type == "cuda":
                stack.enter_context(memory_peak_as_found(device))
            stack.enter_context(_random_numbers(loader, device))
            stack.enter_context(modules_as_found(nn.ModuleList(modules), optimizer, device))
            stack.enter_context(settings_as_found(device))
            yield
    except torch.AcceleratorError as error:
        raise ProfileError(
            f"{device}: {in_one_line(error)}; this process cannot use the device any more, and "
            "what was on it is lost: begin a new process, with CUDA_LAUNCH_BLOCKING=1 in its "
            "environment to see which line fails"
        ) from error


@contextmanager
def modules_as_found(
    model: nn.ModuleList, optimizer: Optimizer | None, device: torch.device
) -> Iterator[None]:
    """The part of `left_as_found` that is about tensors, modes and attributes.

    Raises:
        ProfileError: TorchScript keeps a part's attributes.
    """
    owners = [owner for owner in (*model.modules(), optimizer) if owner is not None]
    if any(isinstance(each, torch.jit.ScriptModule) for each in owners):
        raise ProfileError(
            "model, loss: a part is a torch.jit.ScriptModule, whose state cannot be restored; "
            "expected the module that was compiled, or step="
        )
    kept = [(vars(owner), dict(vars(owner))) for owner in owners]
    kept += [
        (each, dict(each))
        for module in model.modules()
        for each in map(vars(module).__getitem__, _REGISTERED)
    ]
    if optimizer is not None:
        changing: list[dict[Any, Any]] = [
            optimizer.state,
            *optimizer.state.values(),
            *optimizer.param_groups,
        ]
        kept += [(each, dict(each)) for each in changing]
    parameters = [(each, each.data, each.grad, each.requires_grad) for each in model.parameters()]
    tensors = [each for each in (*model.parameters(), *model.buffers()) if each.device == device]
    if optimizer is not None:
        tensors += state_tensors(optimizer)
    values = [(each, each.detach().to("cpu", copy=True)) for each in tensors]
    try:
        for parameter, *_ in parameters:
            parameter.grad = None
        if any(each.device != device for each in model.parameters()):
            model.to(device)
            if optimizer is not None:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for module in model:
            if not module.training:
                module.train()
        yield
    finally:
        for mutable, content in kept:
            mutable.clear()
            mutable.update(content)
        with torch.no_grad():
            for parameter, data, grad, requires_grad in parameters:
                parameter.data, parameter.grad = data, grad
                parameter.requires_grad_(requires_grad)
            for tensor, value in values:
                tensor.copy_(value)


@contextmanager
def _random_numbers(loader: object, device: torch.device) -> Iterator[None]:
    owners = (loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler")))
    generators = [
        each for each in (getattr(owner, "generator", None) for owner in owners) if each is not None
    ]
    states = [(each, each.get_state()) for each in generators if isinstance(each, torch.Generator)]
    try:
        with keep_random_numbers(device):
            yield
    finally:
        for generator, state in states:
            generator.set_state(state)


@contextmanager
def memory_peak_as_found(device: torch.device) -> Iterator[None]:
    """Afterwards the allocator's peak is the one before: as much memory is taken once more and
    given back.
    """
    peak = torch.cuda.max_memory_allocated(device)
    try:
        yield
    finally:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        taken = []
        try:
            missing = peak - torch.cuda.memory_allocated(device)
            if missing > _INEXACT_BYTES:
                taken.append(
                    torch.empty(missing - _INEXACT_BYTES, dtype=torch.uint8, device=device)
                )
            while (missing := peak - torch.cuda.memory_allocated(device)) > 0:
                taken.append(
                    torch.empty(min(missing, _SMALL_BYTES), dtype=torch.uint8, device=device)
                )
        except torch.OutOfMemoryError:
            # it fitted before, so another process has taken memory meanwhile; the peak stays too
            # low
            pass
        taken.clear()
        torch.cuda.empty_cache()
