"""Events as columns, one number per event in each; names, threads and texts as positions in a list of those that occur.

CallSpans, LinkedSpans, WorkSpans, Spans, MemoryEvents
"""

from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from gpu_report.traces.events import NONE as NONE
from gpu_report.traces.times import Integers as Integers

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

Chosen = TypeVar("Chosen", bound="Columns")


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Events in the order of the file; `thread` is a position in the trace's list."""

    thread: Integers
    start_ns: Integers

    def __len__(self) -> int:
        return len(self.start_ns)

    def chosen(self: Chosen, which: Flags | Integers) -> Chosen:
        """The events that the flags mark or the positions name, in that order; itself where the flags mark all."""
        if which.dtype == np.bool_ and which.all():
            return self
        return type(self)(**{column: getattr(self, column)[which] for column in self.__struct_fields__})

    def put_in_order(self, order: Integers) -> None:
        """Reorder the events in place, one column at a time: the position of the event that comes first, and so on."""
        for column in self.__struct_fields__:
            values = getattr(self, column)
            values[:] = values[order]


class Spans(Columns, frozen=True, kw_only=True):
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


class LinkedSpans(Spans, frozen=True, kw_only=True):
    """A launch and what it launched share `correlation`; device work carries its operation's `external_id`.

    Both are NONE where the profiler wrote none.
    """

    correlation: Integers
    external_id: Integers


class CallSpans(LinkedSpans, frozen=True, kw_only=True):
    """Host operations and driver calls. `shapes` is the position of the text of the inputs' shapes in the trace's list,
    `inputs` that of the inputs that are no tensors.

    An operation of the backward pass has the `sequence` number of its counterpart in the forward pass.
    """

    shapes: Integers
    inputs: Integers
    sequence: Integers


class WorkSpans(LinkedSpans, frozen=True, kw_only=True):
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


class MemoryEvents(Columns, frozen=True, kw_only=True):
    """What the allocator gave (positive `changed_bytes`) and took back; `device_type` 0 is the CPU, 1 CUDA.

    `allocated_bytes` and `reserved_bytes` are the allocator's totals after the event.
    """

    device_type: Integers
    device_id: Integers
    address: Integers
    changed_bytes: Integers
    allocated_bytes: Integers
    reserved_bytes: Integers
