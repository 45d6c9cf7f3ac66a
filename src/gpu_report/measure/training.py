"""The training loop that is timed, and when a process has warmed up and timed enough.

build_training -> prepare -> train -> per epoch: train_epoch (timed), evaluate (not timed)
time_steps: the loop itself, for the steps of an epoch or for a user's within their seconds

A step lasts from asking for a batch until the optimizer has stepped, so that the steps of an epoch
add up to its wall time. Nothing in the loop waits for the device: losses stay there until the clock
has stopped. What a training consists of is in building.py, how batches arrive in batches.py, how
steps are captured in cuda_graphs.py.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from gpu_report.measure.batches import Batch, example_batch
from gpu_report.measure.building import Loss, check_loss
from gpu_report.measure.building import Training as Training
from gpu_report.measure.building import build_training as build_training
from gpu_report.measure.cuda_graphs import restored
from gpu_report.measure.nested import Part, in_fp32, joined, unwrapped, wrapped
from gpu_report.measure.timing import float32_values, step_clock, synchronize, times_in_ms
from gpu_report.measure.world import ALONE, World
from gpu_report.records.record import Epoch, TimedEpoch
from gpu_report.study.study import Protocol
from gpu_report.workloads.protocol import HELD_OUT_LOSS, NO_QUALITY, Phase, StepsItself

OnStep = Callable[[int, int], None]
"""Called with the epoch and the number of its steps done; must cost next to nothing, since the
clock is running.
"""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """How many of the first epochs are warm-up; `settled` is False where the epochs after them
    still get faster.
    """

    warm_up_epochs: int
    settled: bool


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Epochs, begin and end of each one's training on `time.monotonic`, and the time of all with
    the evaluations.
    """

    epochs: list[Epoch]
    extra_epochs: list[TimedEpoch]
    settled: Settled
    epoch_windows_s: tuple[tuple[float, float], ...]
    wall_s: float


@dataclass(frozen=True, kw_only=True)
class TimedSteps:
    """Steps one after the other, between two waits for the device.

    They began at `began_s` on `time.monotonic`. `data_wait_s` is how long the host waited for each
    step's batch, `losses` what each step returned.
    """

    began_s: float
    wall_time_s: float
    step_times_ms: list[float]
    data_wait_s: list[float]
    losses: list[Any]


def time_steps(
    train_once: Callable[[Any], Any],
    batches: Iterable[Any],
    *,
    devices: Sequence[torch.device],
    world: World = ALONE,
    on_step: Callable[[int], None] = lambda _: None,
) -> TimedSteps:
    """Train a step on each of the batches; steps are timed on the first of the devices.

    `on_step` is called with the number of steps done, while the clock runs.
    """
    losses: list[Any] = []
    data_wait_s: list[float] = []
    steps = step_clock(devices[0])
    synchronize(*devices)
    world.wait()
    began_s, started = time.monotonic(), time.perf_counter()
    steps.mark()
    asked = started
    remaining = iter(batches)
    while (batch := next(remaining, None)) is not None:
        data_wait_s.append(time.perf_counter() - asked)
        losses.append(train_once(batch))
        steps.mark()
        on_step(len(losses))
        asked = time.perf_counter()
    synchronize(*devices)
    return TimedSteps(
        began_s=began_s,
        wall_time_s=time.perf_counter() - started,
        step_times_ms=steps.step_times_ms(),
        data_wait_s=data_wait_s,
        losses=losses,
    )


def warm_up(epoch_times_s: Sequence[float], protocol: Protocol) -> Settled:
    """By the protocol's rule, which leaves the first epoch in the warm-up and its `timed_epochs`
    after it.

    Where none of the epochs that may begin the timed ones meets the rule, the process has not
    settled.
    """
    last = min(protocol.most_warm_up_epochs, len(epoch_times_s) - protocol.timed_epochs)
    for first in range(1, last + 1):
        later_s = epoch_times_s[first + 1 :]
        if not later_s or epoch_times_s[first] <= protocol.settled_ratio * statistics.median(
            later_s
        ):
            return Settled(warm_up_epochs=first, settled=True)
    return Settled(warm_up_epochs=max(last, 1), settled=False)


def is_enough(epoch_times_s: Sequence[float], protocol: Protocol) -> bool:
    """Whether the process has timed the protocol's epochs and seconds after its warm-up, or cannot
    settle.
    """
    trained = len(epoch_times_s)
    if trained < 1 + protocol.timed_epochs:
        return False
    found = warm_up(epoch_times_s, protocol)
    if not found.settled:
        return trained >= protocol.most_warm_up_epochs + protocol.timed_epochs
    timed_s = epoch_times_s[found.warm_up_epochs :]
    return sum(timed_s) >= protocol.timed_seconds or len(timed_s) >= protocol.most_timed_epochs


