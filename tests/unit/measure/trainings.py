"""Trainings of small workloads on the CPU, for the tests of what a training does."""

from pathlib import Path
from typing import Any

import torch

from gpu_report.measure.run import Run
from gpu_report.measure.training import Trained, Training, build_training, train
from gpu_report.measure.world import ALONE, World
from gpu_report.records.record import Epoch
from gpu_report.study.study import Measurement, Protocol, Workload
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
    world: World = ALONE,
    **fields: Any,
) -> Training:
    variant = Variant(workload="tiny", device="cpu", batch_size=batch_size, epochs=2, **fields)
    return build_training(
        workload, variant, device=CPU, seed=seed, steps_per_epoch=steps_per_epoch, world=world
    )


def measurement(
    class_path: str,
    *,
    repetitions: int = 1,
    profile_steps: int = 1,
    settings: dict[str, Any] | None = None,
    **fields: Any,
) -> Measurement:
    """Of a configuration on the CPU with batches of 4, which the fields change; one of the tiny
    workloads may be given by its name alone.
    """
    values = {"workload": "tiny", "device": "cpu", "batch_size": 4, "epochs": 3, **fields}
    named = class_path if ":" in class_path else f"{Tiny.__module__}:{class_path}"
    return Measurement(
        variant=Variant(**values),
        workload=Workload(name=values["workload"], class_path=named, settings=settings or {}),
        protocol=Protocol(
            repetitions=repetitions, profile_steps=profile_steps, timed_epochs=1, timed_seconds=0
        ),
    )


def run_of(asked: Measurement, *, index: int = 0, folder: Path = Path(), **fields: Any) -> Run:
    return Run(
        measurement=asked,
        machine="here",
        index=index,
        threads=1,
        trace_folder=folder,
        cache_folder=folder / "compiled",
        **fields,
    )


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
