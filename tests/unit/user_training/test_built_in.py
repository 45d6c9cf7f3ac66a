"""A built-in workload is profiled by its name: the study's step, in this process, which is left as
it was.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision.datasets import CIFAR10

from gpu_report import profile
from gpu_report.errors import GpuReportError
from gpu_report.measure.training import build_training, train_epoch
from gpu_report.records import record
from gpu_report.study.options import Optimization
from gpu_report.study.single import single_study
from gpu_report.user_training import blocks, run
from gpu_report.user_training.workload import Loading, TrainingStep
from gpu_report.workloads.protocol import load_workload


def built(**row: Any) -> Any:
    study = single_study(
        "cnn", {"batch_size": 16, "size": "small", "epochs": 1, **row}, devices=("cpu",)
    )
    measurement = study.measurement(study.variants[0].slug)
    workload = load_workload(
        replace(measurement.workload, settings={"train_samples": 40}), size="small", seed=0
    )
    return build_training(
        workload, measurement.variant, device=torch.device("cpu"), seed=0, steps_per_epoch=None
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_its_steps_have_the_losses_of_the_study(precision: str) -> None:
    of_study, _ = train_epoch(built(precision=precision), epoch=0, on_step=lambda *_: None)
    training = built(precision=precision)
    training.model.train()
    step = TrainingStep(training, loading=Loading(training.train_loader))

    losses = [step.once(step.take(phase=nullcontext), phase=nullcontext).item() for _ in range(3)]

    assert losses == pytest.approx(of_study["train_losses"], rel=1e-6)  # which a record rounds
    assert step.samples == 40


def test_a_name_is_profiled_within_an_epoch_and_the_process_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "MOST_SLOWED", 100.0)
    threads = torch.get_num_threads()
    numbers, autotunes = torch.get_rng_state(), torch.backends.cudnn.benchmark
    monkeypatch.setattr(run, "RULES", replace(blocks.RULES, timed_seconds=0.1))

    found = profile("cnn", size="small", batch_size=64, epochs=1)

    assert found.measured.samples == 64
    assert 2 < found.measured.steps <= 32  # of an epoch of 2048 samples
    assert torch.equal(torch.get_rng_state(), numbers)
    assert (torch.get_num_threads(), torch.backends.cudnn.benchmark) == (threads, autotunes)


@pytest.mark.parametrize(("size", "parameters"), [(None, 406_674), ("small", 31_258)])
def test_simple_cnn_is_the_image_cnn_of_medium_size_unless_another_is_given(
    size: str | None, parameters: int
) -> None:
    step = run.built_in_step(
        "simple_cnn",
        samples=8,
        size=size,
        precision="fp32",
        device="cpu",
        optimization=Optimization(),
    )

    assert sum(each.numel() for each in step.training.model.parameters()) == parameters


def test_a_call_without_arguments_is_about_resnet18_on_cifar10(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(CIFAR10, "url", "file:///nowhere/cifar-10-python.tar.gz")

    with pytest.raises(GpuReportError, match=r"^workloads\.resnet18\.data: CIFAR-10 is not in"):
        profile()


def test_too_few_steps_in_an_epoch_are_insufficient_data_and_say_what_to_do() -> None:
    found = profile("cnn", size="small", batch_size=1024, epochs=1)

    assert found.measured.steps <= 2
    assert "do not fit into 60 s and 1 epoch" in found.problem
    assert "no limit of epochs" in found.remedy


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "resnet19"}, "model: 'resnet19' is unknown; use one of unet, .*resnet18"),
        ({"model": "image_files"}, "model: 'image_files' trains on files .*gpu-report run"),
        (
            {"batch_size": None},
            "batch_size: none was given; expected the samples of a step of lstm",
        ),
        ({"dataset": "cifar10"}, "dataset: lstm has no data set 'cifar10'"),
        ({"model": "unet", "size": "1px"}, "size: unet has no size '1px'; use one of 32px"),
        ({"model": "cnn", "size": ["small", "large"]}, "model: 2 configurations of cnn"),
        ({"epochs": 0}, "epochs: 0 is not allowed"),
        ({"precision": "tf32"}, "precision: cpu has no TF32"),
        ({"device": "banana"}, "device: device 'banana' is not present"),
        ({"loss": print}, "loss: given beside the name 'lstm'"),
        ({"model": torch.nn.Linear(2, 2)}, "batch_size: given without the name"),
        (
            {"model": "cnn", "size": "small", "batch_size": 9999},
            "cnn-small-.*: a batch of 9999 is more than the 2048",
        ),
    ],
)
def test_what_a_name_cannot_be_profiled_with_is_one_line(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(GpuReportError, match=f"^{message}") as raised:
        profile(**{"model": "lstm", "batch_size": 4, **given})

    assert "\n" not in str(raised.value)
