"""Whatever is killed in the middle, the same command completes, and no record is half-written."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from gpu_report.records.record import RECORD_FILE

from .conftest import Project

TARGET = "device"
VARIANT = "tiny-cpu-b8-w0-fp32-e2"
LOADING_SLOWED_BY_S = 0.02
GIVEN_UP_AFTER_S = 300
"""Long, as a training waits for those of other tests, and none of what is proved here is about
time.
"""


def process_with(word: str, snakemake: psutil.Process) -> psutil.Process | None:
    """The process below Snakemake whose command has this word; Snakemake's shell holds the words in
    one argument, so it does not match.
    """
    below = snakemake.children(recursive=True)
    return next((process for process in below if word in process.cmdline()), None)


def training_of(measuring: psutil.Process) -> psutil.Process | None:
    """The process that trains: forked by a child of what measures that has loaded PyTorch, so that
    it runs the same.

    While that child loads, it asks programs of the system, which are its children for a moment.
    """
    return next(
        (
            training
            for child in measuring.children()
            for training in child.children()
            if training.cmdline() == child.cmdline()
        ),
        None,
    )


def victims(snakemake: psutil.Process) -> dict[str, psutil.Process]:
    """The processes worth killing, once a training has begun."""
    deadline = time.monotonic() + GIVEN_UP_AFTER_S
    while time.monotonic() < deadline:
        time.sleep(0.05)
        try:
            job = process_with("measure-variant", snakemake)
            measuring = process_with("measure-for-jobs", snakemake)
            training = training_of(measuring) if measuring else None
        except psutil.NoSuchProcess:
            continue
        if job and measuring and training:
            return {
                "snakemake": snakemake,
                "job": job,
                "measuring": measuring,
                "training": training,
            }
    pytest.fail(f"no training began within {GIVEN_UP_AFTER_S} s")


@contextmanager
def started(project: Project) -> Iterator["subprocess.Popen[str]"]:
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(
        project.command(TARGET), cwd=project.folder, env=project.environment(), **output
    ) as running:  # type: ignore[call-overload]
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize(
    "victim",
    [
        "training",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("job", "measuring", "snakemake")),
    ],
)
def test_after_a_kill_the_same_command_completes(tiny: Project, victim: str) -> None:
    tiny.change_config(
        lambda config: config["workloads"]["tiny"].update(pause_s=LOADING_SLOWED_BY_S)
    )
    (killed,) = tiny.folder.glob(f"results/machines/*/runs/{VARIANT}/record.json")
    with started(tiny) as running:
        found = victims(psutil.Process(running.pid))
        os.kill(found[victim].pid, signal.SIGKILL)
        running.communicate(timeout=GIVEN_UP_AFTER_S)

    assert running.returncode != 0
    assert not killed.exists()
    _, alive = psutil.wait_procs([found["training"]], timeout=60)
    assert not alive, "a training outlived what it was measured for"

    again = tiny.snakemake(TARGET)

    assert again.returncode == 0, again.stdout + again.stderr
    assert RECORD_FILE.read(killed).status == "ok"
    assert tiny.planned(TARGET) == {}


@pytest.fixture
def interruptions_reach_commands() -> Iterator[None]:
    """Also where a shell has started the tests in the background, with SIGINT ignored, which
    commands inherit.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptions_reach_commands")
def test_ctrl_c_while_pytorch_is_imported_is_one_line(unbuilt_tiny: Project) -> None:
    command = ["gpu-report", "run", "--configfile", unbuilt_tiny.configfile, VARIANT]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(  # type: ignore[call-overload]
        command,
        cwd=unbuilt_tiny.folder,
        env=unbuilt_tiny.environment(),
        start_new_session=True,
        **output,
    ) as running:
        try:
            server = fork_server(psutil.Process(running.pid))
            time.sleep(0.3)  # into the import of PyTorch, which takes a second or more
            os.killpg(running.pid, signal.SIGINT)
            printed, _ = running.communicate(timeout=GIVEN_UP_AFTER_S)
        finally:
            running.kill()

    assert running.returncode == 130
    assert "gpu-report: interrupted" in printed
    assert "Traceback" not in printed
    _, alive = psutil.wait_procs([server], timeout=60)
    assert not alive


def fork_server(command: psutil.Process) -> psutil.Process:
    deadline = time.monotonic() + GIVEN_UP_AFTER_S
    while time.monotonic() < deadline:
        for child in command.children():
            with suppress(psutil.NoSuchProcess):
                if any("forkserver" in part for part in child.cmdline()):
                    return child
        time.sleep(0.01)
    pytest.fail(f"no training was prepared within {GIVEN_UP_AFTER_S} s")
