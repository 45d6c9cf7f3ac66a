"""Whose work the machine did while a training was timed."""

import os

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.measure.progress import SHORTEST_S, CpuTimes, load_between, read_cpu_times
from gpu_report.study.machine import usable_cores

START = CpuTimes(moment_s=0, total_s=0, busy_s=0, steal_s=0, own_s=0)
seconds = st.floats(0, 100)


def test_work_of_ones_own_is_not_foreign() -> None:
    load = load_between(START, CpuTimes(moment_s=10, total_s=20, busy_s=12, steal_s=1, own_s=10))
    assert load.foreign_cpu_share == 0.1
    assert load.steal_share == 0.05


@given(busy_s=seconds, own_s=seconds, steal_s=seconds)
def test_shares_stay_between_nothing_and_everything(
    busy_s: float, own_s: float, steal_s: float
) -> None:
    load = load_between(
        START, CpuTimes(moment_s=10, total_s=20, busy_s=busy_s, steal_s=steal_s, own_s=own_s)
    )
    assert load.foreign_cpu_share is not None
    assert load.steal_share is not None
    assert 0 <= load.foreign_cpu_share <= 1
    assert 0 <= load.steal_share <= 1


def test_a_time_too_short_to_measure_or_a_system_without_steal_time_gives_no_share() -> None:
    short = CpuTimes(moment_s=SHORTEST_S / 2, total_s=1, busy_s=1, steal_s=0, own_s=0)
    without_steal = CpuTimes(moment_s=10, total_s=20, busy_s=1, steal_s=None, own_s=0)
    assert load_between(START, short).foreign_cpu_share is None
    assert load_between(START, short).steal_share is None
    assert load_between(START, without_steal).steal_share is None


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(usable_cores()) < 2,
    reason="needs to be pinned to one core of two",
)
def test_only_cores_that_the_process_may_run_on_count() -> None:
    everywhere = read_cpu_times()
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [max(cores)])
        pinned = read_cpu_times()
    finally:
        os.sched_setaffinity(0, cores)
    times = psutil.cpu_times(percpu=True)[max(cores)]
    expected_s = sum(times) - times.guest - times.guest_nice

    assert pinned.total_s == pytest.approx(expected_s, rel=0.01)
    assert pinned.total_s < 0.9 * everywhere.total_s
