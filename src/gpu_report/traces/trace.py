"""What is kept of a profiler trace: its steps, what ran on the host's threads, and what ran on the device."""

from dataclasses import dataclass
from typing import NamedTuple

from gpu_report.errors import GpuReportError


class TraceError(GpuReportError):
    """A trace cannot be read, or what it holds cannot be trusted."""


class Event(NamedTuple):
    """One span of time in the trace.

    `kind` is the profiler's own word, for instance `cpu_op`, `cuda_runtime`, `kernel` or `gpu_memcpy`. Times count from
    the earliest event that is kept. A launch and the kernel it launches share `correlation`; a kernel carries the
    `external_id` of the operation that launched it. Both are None where the profiler wrote none.
    """

    name: str
    kind: str
    thread: str
    start_ns: int
    duration_ns: int
    correlation: int | None
    external_id: int | None

    @property
    def end_ns(self) -> int:
        """The first nanosecond after the event."""
        return self.start_ns + self.duration_ns


class Step(NamedTuple):
    """One profiled training step, numbered as the profiler's schedule numbers it."""

    number: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One trace file.

    `calls` are host operations and the driver calls they make, `marks` the host's annotations other than steps, `work`
    kernels, copies and fills on the device; each in the order of the file. `device` is the accelerator's backend as the
    trace names it, such as `cuda`, and None where nothing ran on one. `rank` and `run_id` are None where none is
    written.
    """

    name: str
    rank: int | None
    run_id: str | None
    device: str | None
    steps: tuple[Step, ...]
    calls: tuple[Event, ...]
    marks: tuple[Event, ...]
    work: tuple[Event, ...]
