"""The trainings that the benchmarks measure: the sources' own sizes on an accelerator, a few steps
of them on a CPU.
"""

import os
import sys
from typing import Any, Final

import torch

from gpu_report.measure.training import Training, build_training, prepare
from gpu_report.measure.world import World, join
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import load_workload

UNET: Final = {"workload": "unet", "size": "128px", "batch_size": 16}
LSTM: Final = {"workload": "lstm", "batch_size": 64}
SOURCES_SAMPLES: Final = {"unet": 500, "lstm": 2000}
SMALL_UNET: Final = {"workload": "unet", "size": "32px", "batch_size": 4}
SMALL_SAMPLES: Final = {"unet": 12, "lstm": 128}


def training_of(name: str, device: str) -> tuple[dict[str, Any], int]:
    """The fields of the variant and how many samples an epoch has."""
    if device == "cpu":
        return (SMALL_UNET if name == "unet" else LSTM), SMALL_SAMPLES[name]
    return (UNET if name == "unet" else LSTM), SOURCES_SAMPLES[name]


def measurement_of(
    fields: dict[str, Any],
    *,
    device: str,
    samples: int,
    test_samples: int = 64,
    repetitions: int = 3,
    **changes: Any,
) -> Measurement:
    """A measurement of a workload of ours; `changes` are more fields of the variant."""
    variant = Variant(**{"epochs": 5, **fields, "device": device, **changes})
    workload = Workload(
        name=variant.workload,
        class_path=BUILT_IN_WORKLOADS[variant.workload].class_path,
        settings={"train_samples": samples, "test_samples": test_samples},
    )
    return Measurement(
        variant=variant,
        workload=workload,
        protocol=Protocol(repetitions=repetitions, profile_steps=1),
    )


def prepared_training(measurement: Measurement) -> Training:
    """The training of a measurement, built and prepared in this process."""
    variant = measurement.variant
    workload = load_workload(measurement.workload, size=variant.size, seed=0)
    training = build_training(
        workload,
        variant,
        device=torch.device(variant.device),
        seed=0,
        steps_per_epoch=variant.steps_per_epoch,
    )
    prepare(training)
    return training


def joined(benchmark: str, device: str, *, patience_s: float) -> tuple[World, torch.device]:
    """The ranks that torchrun has started, of which this process is one with one thread, and the
    device of this one.
    """
    if "LOCAL_RANK" not in os.environ:
        sys.exit(f"start it with: torchrun --nproc-per-node 2 -m benchmarks.{benchmark}")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    torch.set_num_threads(1)
    of_rank = torch.device("cpu")
    if device == "cuda":
        of_rank = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(of_rank)
    return join(of_rank, expected=int(os.environ["WORLD_SIZE"]), patience_s=patience_s), of_rank
