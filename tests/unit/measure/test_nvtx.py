"""`gpu-report run --nvtx` trains once with labels for a profiler, says how fast, and leaves no
record.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from gpu_report.errors import MachineError
from gpu_report.measure.nvtx import train_labelled
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant

EPOCHS, STEPS = 2, 3
ROOT = Path(__file__).parents[3]
GREEDY = f"greedy-cpu-b4-w0-fp32-e{EPOCHS}x{STEPS}"
PLAIN = f"linear_regression-cpu-b400-w0-fp32-e{EPOCHS}x{STEPS}"
IN_CPP = f"{PLAIN}-openmp"
STUDY = {
    "name": "labelled",
    "title": "A study to look at from outside",
    "devices": ["cpu"],
    "seed": 0,
    "protocol": {"repetitions": 3, "profile_steps": 1, "timed_epochs": 1, "timed_seconds": 0},
    "workloads": {
        "linear_regression": {"test_samples": 100},
        "greedy": {"class": "tests.unit.measure.tiny_workloads:WantsTooMuch"},
    },
    "experiments": {
        "loops": {
            "question": "Which loop is fastest?",
            "axis": "optimization",
            "baseline": "none",
            "grid": [
                {
                    "workload": "linear_regression",
                    "batch_size": 400,
                    "epochs": EPOCHS,
                    "steps_per_epoch": STEPS,
                    "optimization": ["none", "openmp"],
                },
                {"workload": "greedy", "batch_size": 4, "epochs": EPOCHS, "steps_per_epoch": STEPS},
            ],
        }
    },
}


def has_nvtx() -> bool:
    try:
        torch.cuda.nvtx.mark("a test")  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return True


def measurement(class_path: str, **settings: Any) -> Measurement:
    return Measurement(
        variant=Variant(
            workload="watched", device="cpu", batch_size=4, epochs=EPOCHS, steps_per_epoch=STEPS
        ),
        workload=Workload(name="watched", class_path=class_path, settings=settings),
        protocol=Protocol(repetitions=1, profile_steps=1, timed_epochs=1, timed_seconds=0),
    )


def run_labelled(folder: Path, *slugs: str) -> "subprocess.CompletedProcess[str]":
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY), "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "gpu_report", "run", "--nvtx", *slugs, "--configfile", "study.yaml"],
        cwd=folder,
        # A measurement that runs beside this test would be waited for, which is said on stdout.
        env={
            **os.environ,
            "CXX": "no-such-compiler",
            "TMPDIR": str(folder),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.skipif(not has_nvtx(), reason="this PyTorch has no NVTX")
def test_a_labelled_run_prints_rates_and_reasons_leaves_no_record_and_fails_if_a_training_did(
    tmp_path: Path,
) -> None:
    run = run_labelled(tmp_path, GREEDY, PLAIN, IN_CPP)

    assert run.returncode == 2, run.stderr
    greedy, plain, in_cpp = run.stdout.splitlines()
    assert greedy.startswith(f"{GREEDY}: oom: ")
    said, rate = plain.removesuffix(" samples/s with NVTX ranges; nothing was recorded").split(": ")
    assert (said, float(rate.replace(",", "")) > 0) == (PLAIN, True)
    assert in_cpp.startswith(f"{IN_CPP}: skipped: no C++ compiler")
    assert GREEDY in run.stderr
    assert PLAIN not in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.rglob("record.json")) == []
    assert list(tmp_path.glob("results/machines/*/runs")) == []


@pytest.mark.parametrize(
    ("class_path", "phases"),
    [
        (
            "gpu_report.workloads.linear_regression:LinearRegression",
            ["forward", "loss", "backward", "optimizer"],
        ),
        ("tests.unit.measure.tiny_workloads:Tiny", ["data", "forward", "backward", "optimizer"]),
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

    train_labelled(measurement(class_path), machine="here")

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
        train_labelled(measurement("tests.unit.measure.tiny_workloads:Tiny"), machine="here")
