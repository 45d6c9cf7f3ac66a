"""One process's part of a measurement, a timed repetition or the profiled run, and the messages
that it sends back.

Run -> Started -> Built -> Progress ... -> TimedRun or ProfiledRun, or at any point Stopped or a
GpuReportError
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gpu_report.measure.hosts import ONE_HOST, Hosts
from gpu_report.records.record import OutOfMemory, Profile, Repetition, WorkloadFacts
from gpu_report.study.study import Measurement

LEAST_WARM_UP_STEPS: Final = 2
MOST_WARM_UP_STEPS: Final = 200
WARM_UP_S: Final = 0.5
"""A profiled run warms up for this time, within these numbers of steps: after 10 steps of 3 ms a
training with a DataLoader was still up to twice as slow as in its timed epochs, on one H100.
"""
PATIENCE_S: Final = 300.0
"""One process may compile for a minute longer than another."""
BATCHES_PER_WORKER: Final = 2
"""That each DataLoader worker has ready after a pause of the training."""
MOST_LIGHT_PROFILES: Final = 3
"""Taken one after the other until the steps of one take as long as timed ones: a launch-bound step
varies by half from one second to the next, with and without the profiler.
"""
RANKS_PROFILE_FACTOR: Final = 3
"""On two H100, in the traces of three steps, 16 of 20 ranks that were a tenth slower waited less in
each of them, and one of 20 that were as fast.
"""
RICH_STEPS: Final = 1
"""With stacks a step writes ten times as many events; its allocations are the same in every
step.
"""


def profiler_warm_up_steps(workers: int) -> int:
    """Steps before a light trace with the profiler on and not recording.

    They keep out of the trace the profiler's start, and the batches that the workers had ready
    after it.
    """
    return 1 + BATCHES_PER_WORKER * workers


def trace_name(rank: int = 0) -> str:
    """The name that HTA and TensorBoard look for."""
    return f"rank{rank}.pt.trace.json.gz"


def unfinished_trace(trace_folder: Path, rank: int = 0) -> Path:
    """Where a trace is written before it is whole: beside its folder, which never holds anything
    else than traces.
    """
    return trace_folder.parent / f".unfinished.{trace_name(rank)}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A timed repetition with its `index`, from 0, or the profiled run."""

    measurement: Measurement
    machine: str
    index: int
    is_profiled: bool = False
    first_index: int = 0
    """Of the process that describes the workload and compiles with an empty cache."""
    threads: int
    trace_folder: Path
    """For the light trace of the profiled run, and nothing else."""
    cache_folder: Path
    """Of the compiler; the variant's own, and empty when its first process begins."""
    timed_step_ms: float | None = None
    """Of the repetitions, for the profiled run."""
    rich_trace_folder: Path | None = None
    """For its rich trace; None where none is wanted."""
    memory_folder: Path | None = None
    """For the snapshot of the profiled run; None where none is wanted."""
    patience_s: float = PATIENCE_S
    """How long one of several processes waits for the others before the run has failed."""
    hosts: Hosts = ONE_HOST
    """That share the run, of which this process is on one."""
    pieces_of_stages: tuple[int, ...] = ()
    """As the first repetition divided its model among devices, so that all of them train the same
    stages.
    """
    has_nvtx_ranges: bool = False
    """Whether epochs, evaluations and phases of steps are labelled for Nsight Systems, which takes
    a little time.
    """

    @property
    def title(self) -> str:
        """For a person, who counts from 1."""
        return "profiled run" if self.is_profiled else f"repetition {self.index + 1}"

    @property
    def id(self) -> str:
        """Written into the trace."""
        return f"{self.machine}/{self.measurement.variant.slug}"

    @property
    def seed(self) -> int:
        """Decides data, initial weights and order alike, so that the spread of the held-out metric
        reflects all three.

        The profiled run repeats the first repetition.
        """
        return self.measurement.variant.seed + (0 if self.is_profiled else self.index)

    @property
    def epochs(self) -> int:
        return 1 if self.is_profiled else self.measurement.variant.epochs

    @property
    def profile_steps(self) -> int:
        """Of a light trace: more where ranks wait for each other, by more or less from step to
        step.
        """
        steps = self.measurement.protocol.profile_steps
        return RANKS_PROFILE_FACTOR * steps if self.measurement.variant.has_ranks else steps

    @property
    def steps_per_epoch(self) -> int | None:
        variant = self.measurement.variant
        if self.is_profiled:
            light_steps = profiler_warm_up_steps(variant.workers) + self.profile_steps
            before_capture = LEAST_WARM_UP_STEPS + RICH_STEPS
            return before_capture + MOST_WARM_UP_STEPS + MOST_LIGHT_PROFILES * light_steps
        return variant.steps_per_epoch


EnvironmentValue = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Started:
    """The device is present: its environment, and the UUID by which its driver knows it.

    The UUID is empty on the CPU. It is not recorded, since it identifies one physical device.
    """

    environment: dict[str, EnvironmentValue]
    device_uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Built:
    """Model, data and loaders are built."""

    facts: WorkloadFacts


@dataclass(frozen=True, kw_only=True)
class Present:
    """A rank runs, as this process; sent to the process that started it."""

    rank: int
    pid: int


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How much of a variant is measured; a profiled run is one epoch.

    `repetition` counts from 0; the profiled run comes after all of them. `epoch` counts from 0,
    `step` is how many of the epoch's `steps` are done. `samples_per_s` is the rate since the timed
    epoch began; None in warm-up, between epochs and under the profiler.
    """

    repetition: int
    repetitions: int
    is_profiled: bool = False
    epoch: int
    epochs: int
    step: int
    steps: int
    samples_per_s: float | None

    @property
    def share_done(self) -> float:
        """Share of all the variant's runs, 0 to 1, all runs weighing the same."""
        in_run = (self.epoch + self.step / self.steps) / self.epochs
        return (self.repetition + in_run) / (self.repetitions + 1)


@dataclass(frozen=True, kw_only=True)
class TimedRun:
    """A finished repetition, without telemetry yet.

    `epoch_windows_s` are begin and end of each epoch's training on `time.monotonic`, which all
    processes share.
    """

    repetition: Repetition
    epoch_windows_s: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProfiledRun:
    """A finished profiled run; its trace is in its folder."""

    profile: Profile


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """A run that did not finish, and why, which is a result too.

    `lost_others` is set where another process of the training did not answer, so that what went
    wrong went wrong there.
    """

    status: Literal["oom", "failed", "skipped"]
    reason: str
    lost_others: bool = False
    interrupted_by: str = ""
    """The signal from outside that ended or stopped one of its processes, or what else did; that is
    no result. Only of SIGKILL can the OOM killer be the sender.
    """
    crashed: bool = False
    """Whether a process was ended by SIGSEGV."""
    out_of_memory: OutOfMemory | None = None


Message = Started | Built | Progress | TimedRun | ProfiledRun | Stopped | Exception
Send = Callable[[Message], None]
OnProgress = Callable[[Progress], None]
