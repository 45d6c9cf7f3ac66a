import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from gpu_report.run_registry import release_stale_lock

REGISTER = "from gpu_report.run_registry import release_stale_lock; release_stale_lock(); input()"


def locked(project: Path) -> Path:
    lock = project / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("report/gpu_report.pdf\n", "utf-8")
    return lock


def started_run(project: Path) -> "subprocess.Popen[str]":
    run = subprocess.Popen([sys.executable, "-c", REGISTER], cwd=project, stdin=subprocess.PIPE, text=True)
    registry = project / ".snakemake/gpu_report_runs.json"
    while not registry.exists() or str(run.pid) not in registry.read_text("utf-8"):
        assert run.poll() is None
    return run


def test_the_lock_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    run = started_run(tmp_path)
    lock = locked(tmp_path)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()

    release_stale_lock(tmp_path)

    assert not lock.exists()


def test_the_lock_of_a_living_run_stays_even_after_a_short_one_came_and_went(tmp_path: Path) -> None:
    run = started_run(tmp_path)
    lock = locked(tmp_path)
    started_run(tmp_path).communicate("\n")

    release_stale_lock(tmp_path)

    assert lock.exists()
    run.communicate("\n")


def test_the_lock_of_a_run_on_another_host_stays(tmp_path: Path) -> None:
    lock = locked(tmp_path)
    elsewhere = [{"host": "another-host", "process_id": 1, "started_at": 0.0}]
    (tmp_path / ".snakemake/gpu_report_runs.json").write_text(json.dumps(elsewhere), "utf-8")

    release_stale_lock(tmp_path)

    assert lock.exists()


def test_a_lock_that_nobody_wrote_down_stays(tmp_path: Path) -> None:
    lock = locked(tmp_path)

    release_stale_lock(tmp_path)

    assert lock.exists()
