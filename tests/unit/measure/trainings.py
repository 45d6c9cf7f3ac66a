"""Trainings of small workloads on the CPU, for the tests of what a training does."""

from typing import Any

import torch

from gpu_report.measure.training import Trained, Training, build_training, train
from gpu_report.records.record import Epoch
from gpu_report.study.study import Protocol
from gpu_report.study.variant import Variant
from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.protocol import TrainingWorkload
from tests.unit.measure.tiny_workloads import Tiny

CPU = torch.device("cpu")


def tiny(*, samples: int = 10) -> TrainingWorkload:
    return Tiny(size="default", seed=0, samples=samples)


def pictures(*, samples: int = 10) -> TrainingWorkload:
    return CNNClassification(size="small", seed=0, train_samples=samples, test_samples=4)


def build(
    workload: TrainingWorkload,
    *,
    seed: int = 0,
    steps_per_epoch: int | None = None,
    batch_size: int = 4,
    **fields: Any,
) -> Training:
    variant = Variant(workload="tiny", device="cpu", batch_size=batch_size, epochs=2, **fields)
    return build_training(workload, variant, device=CPU, seed=seed, steps_per_epoch=steps_per_epoch)


def train_quietly(training: Training, *, epochs: int = 2) -> list[Epoch]:
    return train_for(training, epochs=epochs).epochs


def train_for(
    training: Training, *, epochs: int, timed_epochs: int = 1, timed_seconds: float = 0.0
) -> Trained:
    """As a repetition trains, without messages."""
    protocol = Protocol(
        repetitions=1, profile_steps=1, timed_epochs=timed_epochs, timed_seconds=timed_seconds
    )
    return train(
        training,
        epochs=epochs,
        protocol=protocol,
        on_step=lambda *_: None,
        before_epoch=lambda _: None,
    )


def losses(training: Training) -> list[float]:
    return [loss for epoch in train_quietly(training) for loss in epoch.train_losses]
