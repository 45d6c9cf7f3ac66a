"""Jobs of one Snakemake leave what they measure to one process, as if each had measured itself."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gpu_report.commands.measuring_job import SNAKEMAKE
from gpu_report.study.machine import find_machine

CALIBRATE = "gpu-report calibrate --devices cpu --calibration {0}.json 2> {0}.log"
SHORT = f"{CALIBRATE} --machine another-machine"
"""It is not this machine, and the command says so at once."""
LONG = f"{CALIBRATE} --machine {find_machine().id}"
PATIENCE_S = 60


@contextmanager
def snakemake(folder: Path, script: str) -> Iterator["subprocess.Popen[str]"]:
    """A shell that starts jobs as Snakemake does, and names itself."""
    (folder / ".snakemake").mkdir(exist_ok=True)
    whole = f"export {SNAKEMAKE}=$$; {script}"
    with subprocess.Popen(
        ["bash", "-c", whole], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as shell:
        try:
            yield shell
        finally:
            shell.kill()


def shared_processes(shell: "subprocess.Popen[str]") -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[-2:] == ["--snakemake", str(shell.pid)]
    ]


def wait_until(happened: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline_s, f"after {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def measuring_process(shell: "subprocess.Popen[str]") -> psutil.Process:
    """Once it is in the middle of a job, for which it has started a server of fresh processes."""
    wait_until(
        lambda: any(each.children() for each in shared_processes(shell)), "no job is under way"
    )
    (process,) = shared_processes(shell)
    return process


def test_jobs_share_one_process_which_ends_with_snakemake(tmp_path: Path) -> None:
    said = "pgrep -f -- '--snakemake '$$; "
    with snakemake(tmp_path, f"{SHORT.format('a')}; {said}{SHORT.format('b')}; {said}") as shell:
        pids = (shell.communicate()[0]).split()
    assert len(pids) == 2
    assert pids[0] == pids[1]
    wait_until(lambda: not psutil.pid_exists(int(pids[0])), "it has not ended")
    assert not list((tmp_path / ".snakemake").iterdir())


def test_a_mistake_stands_in_the_log_of_its_job(tmp_path: Path) -> None:
    with snakemake(
        tmp_path, f"{SHORT.format('a')}; echo $?; {SHORT.format('b')}; echo $?"
    ) as shell:
        assert shell.communicate()[0].split() == ["2", "2"]
    for name in "ab":
        (line,) = (tmp_path / f"{name}.log").read_text("utf-8").splitlines()
        assert line.startswith("gpu-report: error: ")


def test_a_job_that_is_killed_ends_what_was_measured_for_it(tmp_path: Path) -> None:
    script = f"{LONG.format('a')} & echo $!; wait; {SHORT.format('b')}; echo $?"
    with snakemake(tmp_path, script) as shell:
        assert shell.stdout is not None
        job = int(shell.stdout.readline())
        process = measuring_process(shell)
        os.kill(job, signal.SIGKILL)
        assert shell.communicate()[0].split() == ["2"]  # by another process: this one is ending
        wait_until(lambda: not process.is_running(), "it has not ended")
    assert not (tmp_path / "a.json").exists()
    assert "error" in (tmp_path / "b.log").read_text("utf-8")


def test_snakemake_that_is_killed_takes_the_process_with_it(tmp_path: Path) -> None:
    with snakemake(tmp_path, f"{LONG.format('a')}; true") as shell:
        process = measuring_process(shell)
        shell.kill()
        wait_until(lambda: not process.is_running(), "it has not ended")


def test_a_job_says_that_the_process_was_killed(tmp_path: Path) -> None:
    with snakemake(tmp_path, f"{LONG.format('a')}; echo $?; {SHORT.format('b')}; echo $?") as shell:
        measuring_process(shell).kill()
        assert shell.communicate()[0].split() == ["2", "2"]
    assert "run the same command again" in (tmp_path / "a.log").read_text("utf-8")
    assert "run the same command again" not in (tmp_path / "b.log").read_text("utf-8")


def test_a_process_that_ignores_ctrl_c_as_its_jobs_do_measures_on(tmp_path: Path) -> None:
    with snakemake(tmp_path, f"trap '' INT; {LONG.format('a')}; echo $?") as shell:
        process = measuring_process(shell)
        process.send_signal(signal.SIGINT)
        assert shell.communicate()[0].split()[-1] == "0"
    assert (tmp_path / "a.json").exists()


def test_a_command_that_is_no_job_measures_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = psutil.Process().children()
    monkeypatch.setenv(SNAKEMAKE, str(elsewhere[0].pid) if elsewhere else "1000000")
    (tmp_path / ".snakemake").mkdir()
    subprocess.run(["bash", "-c", SHORT.format("a")], cwd=tmp_path, check=False)
    assert "error" in (tmp_path / "a.log").read_text("utf-8")
    assert not list((tmp_path / ".snakemake").iterdir())
