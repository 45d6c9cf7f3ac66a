"""The training loop that is timed: everything between two readings of the clock is in this file.

build_training -> prepare -> train -> per epoch: train_epoch (timed), evaluate (not timed)

A step lasts from asking for a batch until the optimizer has stepped, so that the steps of an epoch add up to its wall
time. Nothing in the loop waits for the device: losses stay there until the clock has stopped.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from gpu_report.measure.arithmetic import Arithmetic, set_up_arithmetic
from gpu_report.measure.batches import Batch, Batches, Samples, ShuffledSampler, build_batches, example_batch, is_pinned
from gpu_report.measure.clocks import step_clock, synchronize
from gpu_report.measure.digits import float32_values, times_in_ms
from gpu_report.measure.optimizations import build_model, build_optimizer, check_pictures
from gpu_report.measure.preparing import CapturedSteps, as_it_was
from gpu_report.options import option_names
from gpu_report.records import Epoch
from gpu_report.variant import Variant
from gpu_report.workloads.protocol import TrainingWorkload, WorkloadError

Model = Callable[[Tensor], Tensor]
Phase = Callable[[str], AbstractContextManager[object]]
OnStep = Callable[[int, int], None]
"""Called with the epoch and the number of its steps done; must cost next to nothing, since the clock is running."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model on its device with everything that trains it."""

    workload: TrainingWorkload
    variant: Variant
    device: torch.device
    arithmetic: Arithmetic
    model: nn.Module
    compiled: Model | None
    """The same model, weights included, compiled for parts of full batches."""
    captured: CapturedSteps | None
    """Filled by `prepare`."""
    optimizer: Optimizer
    train_data: Samples
    train_loader: Batches
    test_loader: DataLoader[tuple[Tensor, Tensor]]
    non_blocking: bool
    """Whether the host goes on while a batch is copied; a plain loop waits."""
    layout: torch.memory_format
    samples_per_epoch: int
    train_samples: int
    test_samples: int


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Epochs, begin and end of each one's training on `time.monotonic`, and the time of all with the evaluations."""

    epochs: list[Epoch]
    epoch_windows_s: tuple[tuple[float, float], ...]
    wall_s: float


def build_training(
    workload: TrainingWorkload, variant: Variant, *, device: torch.device, seed: int, steps_per_epoch: int | None
) -> Training:
    """Build model, data and loaders; the same seed gives the same weights and order on every device.

    `steps_per_epoch` is None where an epoch is one pass over the training set, its last batch as small as it comes.

    Raises:
        WorkloadError: such a pass holds less than one batch, or an option does not fit the workload.
    """
    options = option_names(variant.options)
    arithmetic = set_up_arithmetic(variant.precision, device)
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
    sampler = ShuffledSampler(samples=train_samples, samples_per_epoch=samples_per_epoch, seed=seed)
    return Training(
        workload=workload,
        variant=variant,
        device=device,
        arithmetic=arithmetic,
        model=model,
        compiled=cast("Model", torch.compile(model, dynamic=False)) if "compile" in options else None,
        captured=CapturedSteps(device) if "graphs" in options else None,
        optimizer=build_optimizer(workload, variant, model),
        train_data=train_data,
        train_loader=build_batches(train_data, sampler, variant, device=device, seed=seed),
        test_loader=DataLoader(test_data, batch_size=variant.batch_size),
        non_blocking=is_pinned(variant),
        layout=torch.channels_last if "channelslast" in options else torch.contiguous_format,
        samples_per_epoch=samples_per_epoch,
        train_samples=train_samples,
        test_samples=test_samples,
    )


def _check_batch(variant: Variant, train_samples: int) -> None:
    if variant.batch_size > train_samples:
        raise WorkloadError(
            f"{variant.slug}: a batch of {variant.batch_size} is more than the {train_samples} samples of the training "
            f"set, so its numbers would be those of a batch of {train_samples}; take a smaller batch_size or more "
            "training samples, or give steps_per_epoch"
        )


def prepare(training: Training) -> float:
    """Compile and capture what the variant asks for, and return the seconds it took; 0.0 where there is nothing to do.

    What is learnt afterwards is what would have been learnt without.
    """
    if training.compiled is None and training.captured is None:
        return 0.0
    started = time.perf_counter()
    training.model.train()
    full, last = training.variant.batch_size, training.samples_per_epoch % training.variant.batch_size
    with as_it_was(training.model, training.optimizer, training.device):
        for samples in (full, last) if training.captured and last else (full,):
            inputs, target = _to_device(training, example_batch(training.train_data, samples))
            if training.captured:
                training.captured.capture(partial(_step, training), inputs, target)
            else:
                _add_gradients(training, inputs, target)
                training.optimizer.zero_grad(set_to_none=True)
    synchronize(training.device)
    return time.perf_counter() - started


def train(training: Training, *, epochs: int, on_step: OnStep, before_epoch: Callable[[int], None]) -> Trained:
    """Train and evaluate epoch by epoch; `before_epoch` is called with each epoch's number outside the timed region."""
    done, windows_s = [], []
    started = time.perf_counter()
    for epoch in range(epochs):
        before_epoch(epoch)
        fields, window_s = train_epoch(training, epoch=epoch, on_step=on_step)
        test_loss, quality = evaluate(training)
        done.append(Epoch(**fields, test_loss=test_loss, quality=quality))
        windows_s.append(window_s)
    wall_s = time.perf_counter() - started
    before_epoch(epochs)
    return Trained(epochs=done, epoch_windows_s=tuple(windows_s), wall_s=wall_s)


