"""How many threads a training is given."""

import os

import pytest

from gpu_report.errors import MachineError
from gpu_report.measure.environment import host_environment
from gpu_report.measure.threads import training_threads
from gpu_report.study import machine


def test_variables_of_a_scheduler_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_REPORT_THREADS", raising=False)
    expected = training_threads()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, str(expected + 5))

    assert training_threads() == expected >= 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process")
def test_a_process_pinned_to_one_core_trains_with_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GPU_REPORT_THREADS", raising=False)
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [min(cores)])
        assert (training_threads(), host_environment()["cpu_cores"]) == (1, 1)
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.parametrize("quota", [1.0, 2.99])
def test_a_process_with_a_quota_trains_with_the_threads_that_it_pays_for(
    quota: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPU_REPORT_THREADS", raising=False)
    monkeypatch.setattr(machine, "usable_cores", lambda: range(8))
    monkeypatch.setattr(machine, "cpu_quota", lambda: quota)

    assert training_threads() == machine.core_count() == int(quota)


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", "\u00b2"])
def test_an_invalid_thread_count_is_refused(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv("GPU_REPORT_THREADS", asked)

    with pytest.raises(
        MachineError,
        match=r"GPU_REPORT_THREADS=.* is not a valid thread count; set it to 1 or more",
    ):
        training_threads()
