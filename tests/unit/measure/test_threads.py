"""How many threads a training is given."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_report.errors import MachineError
from gpu_report.measure.threads import training_threads
from gpu_report.study.control_groups import group_folders
from gpu_report.study.machine import usable_cores

WITHOUT_SETTING = {
    name: value for name, value in os.environ.items() if name != "GPU_REPORT_THREADS"
}


def test_variables_of_a_scheduler_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_REPORT_THREADS", raising=False)
    expected = training_threads()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, str(expected + 5))

    assert training_threads() == expected >= 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process")
def test_a_process_pinned_to_one_core_trains_with_one_thread() -> None:
    program = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "from gpu_report.measure.environment import host_environment\n"
        "from gpu_report.measure.threads import training_threads\n"
        "print(training_threads(), host_environment()['cpu_cores'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=WITHOUT_SETTING,
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout == "1 1\n"


@pytest.fixture
def limited_group() -> Iterator[Path]:
    """A control group of the kernel's for at most half the time of the cores, but for a
    hundredth.
    """
    folders = [
        folder for folder in group_folders("cpu") if folder.is_dir() and os.access(folder, os.W_OK)
    ]
    if not folders:
        pytest.skip("needs a control group that may be changed")
    group = folders[0] / f"gpu-report-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        quota_us = 50_000 * len(usable_cores()) - 1000
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} 100000", "ascii")
        elif (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text(str(quota_us), "ascii")
        else:
            pytest.skip("this group's children have no quota")
        yield group
    finally:
        group.rmdir()


def test_a_process_with_a_quota_trains_with_the_threads_that_it_pays_for(
    limited_group: Path,
) -> None:
    program = (
        "import os, sys; open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))\nfrom "
        "gpu_report.measure.environment import host_environment\nfrom gpu_report.measure.threads "
        "import training_threads\nfound = host_environment(); print(training_threads(), "
        "found['cpu_cores'], found['cpu_quota'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(limited_group)],
        env=WITHOUT_SETTING,
        capture_output=True,
        text=True,
        check=True,
    )

    quota = len(usable_cores()) / 2 - 0.01
    threads = max(1, int(quota))
    assert answer.stdout == f"{threads} {threads} {quota}\n"


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", "\u00b2"])
def test_an_invalid_thread_count_is_refused(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv("GPU_REPORT_THREADS", asked)

    with pytest.raises(
        MachineError,
        match=r"GPU_REPORT_THREADS=.* is not a valid thread count; set it to 1 or more",
    ):
        training_threads()
