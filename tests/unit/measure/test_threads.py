"""How many threads a training is given."""

import os
import subprocess
import sys

import pytest

from gpu_report.errors import MachineError
from gpu_report.measure.threads import training_threads


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
    environment = {name: value for name, value in os.environ.items() if name != "GPU_REPORT_THREADS"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert answer.stdout == "1 1\n"


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", "\u00b2"])
def test_an_invalid_thread_count_is_refused(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv("GPU_REPORT_THREADS", asked)

    with pytest.raises(MachineError, match=r"GPU_REPORT_THREADS=.* is not a valid thread count; set it to 1 or more"):
        training_threads()
