"""How much of the machine others used while a training was timed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psutil

from gpu_report.machine import usable_cores
from gpu_report.records import Load

SHORTEST_S: Final = 0.2
"""Below this the system's clock ticks of 10 ms say nothing about shares."""


@dataclass(frozen=True, kw_only=True)
class CpuTimes:
    """CPU seconds of the cores that this process may run on, and of it with its children, at one moment.

    What others do on further cores takes nothing from a process that may not run there.
    """

    moment_s: float
    total_s: float
    busy_s: float
    steal_s: float | None
    own_s: float


def read_cpu_times() -> CpuTimes:
    """Read the counters now; costs about a millisecond, so outside the timed region."""
    fields = _times_of_cores(usable_cores())
    # User time holds guest time already.
    total_s = sum(fields.values()) - fields.get("guest", 0.0) - fields.get("guest_nice", 0.0)
    steal_s = fields.get("steal")
    not_busy_s = fields["idle"] + fields.get("iowait", 0.0) + (steal_s or 0.0)
    return CpuTimes(
        moment_s=time.monotonic(),
        total_s=total_s,
        busy_s=total_s - not_busy_s,
        steal_s=steal_s,
        own_s=_own_cpu_s(),
    )


def _times_of_cores(cores: Sequence[int]) -> dict[str, float]:
    each = [times._asdict() for times in psutil.cpu_times(percpu=True)]
    # Where cores are switched off or the system shows a container fewer, numbers say nothing about places in the list.
    chosen = [each[core] for core in cores] if max(cores) < len(each) else each
    return {name: sum(times[name] for times in chosen) for name in chosen[0]}


def load_between(before: CpuTimes, after: CpuTimes) -> Load:
    """The load between two readings; shares are None where the time between was too short to tell."""
    total_s = after.total_s - before.total_s
    if after.moment_s - before.moment_s < SHORTEST_S or total_s <= 0:
        return Load(foreign_cpu_share=None, steal_share=None)
    foreign_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    steal_s = None if before.steal_s is None or after.steal_s is None else after.steal_s - before.steal_s
    return Load(
        foreign_cpu_share=_share(foreign_s, total_s),
        steal_share=None if steal_s is None else _share(steal_s, total_s),
    )


def _share(part_s: float, total_s: float) -> float:
    """Counters of a process and of the machine tick apart, so that a share may come out just below 0 or above 1."""
    return min(max(part_s / total_s, 0.0), 1.0)


def _own_cpu_s() -> float:
    own = psutil.Process()
    spent = own.cpu_times()
    own_s = spent.user + spent.system + spent.children_user + spent.children_system
    for worker in own.children(recursive=True):
        try:
            worker_spent = worker.cpu_times()
        except psutil.Error:
            continue
        own_s += worker_spent.user + worker_spent.system
    return own_s
