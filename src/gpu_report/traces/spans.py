"""Events as columns, one number per event in each; names, threads and texts as positions in a list of those that occur.

CallSpans, LinkedSpans, WorkSpans, Spans, MemoryEvents
"""

from dataclasses import dataclass, fields
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from gpu_report.traces.times import Integers as Integers

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NONE: Final = -1
"""Stands for a whole number that an event does not have; no event has it as its own."""

Chosen = TypeVar("Chosen", bound="Columns")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Events in the order of the file; `thread` is a position in the trace's list."""

    thread: Integers
    start_ns: Integers

    def __len__(self) -> int:
        return len(self.start_ns)

    def chosen(self: Chosen, which: Flags | Integers) -> Chosen:
        """The events that the flags mark or the positions name, in that order; itself where the flags mark all."""
        if which.dtype == np.bool_ and which.all():
            return self
        return type(self)(**{column.name: getattr(self, column.name)[which] for column in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Spans(Columns):
    """Events that last: marks, or Python functions. `name` and `kind` are positions in the trace's lists.

    The kind is the profiler's own word, for instance `cpu_op` or `kernel`.
    """

    name: Integers
    kind: Integers
    duration_ns: Integers

    @property
    def end_ns(self) -> Integers:
        """The first nanosecond after each event."""
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, kw_only=True)
class LinkedSpans(Spans):
    """A launch and what it launched share `correlation`; device work carries its operation's `external_id`.

    Both are NONE where the profiler wrote none.
    """

    correlation: Integers
    external_id: Integers


@dataclass(frozen=True, kw_only=True)
class CallSpans(LinkedSpans):
    """Host operations and driver calls. `shapes` is the position of the text of the inputs' shapes in the trace's list,
    `inputs` that of the inputs that are no tensors.

    An operation of the backward pass has the `sequence` number of its counterpart in the forward pass.
    """

    shapes: Integers
    inputs: Integers
    sequence: Integers


@dataclass(frozen=True, kw_only=True)
class WorkSpans(LinkedSpans):
    """Kernels, copies and fills on a device. NONE, or NaN, stands where the profiler wrote nothing.

    `grid` and `block` are positions of texts such as `[8, 2, 1]` in the trace's list; `shared_memory_bytes` is per
    block, `occupancy_percent` the profiler's estimate.
    """

    device: Integers
    stream: Integers
    size_bytes: Integers
    grid: Integers
    block: Integers
    registers: Integers
    shared_memory_bytes: Integers
    blocks_per_multiprocessor: Floats
    warps_per_multiprocessor: Floats
    occupancy_percent: Floats


@dataclass(frozen=True, kw_only=True)
class MemoryEvents(Columns):
    """What the allocator gave (positive `size_bytes`) and took back; `device_type` 0 is the CPU, 1 CUDA.

    `allocated_bytes` and `reserved_bytes` are the allocator's totals after the event.
    """

    device_type: Integers
    device: Integers
    address: Integers
    size_bytes: Integers
    allocated_bytes: Integers
    reserved_bytes: Integers