def prepare(training: Training, *, phase: Phase = nullcontext) -> float:
    """Compile and capture what the variant asks for, and return the seconds it took; 0.0 where
    there is nothing to do.

    Weights, optimizer and random numbers are the same afterwards. `phase` labels the phases of a
    custom training loop, which is built here.
    """
    if training.custom_loop is not None:
        return training.custom_loop.prepare(phase)
    if training.compiled_loss is None and training.captured is None:
        return 0.0
    started = time.perf_counter()
    training.model.train()
    full, last = training.samples_per_step, training.samples_per_epoch % training.variant.batch_size
    with restored(training.model, training.optimizer, training.device):
        for samples in (full, last) if training.captured and last else (full,):
            inputs, target = _to_device(
                training, example_batch(training.train_data, samples, training.collate)
            )
            if training.captured:
                training.captured.capture(partial(_step, training), inputs, target)
            else:
                _add_gradients(training, inputs, target)
                training.optimizer.zero_grad(set_to_none=True)
    synchronize(training.device)
    return time.perf_counter() - started


def train(
    training: Training,
    *,
    epochs: int,
    protocol: Protocol,
    on_step: OnStep,
    before_epoch: Callable[[int], None],
    phase: Phase = nullcontext,
) -> Trained:
    """Train and evaluate epoch by epoch; `before_epoch` is called with each epoch's number outside
    the timed region.

    After `epochs` of them come extra ones, which are not evaluated, until as much is timed as the
    protocol asks for.
    """
    done: list[Epoch] = []
    extra: list[TimedEpoch] = []
    windows_s: list[tuple[float, float]] = []
    times_s: list[float] = []
    started = time.perf_counter()
    while len(times_s) < epochs or not is_enough(times_s, protocol):
        epoch = len(times_s)
        before_epoch(epoch)
        with phase(f"epoch {epoch}"):
            fields, window_s = train_epoch(training, epoch=epoch, on_step=on_step, phase=phase)
        # All processes go on or stop together, so they judge by the time of the slowest.
        times_s.append(training.world.agree(fields["wall_time_s"], max))
        windows_s.append(window_s)
        if epoch >= epochs:
            extra.append(TimedEpoch(**{name: fields[name] for name in TimedEpoch.model_fields}))
            continue
        with phase("evaluation"), whole_model(training):
            test_loss, quality = evaluate(training)
        done.append(Epoch(**fields, test_loss=test_loss, quality=quality))
    wall_s = time.perf_counter() - started
    before_epoch(len(times_s))
    return Trained(
        epochs=done,
        extra_epochs=extra,
        settled=warm_up(times_s, protocol),
        epoch_windows_s=tuple(windows_s),
        wall_s=wall_s,
    )


def train_epoch(
    training: Training, *, epoch: int, on_step: OnStep, phase: Phase = nullcontext
) -> tuple[dict[str, Any], tuple[float, float]]:
    """One timed epoch: the fields of a record's Epoch that do not come from the evaluation, and
    when it was.
    """
    if training.custom_loop is not None:
        return training.custom_loop.train_epoch(samples=training.variant.batch_size)
    loss_scales: list[Tensor] = []
    samples = 0
    one = torch.ones((), device=training.device)
    scaler = training.arithmetic.scaler

    def train_once(batch: Batch) -> Tensor:
        nonlocal samples
        loss = train_step(training, batch, phase=phase)
        if scaler.is_enabled():
            loss_scales.append(scaler.scale(one))
        samples += len(batch[0])
        return loss

    training.model.train()
    timed = time_steps(
        train_once,
        training.train_loader,
        devices=training.devices,
        world=training.world,
        on_step=partial(on_step, epoch),
    )
    check_loss(training.workload, timed.losses[0])
    train_losses = torch.stack(timed.losses).tolist()
    if training.pipeline is not None:
        train_losses = training.world.gather(train_losses)[-1]
    fields = {
        "wall_time_s": timed.wall_time_s,
        "step_times_ms": times_in_ms(timed.step_times_ms),
        "data_wait_ms": times_in_ms(wait_s * 1e3 for wait_s in timed.data_wait_s),
        "samples": samples,
        "train_losses": float32_values(train_losses),
        "loss_scales": torch.stack(loss_scales).tolist() if loss_scales else [],
    }
    return fields, (timed.began_s, timed.began_s + timed.wall_time_s)


def train_step(training: Training, batch: Batch, *, phase: Phase = nullcontext) -> Tensor:
    """One step on one batch; the loss stays on the device, since fetching it would wait for the
    device.
    """
    with phase("data"):
        inputs, target = _to_device(training, batch)
    if training.captured:
        return training.captured.replay(inputs, target)
    return _step(training, inputs, target, phase=phase)


