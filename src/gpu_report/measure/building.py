"""What trains a variant, built from its workload: model, optimizer, batches and arithmetic, as its options ask."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset

from gpu_report.measure.arithmetic import Arithmetic, set_up_arithmetic
from gpu_report.measure.batches import Batch, Batches, Samples, ShuffledSampler, build_batches, is_pinned
from gpu_report.measure.optimizations import build_model, build_optimizer, check_pictures
from gpu_report.measure.own_loops import OwnLoop, WholeBatch
from gpu_report.measure.preparing import CapturedSteps
from gpu_report.options import OPTIONS, first_loss_scale, option_names
from gpu_report.variant import Variant
from gpu_report.workloads.protocol import BringsLoops, TrainingWorkload, WorkloadError

Loss = Callable[[Tensor, Tensor], Tensor]
"""The forward pass: from inputs and targets to the loss, a scalar."""

_PLAIN: Final[dict[str, Any]] = {"precision": "fp32", "workers": 0, "accumulation": 1}
"""Fields of a variant that have one value alone where the loop is the workload's own."""

_COMPILER_OPTIONS: Final[dict[str, Any]] = {"combo_kernels": True}
"""Small kernels that do not wait for each other become one; a model has dozens that only convert its weights."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model on its device with everything that trains it."""

    workload: TrainingWorkload
    variant: Variant
    device: torch.device
    arithmetic: Arithmetic
    model: nn.Module
    loss: Loss
    compiled_loss: Loss | None
    """The same, compiled for parts of full batches."""
    captured: CapturedSteps | None
    """Filled by `prepare`."""
    own_loop: OwnLoop | None
    """The workload's, in place of all that is a step; built by `prepare`."""
    optimizer: Optimizer
    train_data: Samples
    train_loader: Batches
    test_loader: Iterable[Batch]
    non_blocking: bool
    """Whether the host goes on while a batch is copied; a plain loop waits."""
    layout: torch.memory_format
    samples_per_epoch: int
    train_samples: int
    test_samples: int


def build_training(
    workload: TrainingWorkload, variant: Variant, *, device: torch.device, seed: int, steps_per_epoch: int | None
) -> Training:
    """Build model, data and loaders; the same seed gives the same weights and order on every device.

    `steps_per_epoch` is None where an epoch is one pass over the training set, its last batch as small as it comes.

    Raises:
        WorkloadError: such a pass holds less than one batch, or an option does not fit the workload.
    """
    if isinstance(workload, BringsLoops):
        return _build_own_training(workload, variant, device=device, seed=seed)
    options = option_names(variant.options)
    _refuse_loops(workload, options)
    arithmetic = set_up_arithmetic(variant.precision, device, first_scale=first_loss_scale(variant.options))
    torch.backends.cudnn.benchmark = "autotune" in options
    torch.manual_seed(seed)
    model = build_model(workload, variant, device=device)
    train_data, test_data = workload.train_data(), workload.test_data()
    train_samples, test_samples = len(train_data), len(test_data)  # type: ignore[arg-type]
    if steps_per_epoch is None:
        _check_batch(variant, train_samples)
    if "channelslast" in options:
        check_pictures(train_data)
    samples_per_epoch = steps_per_epoch * variant.batch_size if steps_per_epoch else train_samples
    loss = _loss_of(workload, model, arithmetic)
    layout = torch.channels_last if "channelslast" in options else torch.contiguous_format
    sampler = ShuffledSampler(samples=train_samples, samples_per_epoch=samples_per_epoch, seed=seed)
    return Training(
        workload=workload,
        variant=variant,
        device=device,
        arithmetic=arithmetic,
        model=model,
        loss=loss,
        compiled_loss=_compiled(loss, device) if "compile" in options else None,
        captured=CapturedSteps(device) if "graphs" in options else None,
        own_loop=None,
        optimizer=build_optimizer(workload, variant, model),
        train_data=train_data,
        train_loader=build_batches(train_data, sampler, variant, device=device, layout=layout, seed=seed),
        test_loader=cast("Iterable[Batch]", DataLoader(test_data, batch_size=variant.batch_size)),
        non_blocking=is_pinned(variant),
        layout=layout,
        samples_per_epoch=samples_per_epoch,
        train_samples=train_samples,
        test_samples=test_samples,
    )


def _build_own_training(workload: BringsLoops, variant: Variant, *, device: torch.device, seed: int) -> Training:
    """For a loop of the workload's own: the batch is the training set, and lies on the device beside the held-out set.

    An epoch has the variant's own number of steps, also where it is profiled, since a loop may do them all at once.

    Raises:
        WorkloadError: the variant asks for what such a loop leaves no room for.
    """
    for name, plain in _PLAIN.items():
        if getattr(variant, name) != plain:
            raise WorkloadError(
                f"{variant.slug}: {type(workload).__name__} trains by a loop of its own, on the whole batch at once; "
                f"leave {name} at {plain}"
            )
    arithmetic = set_up_arithmetic(variant.precision, device)
    torch.manual_seed(seed)
    model = workload.build_model().to(device)
    steps = variant.steps_per_epoch or 1
    train = [part.to(device) for part in workload.draw(variant.batch_size, "train")]
    test = [part.to(device) for part in workload.draw(workload.held_out_samples, "test")]
    train_batch = WholeBatch(*train, steps=steps)
    build = partial(workload.build_loop, model, train_batch.parts, options=variant.options, steps=steps)
    return Training(
        workload=workload,
        variant=variant,
        device=device,
        arithmetic=arithmetic,
        model=model,
        loss=_loss_of(workload, model, arithmetic),
        compiled_loss=None,
        captured=None,
        own_loop=OwnLoop(lambda phase: build(phase=phase), steps=steps, device=device),
        optimizer=workload.build_optimizer(model),
        train_data=cast("Samples", TensorDataset(*train)),
        train_loader=train_batch,
        test_loader=WholeBatch(*test),
        non_blocking=False,
        layout=torch.contiguous_format,
        samples_per_epoch=steps * variant.batch_size,
        train_samples=variant.batch_size,
        test_samples=workload.held_out_samples,
    )


def _refuse_loops(workload: TrainingWorkload, options: tuple[str, ...]) -> None:
    for name in options:
        if OPTIONS[name].is_loop:
            raise WorkloadError(
                f"options: {name} is a loop that a workload brings, and {type(workload).__name__} brings none; "
                "leave it out"
            )


def _loss_of(workload: TrainingWorkload, model: nn.Module, arithmetic: Arithmetic) -> Loss:
    """The loss is reckoned in fp32 whatever the precision of the model's arithmetic."""

    def loss(inputs: Tensor, target: Tensor) -> Tensor:
        with arithmetic.autocast():
            output = model(inputs)
        return workload.loss(output.float(), target)

    return loss


def _compiled(loss: Loss, device: torch.device) -> Loss:
    options = None if device.type == "cpu" else _COMPILER_OPTIONS
    return torch.compile(loss, dynamic=False, options=options)


def _check_batch(variant: Variant, train_samples: int) -> None:
    if variant.batch_size > train_samples:
        raise WorkloadError(
            f"{variant.slug}: a batch of {variant.batch_size} is more than the {train_samples} samples of the training "
            f"set, so its numbers would be those of a batch of {train_samples}; take a smaller batch_size or more "
            "training samples, or give steps_per_epoch"
        )
