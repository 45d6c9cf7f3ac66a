"""The training loop that is timed: everything between two readings of the clock is in this file.

build_training -> train -> per epoch: train_epoch (timed), evaluate (not timed)

A step lasts from asking the loader for a batch until the optimizer has stepped, so that the steps of an epoch add up
to its wall time. Nothing in the loop waits for the device: losses stay there until the clock has stopped.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Sampler

from gpu_report.measure.clocks import step_clock, synchronize
from gpu_report.measure.parent_watch import end_with_parent
from gpu_report.records import Epoch
from gpu_report.variant import Variant
from gpu_report.workloads.protocol import TrainingWorkload, WorkloadError

Batch = list[Tensor]
Phase = Callable[[str], AbstractContextManager[object]]
OnStep = Callable[[int, int], None]
"""Called with the epoch and the number of its steps done; must cost next to nothing, since the clock is running."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model on its device with everything that trains it."""

    workload: TrainingWorkload
    device: torch.device
    model: nn.Module
    optimizer: Optimizer
    train_loader: DataLoader[tuple[Tensor, Tensor]]
    test_loader: DataLoader[tuple[Tensor, Tensor]]
    train_samples: int
    test_samples: int


class ShuffledSampler(Sampler[int]):
    """Indices of shuffled samples, `samples_per_epoch` each time it is iterated.

    One pass over all samples follows the other, each in an order of its own; an epoch goes on where the last one ended,
    so that epochs shorter than the data set still see all of it in the end.
    """

    def __init__(self, *, samples: int, samples_per_epoch: int, seed: int) -> None:
        self.samples_per_epoch = samples_per_epoch
        self._indices = self._passes(samples, torch.Generator().manual_seed(seed))

    def __iter__(self) -> Iterator[int]:
        return islice(self._indices, self.samples_per_epoch)

    def __len__(self) -> int:
        return self.samples_per_epoch

    @staticmethod
    def _passes(samples: int, generator: torch.Generator) -> Iterator[int]:
        while True:
            yield from torch.randperm(samples, generator=generator).tolist()


def build_training(
    workload: TrainingWorkload, variant: Variant, *, device: torch.device, seed: int, steps_per_epoch: int | None
) -> Training:
    """Build model, data and loaders; the same seed gives the same weights and order on every device.

    `steps_per_epoch` is None where an epoch is one pass over the training set, its last batch as small as it comes.

    Raises:
        WorkloadError: such a pass holds less than one batch.
    """
    require_ieee_fp32()
    torch.manual_seed(seed)
    model = workload.build_model().to(device)
    train_data, test_data = workload.train_data(), workload.test_data()
    train_samples, test_samples = len(train_data), len(test_data)  # type: ignore[arg-type]
    if steps_per_epoch is None:
        _check_batch(variant, train_samples)
    samples_per_epoch = steps_per_epoch * variant.batch_size if steps_per_epoch else train_samples
    pin_memory = device.type != "cpu"
    return Training(
        workload=workload,
        device=device,
        model=model,
        optimizer=workload.build_optimizer(model),
        train_loader=DataLoader(
            train_data,
            batch_size=variant.batch_size,
            sampler=ShuffledSampler(samples=train_samples, samples_per_epoch=samples_per_epoch, seed=seed),
            num_workers=variant.workers,
            multiprocessing_context=_worker_start(variant.workers),
            # Starting processes anew for every epoch would be timed as if it were loading.
            persistent_workers=variant.workers > 0,
            pin_memory=pin_memory,
            generator=torch.Generator().manual_seed(seed),
            worker_init_fn=end_with_parent,
        ),
        test_loader=DataLoader(test_data, batch_size=variant.batch_size, pin_memory=pin_memory),
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


def _worker_start(workers: int) -> str | None:
    """Loader workers are forked where that is safe, as in a program of one's own, whatever started this process."""
    if workers == 0:
        return None
    return "fork" if sys.platform == "linux" else "spawn"


def require_ieee_fp32() -> None:
    """Turn TF32 off, which cuDNN uses by default, so that fp32 means the same arithmetic on every device."""
    # The newer fp32_precision settings leave allow_tf32 in a state that PyTorch refuses to read.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def train(training: Training, *, epochs: int, on_step: OnStep, before_epoch: Callable[[int], None]) -> list[Epoch]:
    """Train and evaluate epoch by epoch; `before_epoch` is called with each epoch's number outside the timed region."""
    done = []
    for epoch in range(epochs):
        before_epoch(epoch)
        times = train_epoch(training, epoch=epoch, on_step=on_step)
        test_loss, quality = evaluate(training)
        done.append(Epoch(**times, test_loss=test_loss, quality=quality))
    before_epoch(epochs)
    return done


def train_epoch(training: Training, *, epoch: int, on_step: OnStep) -> dict[str, float | list[float]]:
    """One timed epoch: the fields of a record's Epoch that do not come from the evaluation."""
    losses: list[Tensor] = []
    data_wait_s: list[float] = []
    samples = 0
    steps = step_clock(training.device)
    training.model.train()

    synchronize(training.device)
    started = time.perf_counter()
    steps.mark()
    asked = started
    batches = iter(training.train_loader)
    while (batch := next(batches, None)) is not None:
        data_wait_s.append(time.perf_counter() - asked)
        losses.append(train_step(training, batch))
        samples += len(batch[0])
        steps.mark()
        on_step(epoch, len(losses))
        asked = time.perf_counter()
    synchronize(training.device)
    wall_time_s = time.perf_counter() - started

    return {
        "wall_time_s": wall_time_s,
        "step_times_ms": steps.step_times_ms(),
        "data_wait_ms": [wait_s * 1e3 for wait_s in data_wait_s],
        "samples": samples,
        "train_losses": torch.stack(losses).tolist(),
    }


def _unlabelled(_name: str) -> AbstractContextManager[object]:
    return nullcontext()


def train_step(training: Training, batch: Batch, *, phase: Phase = _unlabelled) -> Tensor:
    """One step on one batch; the loss stays on the device, since fetching it would wait for the device."""
    with phase("data"):
        inputs, target = (part.to(training.device, non_blocking=True) for part in batch)
    with phase("forward"):
        loss = training.workload.loss(training.model(inputs), target)
    with phase("backward"):
        loss.backward()  # type: ignore[no-untyped-call]
    with phase("optimizer"):
        training.optimizer.step()
        training.optimizer.zero_grad(set_to_none=True)
    return loss.detach()


@torch.inference_mode()
def evaluate(training: Training) -> tuple[float, float]:
    """Mean loss and quality over the held-out samples."""
    training.model.eval()
    outputs, targets = [], []
    loss_sum = torch.zeros((), device=training.device)
    for inputs, target in training.test_loader:
        output = training.model(inputs.to(training.device, non_blocking=True))
        loss_sum += training.workload.loss(output, target.to(training.device, non_blocking=True)) * len(inputs)
        outputs.append(output.cpu())
        targets.append(target)
    quality = training.workload.quality(torch.cat(outputs), torch.cat(targets))
    return loss_sum.item() / training.test_samples, quality
