"""Whatever is killed in the middle, the same command completes, and no record is half-written."""

import os
import signal
import subprocess
import time
from collections.abc import Callable

import psutil
import pytest

from gpu_report.records import read_record

from .conftest import Project

pytestmark = pytest.mark.slow

TARGET = "device"


def trainings_below(pid: int) -> list[psutil.Process]:
    """The processes that train: children of the measuring command, which comes first."""
    for process in psutil.Process(pid).children(recursive=True):
        if "measure-variant" in process.cmdline() and "python" in process.name():
            return [process, *process.children(recursive=True)]
    return []


def wait_for_a_training(pid: int) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = trainings_below(pid)
        if len(found) > 1:
            return found
        time.sleep(0.05)
    raise TimeoutError("no training began within a minute")


def slow_down(project: Project, pause_s: float) -> None:
    project.change_config(lambda config: config["workloads"]["tiny"].update(pause_s=pause_s))


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(lambda processes: processes[1], id="the training"),
        pytest.param(lambda processes: processes[0], id="the command that forks it"),
    ],
)
def test_after_a_killed_training_the_same_command_completes(
    unbuilt_tiny: Project, victim: Callable[[list[psutil.Process]], psutil.Process]
) -> None:
    slow_down(unbuilt_tiny, 0.05)
    running = subprocess.Popen(
        unbuilt_tiny.command(TARGET),
        cwd=unbuilt_tiny.folder,
        env=unbuilt_tiny.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    processes = wait_for_a_training(running.pid)

    os.kill(victim(processes).pid, signal.SIGKILL)
    output, _ = running.communicate(timeout=120)

    assert running.returncode != 0, output
    assert unbuilt_tiny.records() == []
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert not alive, "a training outlived the command that was measuring it"

    again = unbuilt_tiny.snakemake(TARGET)

    assert again.returncode == 0, again.stdout + again.stderr
    assert [read_record(path).status for path in unbuilt_tiny.records()] == ["ok"]
