"""What the tests of several workloads do: compare data sets, and train for a few steps."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from gpu_report.workloads.protocol import TrainingWorkload


def all_of(dataset: Any) -> tuple[Tensor, Tensor]:
    """Every sample of a data set as one batch."""
    inputs, targets = next(iter(DataLoader(dataset, batch_size=len(dataset))))
    return inputs, targets


def losses_of_training(workload: TrainingWorkload, *, steps: int) -> list[float]:
    """The losses of some steps on one and the same batch: the whole training set."""
    torch.manual_seed(0)
    model = workload.build_model()
    optimizer = workload.build_optimizer(model)
    inputs, targets = all_of(workload.train_data())
    losses = []
    for _ in range(steps):
        loss = workload.loss(model(inputs), targets)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def parameters_of(workload: TrainingWorkload) -> int:
    """Trainable parameters of the workload's model."""
    return sum(parameter.numel() for parameter in workload.build_model().parameters())