def train_epoch(training: Training, *, epoch: int, on_step: OnStep) -> tuple[dict[str, Any], tuple[float, float]]:
    """One timed epoch: the fields of a record's Epoch that do not come from the evaluation, and when it was."""
    losses: list[Tensor] = []
    loss_scales: list[Tensor] = []
    data_wait_s: list[float] = []
    samples = 0
    one = torch.ones((), device=training.device)
    scaler = training.arithmetic.scaler
    steps = step_clock(training.device)
    training.model.train()

    synchronize(training.device)
    began_s, started = time.monotonic(), time.perf_counter()
    steps.mark()
    asked = started
    epoch_batches = batches(training)
    while (batch := next(epoch_batches, None)) is not None:
        data_wait_s.append(time.perf_counter() - asked)
        losses.append(train_step(training, batch))
        if scaler.is_enabled():
            loss_scales.append(scaler.scale(one))
        samples += len(batch[0])
        steps.mark()
        on_step(epoch, len(losses))
        asked = time.perf_counter()
    synchronize(training.device)
    wall_time_s = time.perf_counter() - started

    fields = {
        "wall_time_s": wall_time_s,
        "step_times_ms": times_in_ms(steps.step_times_ms()),
        "data_wait_ms": times_in_ms(wait_s * 1e3 for wait_s in data_wait_s),
        "samples": samples,
        "train_losses": float32_values(torch.stack(losses).tolist()),
        "loss_scales": torch.stack(loss_scales).tolist() if loss_scales else [],
    }
    return fields, (began_s, began_s + wall_time_s)


def batches(training: Training) -> Iterator[Batch]:
    """An epoch's batches, by loader, prefetched, or picked on the device."""
    return iter(training.train_loader)


def _unlabelled(_name: str) -> AbstractContextManager[object]:
    return nullcontext()


def train_step(training: Training, batch: Batch, *, phase: Phase = _unlabelled) -> Tensor:
    """One step on one batch; the loss stays on the device, since fetching it would wait for the device."""
    with phase("data"):
        inputs, target = _to_device(training, batch)
    if training.captured:
        return training.captured.replay(inputs, target)
    return _step(training, inputs, target, phase=phase)


def eager_step(training: Training, batch: Batch, *, phase: Phase = _unlabelled) -> Tensor:
    """The same step operator by operator, neither compiled nor captured."""
    with phase("data"):
        inputs, target = _to_device(training, batch)
    return _step(training, inputs, target, phase=phase, is_eager=True)


def _to_device(training: Training, batch: Batch) -> tuple[Tensor, Tensor]:
    inputs, target = (part.to(training.device, non_blocking=training.non_blocking) for part in batch)
    return inputs.contiguous(memory_format=training.layout), target


def _step(
    training: Training, inputs: Tensor, target: Tensor, *, phase: Phase = _unlabelled, is_eager: bool = False
) -> Tensor:
    loss = _add_gradients(training, inputs, target, phase=phase, is_eager=is_eager)
    with phase("optimizer"):
        training.arithmetic.scaler.step(training.optimizer)
        training.arithmetic.scaler.update()
        training.optimizer.zero_grad(set_to_none=True)
    return loss


def _add_gradients(
    training: Training, inputs: Tensor, target: Tensor, *, phase: Phase = _unlabelled, is_eager: bool = False
) -> Tensor:
    """Forward and backward pass of a batch, part by part where gradients are accumulated; returns the batch's loss."""
    losses = []
    for part_inputs, part_target in _parts(inputs, target, training.variant.accumulation):
        model = training.model if is_eager else _fastest_model(training, len(part_inputs))
        with phase("forward"):
            with training.arithmetic.autocast():
                output = model(part_inputs)
            loss = training.workload.loss(output.float(), part_target)
            if len(part_inputs) < len(inputs):
                loss = loss * (len(part_inputs) / len(inputs))
        with phase("backward"):
            training.arithmetic.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    return sum(losses[1:], losses[0])


def _parts(inputs: Tensor, target: Tensor, parts: int) -> Iterable[tuple[Tensor, Tensor]]:
    if parts == 1:
        return [(inputs, target)]
    parts = min(parts, len(inputs))
    return zip(inputs.tensor_split(parts), target.tensor_split(parts), strict=True)


def _fastest_model(training: Training, samples: int) -> Model:
    """The compiled model is made for one number of samples; the last, smaller batch of a pass is not worth another."""
    is_full = samples * training.variant.accumulation == training.variant.batch_size
    return training.compiled if training.compiled and is_full else training.model


@torch.inference_mode()
def evaluate(training: Training) -> tuple[float, float]:
    """Mean loss and quality over the held-out samples."""
    training.model.eval()
    outputs, targets = [], []
    loss_sum = torch.zeros((), device=training.device)
    for batch in training.test_loader:
        inputs, target = _to_device(training, batch)
        with training.arithmetic.autocast():
            output = training.model(inputs)
        loss_sum += training.workload.loss(output.float(), target) * len(inputs)
        outputs.append(output.float().cpu())
        targets.append(target.cpu())
    quality = training.workload.quality(torch.cat(outputs), torch.cat(targets))
    return loss_sum.item() / training.test_samples, quality
