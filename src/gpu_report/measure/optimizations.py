"""What options change in a model and its optimizer; a workload that an option does not fit is refused."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import SGD, Adadelta, Adam, Adamax, AdamW, Optimizer, RAdam, RMSprop
from torch.utils.checkpoint import checkpoint

from gpu_report.measure.batches import Samples
from gpu_report.options import OPTIONS, option_names
from gpu_report.variant import Variant
from gpu_report.workloads.protocol import NamesBlocks, TrainingWorkload, WorkloadError

_START_AT_ZERO = (Adadelta, Adam, AdamW, Adamax, RAdam, RMSprop, SGD)


def build_model(workload: TrainingWorkload, variant: Variant, *, device: torch.device) -> nn.Module:
    """The model on its device; channels-last and with checkpointed blocks where the options say so.

    Raises:
        WorkloadError: the workload names no blocks to checkpoint.
    """
    options = option_names(variant.options)
    model = workload.build_model().to(device)
    if "channelslast" in options:
        model = model.to(memory_format=torch.channels_last)
    if "checkpoint" in options:
        _checkpoint_blocks(workload, model)
    return model


def _checkpoint_blocks(workload: TrainingWorkload, model: nn.Module) -> None:
    if not isinstance(workload, NamesBlocks):
        raise WorkloadError(
            f"options: {type(workload).__name__} names no checkpointed_blocks(model), so checkpoint has nothing to do; "
            "add it to the class, or leave checkpoint out"
        )
    for block in workload.checkpointed_blocks(model):
        norms = [part for part in block.modules() if isinstance(part, _BatchNorm)]
        contexts = partial(lambda norms: (nullcontext(), _without_running_means(norms)), norms)
        block.forward = partial(checkpoint, block.forward, use_reentrant=False, context_fn=contexts)


@contextmanager
def _without_running_means(norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """Computing a block again would count its batch twice, and held-out samples would be normalized differently."""
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def why_not_applied(options: str, device: torch.device) -> str | None:
    """Why this kind of device cannot train with these options; None where it can."""
    for name in option_names(options):
        option = OPTIONS[name]
        if option.cuda_only and device.type != "cuda":
            return f"{option.title} (option {name}): only NVIDIA and AMD GPUs have it; this device is {device.type}"
    return None


def check_images(data: Samples) -> None:
    """Refuse inputs that have no channels to put last.

    Raises:
        WorkloadError: says which shape an input has.
    """
    with torch.random.fork_rng(devices=[]):
        shape = tuple(data[0][0].shape)
    if len(shape) != 3:
        raise WorkloadError(
            f"options: channelslast is for images (channels, height, width), an input is {shape}; leave it out"
        )


def build_optimizer(workload: TrainingWorkload, variant: Variant, model: nn.Module) -> Optimizer:
    """The workload's optimizer, built once more with what the options need of it.

    Raises:
        WorkloadError: the optimizer cannot be fused, or cannot be captured.
    """
    options = option_names(variant.options)
    optimizer = workload.build_optimizer(model)
    settings = inspect.signature(type(optimizer)).parameters
    changes: dict[str, bool] = {}
    if "fused" in options:
        if "fused" not in settings:
            raise WorkloadError(f"options: {type(optimizer).__name__} cannot be fused; leave fused out")
        changes["fused"] = True
    if "graphs" in options:
        _check_capturable(optimizer)
        if "capturable" in settings:
            changes["capturable"] = True
    if not changes:
        return optimizer
    defaults = {name: value for name, value in optimizer.defaults.items() if name in settings}
    groups = [{**group, **changes} for group in optimizer.param_groups]
    rebuilt: Optimizer = type(optimizer)(groups, **{**defaults, **changes})
    return rebuilt


def _check_capturable(optimizer: Optimizer) -> None:
    """Refuse an optimizer whose state does not begin as zeros, since the warm-up of a capture cannot be undone then."""
    is_dampened = isinstance(optimizer, SGD) and optimizer.defaults["dampening"]
    if type(optimizer) not in _START_AT_ZERO or is_dampened:
        names = ", ".join(known.__name__ for known in _START_AT_ZERO)
        raise WorkloadError(
            f"options: graphs cannot capture {type(optimizer).__name__} without changing the training; "
            f"use one of {names} (SGD without dampening), or leave graphs out"
        )
