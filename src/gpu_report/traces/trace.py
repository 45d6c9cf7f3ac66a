"""What is kept of a profiler trace: its steps, what ran on the host's threads, and what ran on the device."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from gpu_report.errors import GpuReportError

if TYPE_CHECKING:
    from gpu_report.traces.spans import CallSpans, LinkedSpans, MemoryEvents, Spans, WorkSpans


HOST: Final = "cpu"
"""What tables say of work on the host; of an accelerator they say its backend's name, such as `cuda`."""

MOST_RANKS: Final = 1_000_000
"""More processes than any training has; a rank or a number of ranks beyond is damaged, and none."""


class TraceError(GpuReportError):
    """A trace cannot be read, or what it holds cannot be trusted."""


class Step(NamedTuple):
    """One profiled training step, numbered as the profiler's schedule numbers it."""

    number: int
    start_ns: int
    end_ns: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One trace file.

    `calls` are host operations and the driver calls they make, `marks` the host's annotations other than steps, `work`
    kernels, copies and fills on the device, `functions` those of Python, where stacks were recorded, `memory` what the
    allocator did, where memory was. Calls stand in `begin_order`, all else as in the file, with times from the earliest
    event on. Columns count through `names`, `threads`, `kinds` and `texts`, the profiler's own words; all but the
    texts are as `gpu_report.traces.naming.kept_name` keeps them.

    `metadata` is all that the file says besides its events. `device` is the accelerator's backend as the trace names
    it, such as `cuda`, and None where nothing ran on one. `rank` and `run_id` are None where none is written.
    `was_repaired`: its text was put right where the profiler had written invalid JSON. `negative_durations`
    counts the events that were left out because of theirs. Where the profiler recorded no steps (not `has_steps`), one
    step numbered 0 stands for the whole recording. `loop_thread` is the position of the thread that ran the steps, NONE
    where none were recorded.
    """

    file_name: str
    rank: int | None
    run_id: str | None
    device: str | None
    was_repaired: bool
    negative_durations: int
    has_steps: bool
    metadata: Mapping[str, Any]
    names: tuple[str, ...]
    threads: tuple[str, ...]
    kinds: tuple[str, ...]
    texts: tuple[str, ...]
    steps: tuple[Step, ...]
    loop_thread: int
    calls: "CallSpans"
    marks: "LinkedSpans"
    work: "WorkSpans"
    functions: "Spans"
    memory: "MemoryEvents"
