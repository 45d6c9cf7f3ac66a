"""Progress of a training while its clock runs, at next to no cost, and the background load of the
machine.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

from gpu_report.measure.run import Progress, Run, Send
from gpu_report.records.record import Load
from gpu_report.study.machine import usable_cores

SHORTEST_S: Final = 0.2
"""Below this the system's clock ticks of 10 ms say nothing about shares."""

INTERVAL_S: Final = 0.25
"""A message takes some 50 microseconds: four a second stay far below what a clock could notice."""


class ProgressReporter:
    """Follows one run: called before each epoch, outside the timed region, and after each step,
    inside it.
    """

    def __init__(self, send: Send, run: Run, *, steps: int, pids: Sequence[int] = ()) -> None:
        self._send, self._run, self._steps, self._pids = send, run, steps, pids
        self._cpu_times: list[CpuTimes] = []
        self._epoch_started_s = self._sent_s = time.monotonic()

    def before_epoch(self, epoch: int) -> None:
        """Called once more after the last epoch, with the number of epochs; sent at once, however
        short epochs are.
        """
        self._cpu_times.append(read_cpu_times(self._pids))
        self._report(epoch, 0, samples_per_s=None)
        self._epoch_started_s = time.monotonic()

    def on_step(self, epoch: int, step: int) -> None:
        now_s = time.monotonic()
        if now_s - self._sent_s < INTERVAL_S:
            return
        self._sent_s = now_s
        # The first epoch is always warm-up; whether more are is decided at the end.
        rate_per_s = (
            step * self._run.measurement.variant.batch_size / (now_s - self._epoch_started_s)
            if epoch
            else None
        )
        self._report(epoch, step, samples_per_s=rate_per_s)

    def _report(self, epoch: int, step: int, *, samples_per_s: float | None) -> None:
        is_extra = epoch >= self._run.epochs  # how many of those there will be is not known
        self._send(
            Progress(
                repetition=self._run.index,
                repetitions=self._run.measurement.protocol.repetitions,
                is_profiled=self._run.is_profiled,
                epoch=self._run.epochs - 1 if is_extra else epoch,
                epochs=self._run.epochs,
                step=self._steps if is_extra else step,
                steps=self._steps,
                samples_per_s=samples_per_s,
            )
        )

    def load(self, *, first_epoch: int) -> Load:
        """The machine's load from that epoch to the end of the last, the evaluations between them
        included.
        """
        return load_between(self._cpu_times[first_epoch], self._cpu_times[-1])


@dataclass(frozen=True, kw_only=True)
class CpuTimes:
    """CPU seconds of the cores that this process may run on, and of the training's processes, at
    one moment.

    Load on any other core takes nothing from it.
    """

    moment_s: float
    total_s: float
    busy_s: float
    steal_s: float | None
    own_s: float


def read_cpu_times(pids: Sequence[int] = ()) -> CpuTimes:
    """Read the counters now; costs about a millisecond, so outside the timed region.

    The training's own are this process, or those given where there are several, with their
    children.
    """
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
        own_s=_cpu_s_with_children(pids[0] if pids else os.getpid()),
    )


def _times_of_cores(cores: Sequence[int]) -> dict[str, float]:
    each = [times._asdict() for times in psutil.cpu_times(percpu=True)]
    # Where cores are switched off or the system shows a container fewer, core numbers are not
    # positions in the list.
    chosen = [each[core] for core in cores] if max(cores) < len(each) else each
    return {name: sum(times[name] for times in chosen) for name in chosen[0]}


def load_between(before: CpuTimes, after: CpuTimes) -> Load:
    """The load between two readings; shares are None where too little time was between."""
    total_s = after.total_s - before.total_s
    if after.moment_s - before.moment_s < SHORTEST_S or total_s <= 0:
        return Load(foreign_cpu_share=None, steal_share=None)
    foreign_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    steal_s = (
        None if before.steal_s is None or after.steal_s is None else after.steal_s - before.steal_s
    )
    return Load(
        foreign_cpu_share=_share(foreign_s, total_s),
        steal_share=None if steal_s is None else _share(steal_s, total_s),
    )


def _share(part_s: float, total_s: float) -> float:
    """Counters of a process and of the machine tick apart, so that a share may come out just below
    0 or above 1.
    """
    return min(max(part_s / total_s, 0.0), 1.0)


def _cpu_s_with_children(pid: int) -> float:
    """0 for a process that has ended."""
    try:
        own = psutil.Process(pid)
        spent = own.cpu_times()
    except psutil.Error:
        return 0.0
    own_s = spent.user + spent.system + spent.children_user + spent.children_system
    for worker in own.children(recursive=True):
        with suppress(psutil.Error):
            spent = worker.cpu_times()
            own_s += spent.user + spent.system
    return own_s
