"""Small trainings on a GPU that tests of options and precisions compare, and what their
traces say.
"""

import json
from pathlib import Path
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile

from gpu_report.measure.training import Training, build_training, prepare, train, train_step
from gpu_report.records.record import Epoch
from gpu_report.study.study import Protocol
from gpu_report.study.variant import Variant
from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.lstm import LSTMClassification
from gpu_report.workloads.protocol import TrainingWorkload
from gpu_report.workloads.unet import UNetSegmentation

CUDA: Final = torch.device("cuda")
BATCH_SIZE: Final = 8
SAMPLES: Final = 20
STEPS: Final = 3
"""Two full batches and one of 4."""

Events = list[dict[str, Any]]


def cnn() -> TrainingWorkload:
    return CNNClassification(size="medium", seed=0, train_samples=SAMPLES, test_samples=8)


def unet(*, size: str = "64px") -> TrainingWorkload:
    return UNetSegmentation(size=size, seed=0, train_samples=SAMPLES, test_samples=4)


def lstm() -> TrainingWorkload:
    return LSTMClassification(size="default", seed=0, train_samples=SAMPLES, test_samples=8)


def build(workload: TrainingWorkload, **fields: Any) -> Training:
    variant = Variant(workload="tiny", device="cuda", batch_size=BATCH_SIZE, epochs=2, **fields)
    return build_training(workload, variant, device=CUDA, seed=0, steps_per_epoch=None)


def train_quietly(training: Training) -> list[Epoch]:
    prepare(training)
    protocol = Protocol(repetitions=1, profile_steps=1, timed_epochs=1, timed_seconds=0)
    return train(
        training, epochs=2, protocol=protocol, on_step=lambda *_: None, before_epoch=lambda _: None
    ).epochs


def losses(training: Training) -> list[float]:
    return [loss for epoch in train_quietly(training) for loss in epoch.train_losses]


def trace(training: Training, folder: Path) -> Events:
    """The events of one epoch of training; another one before it is not traced."""
    prepare(training)
    train_epoch(training)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True
    ) as profiler:
        train_epoch(training)
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events: Events = json.loads((folder / "trace.json").read_text("utf-8"))["traceEvents"]
    return events


def train_epoch(training: Training) -> None:
    training.model.train()
    for batch in training.train_loader:
        train_step(training, batch)
    torch.cuda.synchronize()


def kernels(events: Events) -> list[str]:
    return [event["name"] for event in events if event.get("cat") == "kernel"]