def eager_step(training: Training, batch: Batch, *, phase: Phase = nullcontext) -> Tensor:
    """The same step operator by operator, neither compiled nor captured."""
    with phase("data"):
        inputs, target = _to_device(training, batch)
    return _step(training, inputs, target, phase=phase, is_eager=True)


def _to_device(training: Training, batch: Batch) -> tuple[Part, Part]:
    inputs, target = (
        part.to(training.device, non_blocking=training.non_blocking) for part in batch
    )
    return inputs.contiguous(memory_format=training.layout), target


def _step(
    training: Training,
    inputs: Part,
    target: Part,
    *,
    phase: Phase = nullcontext,
    is_eager: bool = False,
) -> Tensor:
    loss = _add_gradients(training, inputs, target, phase=phase, is_eager=is_eager)
    with phase("optimizer"):
        training.arithmetic.scaler.step(training.optimizer)
        training.arithmetic.scaler.update()
        training.optimizer.zero_grad(set_to_none=True)
    return loss


def _add_gradients(
    training: Training,
    inputs: Part,
    target: Part,
    *,
    phase: Phase = nullcontext,
    is_eager: bool = False,
) -> Tensor:
    """Forward and backward pass of a batch, part by part where gradients are accumulated; returns
    the batch's loss.
    """
    if training.pipeline is not None:
        return training.pipeline.add_gradients(inputs, target, phase=phase)
    losses: list[Tensor] = []
    parts = training.variant.accumulation
    for part_inputs, part_target in _parts(inputs, target, parts):
        if training.synchronize_gradients is not None:
            training.synchronize_gradients(len(losses) == parts - 1)
        loss_of = training.loss if is_eager else _fastest_loss(training, len(part_inputs))
        with phase("forward"):
            loss = loss_of(part_inputs, part_target)
            if len(part_inputs) < len(inputs):
                loss = loss * (len(part_inputs) / len(inputs))
        with phase("backward"):
            try:
                training.arithmetic.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            except (AttributeError, RuntimeError, TypeError, ValueError):
                check_loss(training.workload, loss)  # a check in every step would be timed
                raise
        losses.append(loss.detach())
    return sum(losses[1:], losses[0])


def _parts(inputs: Part, target: Part, parts: int) -> Iterable[tuple[Part, Part]]:
    if parts == 1:
        return [(inputs, target)]
    parts = min(parts, len(inputs))
    return zip(inputs.tensor_split(parts), target.tensor_split(parts), strict=True)


def _fastest_loss(training: Training, samples: int) -> Loss:
    """The compiled loss is for one number of samples; the last, smaller batch of an epoch is not
    worth another.
    """
    is_full = samples * training.variant.accumulation == training.samples_per_step
    return (
        training.compiled_loss if training.compiled_loss is not None and is_full else training.loss
    )


def whole_model(training: Training) -> AbstractContextManager[None]:
    """Inside, the model that is trained is whole on this process's devices."""
    return nullcontext() if training.pipeline is None else training.pipeline.whole_model()


@torch.no_grad()  # FP8 tensors of torchao cannot compute in inference mode
def evaluate(training: Training) -> tuple[float | None, float | None]:
    """Mean loss and quality over the held-out samples; None where the workload has no samples, or
    no metric.
    """
    if not training.test_samples:
        return None, None
    training.model.eval()
    workload = training.workload
    is_loss = workload.quality_name == HELD_OUT_LOSS and workload.quality is NO_QUALITY
    outputs, targets = [], []
    loss_sum = torch.zeros((), device=training.device)
    for batch in training.test_loader:
        inputs, target = _to_device(training, batch)
        with training.arithmetic.autocast():
            if isinstance(workload, StepsItself):
                loss_sum += workload.training_step(training.model, unwrapped(inputs)) * len(inputs)
                continue
            output = in_fp32(training.model(unwrapped(inputs)))
        loss_sum += workload.loss(output, unwrapped(target)) * len(inputs)
        if workload.quality_name and not is_loss:
            outputs.append(wrapped(output).cpu())
            targets.append(target.cpu())
    loss = loss_sum.item() / training.test_samples
    return loss, loss if is_loss else _quality(training, outputs, targets)


def _quality(training: Training, outputs: list[Part], targets: list[Part]) -> float | None:
    """The workload's metric, of all outputs and targets, or of its model and batches where its
    steps are its own.
    """
    workload = training.workload
    if not workload.quality_name:
        return None
    if not isinstance(workload, StepsItself):
        return float(workload.quality(unwrapped(joined(outputs)), unwrapped(joined(targets))))
    batches: Any = (unwrapped(_to_device(training, batch)[0]) for batch in training.test_loader)
    with training.arithmetic.autocast():
        return float(workload.quality(cast("Any", training.model), batches))
