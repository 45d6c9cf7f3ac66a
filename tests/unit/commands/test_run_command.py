"""What `gpu-report run` shows in the terminal, and what it keeps in its log."""

import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from gpu_report.cli import main
from gpu_report.commands.measuring import outcome
from gpu_report.measure.progress import INTERVAL_S, ProgressReporter
from gpu_report.measure.run import Message, Progress, Run
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from tests.factories import make_record

PROJECT = Path(__file__).parents[3]
STUDY = """
    name: lacking
    title: Lacking memory
    devices: [cpu]
    seed: 0
    protocol: {repetitions: 3, profile_steps: 1}
    workloads:
      host: {class: "tests.unit.measure.tiny_workloads:WantsTooMuch"}
      device: {class: "tests.unit.measure.tiny_workloads:WarnsAndLacksDeviceMemory"}
    experiments:
      memory:
        question: Does it fit?
        axis: workload
        baseline: host
        grid: [{workload: [host, device], batch_size: 4, epochs: 2}]
"""


@pytest.mark.slow
def test_lacking_memory_is_one_line_in_the_terminal_and_its_traceback_is_in_the_log(
    tmp_path: Path,
) -> None:
    (tmp_path / "study.yaml").write_text(dedent(STUDY), "utf-8")
    slugs = ["host-cpu-b4-w0-fp32-e2", "device-cpu-b4-w0-fp32-e2"]

    ran = subprocess.run(
        [sys.executable, "-m", "gpu_report", "run", "--configfile", "study.yaml", *slugs],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    (log,) = tmp_path.glob("results/machines/*/logs/run.log")
    for slug in slugs:
        (line,) = [line for line in ran.stdout.splitlines() if line.startswith(f"{slug}:")]
        assert "oom: repetition 1: " in line
        assert line.endswith(f"(log: {log.relative_to(tmp_path)})")
    kept = log.read_text("utf-8")
    assert kept.count("Traceback (most recent call last)") == len(slugs)
    assert "Warning: from below Python" in kept
    for unwanted in ("Traceback", "Warning: from below"):
        assert unwanted not in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--workload", "resnet19", "--batch-size", "4", "--epochs", "1"],
            "--workload: 'resnet19' is unknown",
        ),
        (["--workload", "lstm", "--batch-size", "4"], "--epochs: missing"),
        (
            ["--workload", "lstm", "--batch-size", "4", "--epochs", "1", "--missing"],
            "--workload: given beside names",
        ),
        (
            ["--workload", "lstm", "--batch-size", "4", "--epochs", "1", "--configfile", "no.yaml"],
            "cannot read no.yaml",
        ),
        (["--batch-size", "4"], "--batch-size: given without --workload"),
        (["--record", "lstm-cpu-b4-w0-fp32-e1"], "--record: given without --workload"),
    ],
)
def test_options_that_do_not_fit_are_one_line_that_begins_with_them(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["run", *arguments]) == 2

    assert capsys.readouterr().err.startswith(f"gpu-report: error: {message}")


def test_the_mean_that_is_printed_is_called_geometric() -> None:
    slow, fast = (
        make_record("cnn-small-cpu-b8-w0-fp32-e3", throughput_per_s=rate, noise=0.0)
        for rate in (100, 900)
    )
    processes = [slow.repetitions[0], fast.repetitions[1]]

    said = outcome(slow.model_copy(update={"repetitions": processes}))

    assert said.startswith("300 samples/s, geometric mean of 2 processes")


def test_the_rate_shown_is_that_of_timed_epochs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    sent: list[Message] = []
    measurement = Measurement(
        variant=Variant(workload="tiny", device="cpu", batch_size=8, epochs=3),
        workload=Workload(
            name="tiny", class_path="tests.unit.measure.tiny_workloads:Tiny", settings={}
        ),
        protocol=Protocol(repetitions=3, profile_steps=1),
    )
    folder = Path()
    run = Run(
        measurement=measurement,
        machine="here",
        index=0,
        threads=1,
        trace_folder=folder,
        cache_folder=folder,
    )
    reporter = ProgressReporter(sent.append, run, steps=2)

    for epoch, step_s in enumerate((50.0, INTERVAL_S, INTERVAL_S)):
        now_s += 100  # building and evaluating
        reporter.before_epoch(epoch)
        for step in (1, 2):
            now_s += step_s
            reporter.on_step(epoch, step)

    rates = {
        (message.epoch, message.samples_per_s) for message in sent if isinstance(message, Progress)
    }
    assert rates == {(0, None), (1, None), (1, 8 / INTERVAL_S), (2, None), (2, 8 / INTERVAL_S)}
