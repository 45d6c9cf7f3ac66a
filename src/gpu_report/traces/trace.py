"""What is kept of a profiler trace: its steps, and host calls, marks, device work and memory events
as columns.

Every column holds one number per event; names, threads and texts are positions in the trace's lists
of them.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Chosen = TypeVar("Chosen", bound="Columns")

NONE: Final = -1
"""In place of a whole number that an event does not have; no event has it as its own."""

HOST: Final = "cpu"
"""What tables say of work on the host; of an accelerator they say its backend's name, such as
`cuda`.
"""

UNNAMED_DEVICE: Final = "accelerator"
RUNTIME: Final = re.compile(r"(?P<backend>\w+)_(?:runtime|driver)")
"""The kind of a call into an accelerator's driver."""

MOST_RANKS: Final = 1_000_000
"""More processes than any training has; a rank or a number of ranks beyond is damaged, and none."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Events in the order of the file; `thread` is a position in the trace's list."""

    thread: Integers
    start_ns: Integers

    def __len__(self) -> int:
        return len(self.start_ns)

    def chosen(self: Chosen, which: Flags | Integers) -> Chosen:
        """The events that the flags mark or the positions name, in that order; itself where the
        flags mark all.
        """
        if which.dtype == np.bool_ and which.all():
            return self
        return type(self)(
            **{column: getattr(self, column)[which] for column in self.__struct_fields__}
        )

    def followed_by(self: Chosen, other: Chosen) -> Chosen:
        """These events, then the other ones."""
        return type(self)(
            **{
                column: np.append(getattr(self, column), getattr(other, column))
                for column in self.__struct_fields__
            }
        )


class Spans(Columns, frozen=True, kw_only=True):
    """Events that last: marks, or Python functions. `name` and `kind` are positions in the trace's
    lists.

    The kind is the profiler's own word, for instance `cpu_op` or `kernel`.
    """

    name: Integers
    kind: Integers
    duration_ns: Integers

    @property
    def end_ns(self) -> Integers:
        """The first nanosecond after each event."""
        return self.start_ns + self.duration_ns

    @property
    def laid_out(self) -> Self:
        """The same on one line of time, a thread after the other, so that nothing of one overlaps
        anything of the next. 64 bits hold a thousand threads of a hundred days.
        """
        apart_ns = int(self.end_ns.max(initial=0)) + 1
        return msgspec.structs.replace(self, start_ns=self.start_ns + self.thread * apart_ns)


class LinkedSpans(Spans, frozen=True, kw_only=True):
    """A launch and what it launched share `correlation`; device work carries its operation's
    `external_id`.

    Both are NONE where the profiler wrote none.
    """

    correlation: Integers
    external_id: Integers


class CallSpans(LinkedSpans, frozen=True, kw_only=True):
    """Host operations and driver calls; an operation of the backward pass has the `sequence` number
    of its counterpart in the forward pass.

    `inputs` is the position in the trace's list of a text that has the shapes, the types and of a
    convolution the settings of the inputs, with a zero byte between them; empty where no shapes
    were recorded.
    """

    sequence: Integers
    inputs: Integers


class WorkSpans(LinkedSpans, frozen=True, kw_only=True):
    """Kernels, copies and memsets on a device, with NONE or NaN where the profiler wrote nothing.

    `grid` and `block` are positions of texts such as `[8, 2, 1]` in the trace's list;
    `occupancy_percent` is the profiler's estimate.
    """

    size_bytes: Integers
    grid: Integers
    block: Integers
    occupancy_percent: Floats


class MemoryEvents(Columns, frozen=True, kw_only=True):
    """What the allocator gave (positive `changed_bytes`) and took back; `device_type` 0 is the CPU,
    1 CUDA.

    `allocated_bytes` and `reserved_bytes` are the allocator's totals after the event.
    """

    device_type: Integers
    device_id: Integers
    address: Integers
    changed_bytes: Integers
    allocated_bytes: Integers
    reserved_bytes: Integers


class Exchanges(Columns, frozen=True, kw_only=True):
    """What PyTorch notes of each collective that it hands to NCCL; the operation that notes it has
    the `external_id`.

    `collective`, `group`, `group_ranks` and `dtype` are positions of JSON texts such as
    `"allreduce"` in the trace's list.
    """

    external_id: Integers
    collective: Integers
    group: Integers
    group_ranks: Integers
    group_size: Integers
    dtype: Integers
    in_elements: Integers
    out_elements: Integers


class Step(NamedTuple):
    """One profiled training step, numbered as the profiler's schedule numbers it."""

    number: int
    start_ns: int
    end_ns: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One trace file.

    `calls` are host operations and the driver calls they make, `marks` the host's annotations other
    than steps, `work` the device's kernels, copies and fills, `functions` those of Python, where
    stacks were recorded, `memory` the allocator's events, where memory was, `exchanges` what some
    of the calls say of a collective. Calls are in `begin_order`, all else in the file's order;
    times count from the earliest event. Columns count through `names`, `threads`, `kinds` and
    `texts`, the profiler's own words; all but the texts are as `kept_name` keeps them.

    `metadata` is all that the file says besides its events. `device` is the accelerator's backend
    as the trace names it, such as `cuda`, and None where nothing ran on one. `rank` and `run_id`
    are None where none is written.
    `negative_durations` counts the calls and the work left out because of theirs. Where the
    profiler recorded no steps (not `has_steps`), one step numbered 0 covers the whole recording.
    `loop_thread` is the position of the thread that ran the steps; where none were recorded of the
    one with the most time in marks, or else in calls; NONE without any.
    """

    rank: int | None
    run_id: str | None
    device: str | None
    negative_durations: int
    has_steps: bool
    metadata: Mapping[str, Any]
    names: tuple[str, ...]
    threads: tuple[str, ...]
    kinds: tuple[str, ...]
    texts: tuple[str, ...]
    steps: tuple[Step, ...]
    loop_thread: int
    calls: CallSpans
    marks: LinkedSpans
    work: WorkSpans
    functions: Spans
    memory: MemoryEvents
    exchanges: Exchanges

    @property
    def step_bounds(self) -> tuple[Integers, Integers]:
        """Begin and end of each step."""
        steps = np.array(self.steps, dtype=np.int64).reshape(-1, 3)
        return steps[:, 1], steps[:, 2]

    @property
    def first_device(self) -> Mapping[str, Any]:
        """What the trace says of its first device's properties; empty where it says nothing."""
        properties = self.metadata.get("deviceProperties")
        devices = properties if isinstance(properties, list) else []
        return next((each for each in devices if isinstance(each, dict)), {})
