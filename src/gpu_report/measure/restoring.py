"""Leaving a user's model, optimizer and process as they were: weights, gradients, modes, random numbers, memory peak.

left_as_found: keep what is there -> take the model to the device -> steps of any kind -> put back what was kept

What a step may change in place is copied to host memory first, so that copies do not raise the peak of the device. A
tensor on another device is not copied: the model works on what it becomes there, and gets the tensor itself back.
"""

import copy
import gc
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from gpu_report.measure.cuda_graphs import state_tensors

_REGISTERED: Final = ("_parameters", "_buffers", "_modules")
_MIB: Final = 2**20
_SMALL_BYTES: Final = _MIB
"""Up to here PyTorch's allocator gives exactly what is asked for, in units of 512 bytes: kSmallSize of its source."""
_INEXACT_BYTES: Final = 32 * _MIB


@contextmanager
def left_as_found(
    modules: Sequence[nn.Module], *, optimizer: Optimizer | None, loader: object, device: torch.device
) -> Iterator[None]:
    """Inside, the modules are on the device, in training mode and without gradients; afterwards all is as it was.

    That is each tensor of the modules and of the optimizer, bit by bit and the same object, gradients, modes, every
    plain attribute of the modules, the random numbers of Python, NumPy and PyTorch and of the loader's generators, and
    on CUDA `max_memory_allocated`; also after an exception. Lists that a model changes in place are not restored.
    """
    with ExitStack() as stack:
        if device.type == "cuda":
            stack.enter_context(memory_peak_as_found(device))
        stack.enter_context(_random_numbers(loader, device))
        stack.enter_context(modules_as_found(nn.ModuleList(modules), optimizer, device))
        yield


@contextmanager
def modules_as_found(model: nn.ModuleList, optimizer: Optimizer | None, device: torch.device) -> Iterator[None]:
    """The part of `left_as_found` that is about tensors, modes and attributes."""
    owners = [owner for owner in (*model.modules(), optimizer) if owner is not None]
    kept = [(vars(owner), dict(vars(owner))) for owner in owners]
    kept += [(each, dict(each)) for module in model.modules() for each in map(vars(module).__getitem__, _REGISTERED)]
    if optimizer is not None:
        changing: list[dict[Any, Any]] = [optimizer.state, *optimizer.state.values(), *optimizer.param_groups]
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
    generators = [each for each in (getattr(owner, "generator", None) for owner in owners) if each is not None]
    states = [(each, each.get_state()) for each in generators if isinstance(each, torch.Generator)]
    of_python, of_numpy = random.getstate(), np.random.get_state(legacy=False)
    indices = [] if device.type == "cpu" else [device.index]
    try:
        with torch.random.fork_rng(devices=indices, device_type=device.type if indices else "cuda"):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        for generator, state in states:
            generator.set_state(state)


@contextmanager
def memory_peak_as_found(device: torch.device) -> Iterator[None]:
    """Afterwards the allocator's peak is the one before: as much memory is taken once more and given back."""
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
                taken.append(torch.empty(missing - _INEXACT_BYTES, dtype=torch.uint8, device=device))
            while (missing := peak - torch.cuda.memory_allocated(device)) > 0:
                taken.append(torch.empty(min(missing, _SMALL_BYTES), dtype=torch.uint8, device=device))
        except torch.OutOfMemoryError:
            pass  # it fitted before, so another process has taken memory meanwhile; the peak stays too low
        taken.clear()
        torch.cuda.empty_cache()
