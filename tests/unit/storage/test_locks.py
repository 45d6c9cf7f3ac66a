"""The measuring lock of a machine, and Snakemake's after a killed run."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_report.errors import MachineError
from gpu_report.storage.locks import machine_to_itself, release_stale_lock

NOBODY = 65534
TAKE = (
    "import sys; from pathlib import Path; from gpu_report.storage.locks import machine_to_itself\n"
    "with machine_to_itself(Path(sys.argv[1])): print('measuring', flush=True)"
)


def test_a_second_measurement_waits_for_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with machine_to_itself(lock):
        second = subprocess.Popen(
            [sys.executable, "-c", TAKE, str(lock)], stdout=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        said = second.stdout.readline()
        assert "waiting" in said

    output, _ = second.communicate(timeout=60)
    assert output == "measuring\n"
    if sys.platform == "linux":
        assert f"process {os.getpid()}, since 20" in said


def test_waiting_ends_at_its_limit_with_the_process_that_measures(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        machine_to_itself(lock),
        pytest.raises(
            MachineError, match=str(os.getpid()) if sys.platform == "linux" else "another"
        ),
        machine_to_itself(lock, limit_s=0),
    ):
        raise AssertionError

    with machine_to_itself(lock, limit_s=0):
        pass


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_an_error_that_says_what_to_do(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", no_locks(code))

    with (
        pytest.raises(MachineError, match=f"{tmp_path}.*set TMPDIR"),
        machine_to_itself(tmp_path / "lock"),
    ):
        raise AssertionError


def no_locks(code: int) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


def test_a_lock_file_of_another_user_is_waited_for_like_ones_own() -> None:
    with tempfile.TemporaryDirectory() as shared:
        lock = Path(shared) / "lock"
        lock.touch()
        lock.chmod(0o444)
        Path(shared).chmod(0o1777)
        before = os.geteuid()
        try:
            if before == 0:
                os.seteuid(NOBODY)
            with pytest.raises(PermissionError):
                lock.open("a")
            with machine_to_itself(lock):
                pass
        finally:
            os.seteuid(before)


def test_every_user_may_open_a_new_lock_file_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with machine_to_itself(tmp_path / "lock"):
            pass
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o666


TOGETHER = """
import os, sys, time
from gpu_report.storage.locks import release_stale_lock

start, begin = os.pipe()
done, tell = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        os.close(begin)
        os.read(start, 1)
        release_stale_lock()
        os.write(tell, b".")
        time.sleep(60)
os.close(begin)
for _ in range(8):
    os.read(done, 1)
print(open(".snakemake/gpu_report_runs.json").read(), flush=True)
os.killpg(0, 9)
"""
REGISTER = "from gpu_report.storage.locks import release_stale_lock; release_stale_lock(); input()"


def locked(project: Path) -> Path:
    lock = project / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("report/gpu_report.pdf\n", "utf-8")
    return lock


def started_run(project: Path) -> "subprocess.Popen[str]":
    run = subprocess.Popen(
        [sys.executable, "-c", REGISTER], cwd=project, stdin=subprocess.PIPE, text=True
    )
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


def test_the_lock_of_a_living_run_stays_even_after_a_short_one_came_and_went(
    tmp_path: Path,
) -> None:
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


def test_runs_that_start_together_are_all_written_down(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TOGETHER]
    runs = subprocess.run(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=30,
        start_new_session=True,
    )

    assert len(json.loads(runs.stdout)) == 8


def test_the_empty_temporary_folder_of_a_killed_run_is_removed_and_one_that_holds_anything_is_not(
    tmp_path: Path,
) -> None:
    register = REGISTER.replace(
        "release_stale_lock();", "release_stale_lock(temporary_folder=sys.argv[1]);"
    )
    for name in ("empty", "full"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", f"import sys; {register}", str(tmp_path / name)]
        subprocess.run(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    (tmp_path / "full" / "file").touch()

    release_stale_lock(tmp_path)

    assert not (tmp_path / "empty").exists()
    assert (tmp_path / "full" / "file").exists()
