"""One process's part of a measurement: a repetition that is timed, or the run that is profiled."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_report.study import Measurement

TRACE_FILE: Final = "rank0.pt.trace.json.gz"
LEAST_WARM_UP_STEPS: Final = 2
MOST_WARM_UP_STEPS: Final = 200
WARM_UP_S: Final = 0.5
"""A profiled run warms up for so long, within these numbers of steps: after 10 steps of 3 ms a training with a loader
was still up to twice as slow as in its timed epochs, on one H100."""
BATCHES_PER_WORKER: Final = 2
"""So many each of a loader's workers has ready after a pause of the training."""
MOST_LIGHT_PROFILES: Final = 3
"""As many are taken, one after the other, until one's steps take as long as timed ones: what a host-driven step takes
varies by half from one second to the next, with and without the profiler."""
RICH_STEPS: Final = 1
"""With stacks a step writes ten times as many events; what memory it allocates and where is the same in every step."""


def profiler_warm_up_steps(workers: int) -> int:
    """Steps before a light trace with the profiler on and not recording.

    They keep out of the trace the profiler's start, and the batches that the workers had ready after it.
    """
    return 1 + BATCHES_PER_WORKER * workers


def unfinished_trace(trace_folder: Path) -> Path:
    """Where a trace is written before it is whole: beside its folder, which never holds anything else than traces."""
    return trace_folder.parent / f".unfinished.{TRACE_FILE}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """`index` is that of the repetition, from 0; the profiled run's is their number."""

    measurement: Measurement
    machine: str
    index: int
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
    has_nvtx_ranges: bool = False
    """Whether epochs, evaluations and phases of steps are labelled for Nsight Systems, which takes a little time."""

    @property
    def is_profiled(self) -> bool:
        return self.index == self.measurement.protocol.repetitions

    @property
    def title(self) -> str:
        """For a person, who counts from 1."""
        return "profiled run" if self.is_profiled else f"repetition {self.index + 1}"

    @property
    def id(self) -> str:
        """What a trace is told to belong to."""
        return f"{self.machine}/{self.measurement.variant.slug}"

    @property
    def seed(self) -> int:
        """Decides data, initial weights and order alike, so that the spread of the quality holds all three.

        The profiled run repeats the first repetition.
        """
        return self.measurement.variant.seed + (0 if self.is_profiled else self.index)

    @property
    def epochs(self) -> int:
        return 1 if self.is_profiled else self.measurement.variant.epochs

    @property
    def steps_per_epoch(self) -> int | None:
        variant, protocol = self.measurement.variant, self.measurement.protocol
        if self.is_profiled:
            light_steps = profiler_warm_up_steps(variant.workers) + protocol.profile_steps
            return MOST_WARM_UP_STEPS + MOST_LIGHT_PROFILES * light_steps + RICH_STEPS
        return variant.steps_per_epoch
