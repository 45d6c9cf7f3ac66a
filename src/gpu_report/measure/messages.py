"""What a training process tells the one that started it, over a pipe.

Started -> Built -> Progress ... -> TimedRun or ProfiledRun, or at any point Stopped or a GpuReportError
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gpu_report.records import OutOfMemory, Profile, Repetition, WorkloadFacts

EnvironmentValue = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Started:
    """The device is there; what PyTorch says of it and of itself.

    `device_uuid` is how the driver knows the device; empty on the CPU. It is not recorded, since it names one piece.
    """

    environment: dict[str, EnvironmentValue]
    device_uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Built:
    """Model, data and loaders stand."""

    facts: WorkloadFacts


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the measuring of a variant is; a profiled run is one epoch.

    `repetition` counts from 0 and is `repetitions` in the profiled run. `epoch` counts from 0, `step` is how many of
    the epoch's `steps` are done. `samples_per_s` is the rate since the timed epoch began; None in warm-up,
    between epochs and under the profiler.
    """

    repetition: int
    repetitions: int
    epoch: int
    epochs: int
    step: int
    steps: int
    samples_per_s: float | None

    @property
    def is_profiled_run(self) -> bool:
        return self.repetition == self.repetitions

    @property
    def share_done(self) -> float:
        """Share of all the variant's runs, 0 to 1, counting each run alike."""
        in_run = (self.epoch + self.step / self.steps) / self.epochs
        return (self.repetition + in_run) / (self.repetitions + 1)


@dataclass(frozen=True, kw_only=True)
class TimedRun:
    """A repetition that came to its end, without telemetry yet.

    `epoch_windows_s` are begin and end of each epoch's training on `time.monotonic`, which all processes share.
    """

    repetition: Repetition
    epoch_windows_s: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProfiledRun:
    """A profiled run whose trace lies in its folder."""

    profile: Profile


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """A run that came to no end, and why; which is a result of its own.

    `killed_worker` is set where a loader worker was killed, which may have come from outside.
    """

    status: Literal["oom", "failed", "skipped"]
    reason: str
    killed_worker: bool = False
    out_of_memory: OutOfMemory | None = None


Message = Started | Built | Progress | TimedRun | ProfiledRun | Stopped | Exception
Send = Callable[[Message], None]
OnProgress = Callable[[Progress], None]
