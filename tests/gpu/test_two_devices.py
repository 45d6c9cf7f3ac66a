"""GPUs that share one model learn what one learns that trains all of it; one that goes wrong is
named.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_report.measure.processes import MeasurementInterruptedError
from gpu_report.measure.variant_run import measure_variant
from gpu_report.records.record import Record
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from tests.unit.measure.test_ranks import measured as measured_by_ranks

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs")


def measured(folder: Path, **fields: Any) -> Record:
    """By the U-Net."""
    variant = {"size": "64px", "batch_size": 32, "epochs": 2, "steps_per_epoch": 3, **fields}
    return measure_variant(
        Measurement(
            variant=Variant(workload="unet", device="cuda", **variant),
            workload=Workload(
                name="unet",
                class_path="gpu_report.workloads.unet:UNetSegmentation",
                settings={"train_samples": 96, "test_samples": 8},
            ),
            protocol=Protocol(repetitions=1, profile_steps=2, timed_epochs=1, timed_seconds=0),
        ),
        machine="here",
        trace_folder=folder / "trace",
    )


FOUR = pytest.mark.skipif(torch.cuda.device_count() < 4, reason="there are no four GPUs")


@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=FOUR)])
@pytest.mark.parametrize(
    ("precision", "options"),
    [("fp32", "none"), ("bf16", "channelslast+fused+resident")],
    ids=["fp32", "bf16"],
)
def test_gpus_that_share_a_model_learn_what_one_learns(
    precision: str, options: str, devices: int, tmp_path: Path
) -> None:
    fields = {"precision": precision, "options": options, "accumulation": devices}
    alone = measured(tmp_path / "alone", **fields)
    peaks_mib = {"single": alone.repetitions[0].memory_peak_mib}
    for strategy, traces in (("split", 1), ("pipeline", devices)):
        folder = tmp_path / strategy
        shared = measured(folder, strategy=strategy, devices=devices, **fields)
        assert shared.status == "ok", shared.reason
        for epoch, expected in zip(
            shared.repetitions[0].epochs, alone.repetitions[0].epochs, strict=True
        ):
            assert epoch.samples == expected.samples
            assert epoch.train_losses == pytest.approx(expected.train_losses, rel=0.02)
        assert len(list((folder / "trace").iterdir())) == traces
        peaks_mib[strategy] = shared.repetitions[0].memory_peak_mib
    # A pipeline's first device keeps the activations of as many parts as there are devices.
    assert peaks_mib["split"] < peaks_mib["single"]


@pytest.mark.parametrize(
    ("what", "says"),
    [("SIGABRT", "rank 1 was ended by SIGABRT"), ("ArithmeticError", "rank 1: ArithmeticError")],
)
def test_a_rank_that_nccl_loses_is_named(what: str, says: str, tmp_path: Path) -> None:
    record = loses_rank(what, tmp_path)
    assert record.status == "failed"
    assert record.reason.startswith(f"repetition 1: {says}"), record.reason


@pytest.mark.parametrize(
    ("what", "says"),
    [("SIGSTOP", "was stopped"), ("SIGKILL", "rank 1 was ended by SIGKILL")],
)
def test_a_rank_of_nccl_that_is_ended_from_outside_is_no_result(
    what: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(MeasurementInterruptedError, match=says):
        loses_rank(what, tmp_path)


def loses_rank(what: str, folder: Path) -> Record:
    settings = {"where": "loss2", "what": what}
    return measured_by_ranks(
        "GoesWrongInOneRank", folder, device="cuda", patience_s=10, settings=settings
    )
