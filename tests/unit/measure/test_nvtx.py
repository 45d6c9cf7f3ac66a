"""`gpu-report run --nvtx` trains once with labels for a profiler, says how fast, and leaves no
record.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from gpu_report.cli import main
from gpu_report.errors import MachineError
from gpu_report.measure.nvtx import train_labelled
from tests.unit.measure.tiny_workloads import Tiny
from tests.unit.measure.trainings import measurement

EPOCHS, STEPS = 2, 3


STUDY = f"""
name: labelled
title: A study to look at from outside
devices: [cpu]
seed: 0
protocol: {{repetitions: 3, profile_steps: 1, timed_epochs: 1, timed_seconds: 0}}
workloads:
  tiny: {{class: "{Tiny.__module__}:Tiny"}}
  greedy: {{class: "{Tiny.__module__}:WantsTooMuch"}}
experiments:
  both:
    question: Which is faster?
    axis: workload
    baseline: tiny
    grid:
      - {{workload: [tiny, greedy], batch_size: 4, epochs: {EPOCHS}, steps_per_epoch: {STEPS}}}
"""


def has_nvtx() -> bool:
    try:
        torch.cuda.nvtx.mark("a test")  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(not has_nvtx(), reason="this PyTorch has no NVTX")
def test_a_labelled_run_prints_rates_and_reasons_leaves_no_record_and_fails_if_a_training_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY, "utf-8")
    monkeypatch.chdir(tmp_path)
    slugs = [f"{name}-cpu-b4-w0-fp32-e{EPOCHS}x{STEPS}" for name in ("greedy", "tiny")]

    assert main(["run", "--nvtx", *slugs, "--configfile", "study.yaml"]) == 2

    greedy, tiny = capsys.readouterr().out.splitlines()
    assert greedy.startswith(f"{slugs[0]}: oom: ")
    assert tiny.startswith(f"{slugs[1]}: ")
    assert tiny.endswith(" samples/s with NVTX ranges; nothing was recorded")
    assert list(tmp_path.rglob("record.json")) == []


@pytest.mark.parametrize(
    ("class_path", "phases"),
    [
        (
            "gpu_report.workloads.linear_regression:LinearRegression",
            ["forward", "loss", "backward", "optimizer"],
        ),
        ("Tiny", ["data", "forward", "backward", "optimizer"]),
    ],
)
def test_epochs_evaluations_and_the_phases_of_every_step_are_labelled(
    class_path: str, phases: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels: list[str] = []

    @contextmanager
    def kept(label: str) -> Iterator[None]:
        labels.append(label)
        yield

    monkeypatch.setattr(torch.cuda.nvtx, "mark", lambda label: None)
    monkeypatch.setattr(torch.cuda.nvtx, "range", kept)
    for name in (
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
    ):  # set by the training, and put back after the test
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("GPU_REPORT_THREADS", str(torch.get_num_threads()))

    train_labelled(measurement(class_path, epochs=EPOCHS, steps_per_epoch=STEPS), machine="here")

    assert labels == [
        label
        for epoch in range(EPOCHS)
        for label in (f"epoch {epoch}", *(phases * STEPS), "evaluation")
    ]


def test_without_nvtx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_label: str) -> None:
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    monkeypatch.setattr(torch.cuda.nvtx, "mark", fail)

    with pytest.raises(
        MachineError, match="this PyTorch has no NVTX; install one that is built for CUDA"
    ):
        train_labelled(measurement("Tiny"), machine="here")
