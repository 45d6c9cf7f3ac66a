"""Events as columns, one number per event in each; names, threads and texts as positions in a list of those that occur.

events -> Collector, chunk by chunk -> CallSpans, WorkSpans, Spans, MemoryEvents
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import compress
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from gpu_report.traces.chunks import DamagedDocumentError, RawEvent, fault_of, named
from gpu_report.traces.times import Integers as Integers
from gpu_report.traces.times import durations_ns, starts_ns

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NONE: Final = -1
"""Stands for a whole number that an event does not have; no event has it as its own."""

_UNSIGNED_NONE: Final = (1 << 64) - 1
_OLD_ARGUMENTS: Final = ((b'"external id"', b'"External id"'), (b'"Input dims"', b'"Input Dims"'))
"""What profilers before PyTorch 1.13 called some arguments, and what they are called since."""

_LOOKED_AT: Final = 4096

Chosen = TypeVar("Chosen", bound="Columns")
Collected = TypeVar("Collected", bound="Columns")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Events in the order of the file; `thread` is a position in the trace's list."""

    thread: Integers
    start_ns: Integers

    def __len__(self) -> int:
        return len(self.start_ns)

    def chosen(self: Chosen, which: Flags | Integers) -> Chosen:
        """The events that the flags mark or the positions name, in that order."""
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


class LinkArguments(msgspec.Struct, gc=False):
    """What is read of a mark's arguments."""

    correlation: int | None = NONE
    external_id: int | None = msgspec.field(default=NONE, name="External id")


class CallArguments(msgspec.Struct, gc=False):
    """What is read of a host call's arguments."""

    correlation: int | None = NONE
    external_id: int | None = msgspec.field(default=NONE, name="External id")
    shapes: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input Dims")
    inputs: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Concrete Inputs")
    sequence: int | None = msgspec.field(default=NONE, name="Sequence number")


class WorkArguments(msgspec.Struct, gc=False):
    """What is read of a kernel's, copy's or fill's arguments."""

    correlation: int | None = NONE
    external_id: int | None = msgspec.field(default=NONE, name="External id")
    device: int | None = NONE
    stream: int | None = NONE
    size_bytes: int | None = msgspec.field(default=NONE, name="bytes")
    grid: msgspec.Raw = msgspec.Raw(b"")
    block: msgspec.Raw = msgspec.Raw(b"")
    registers: int | None = msgspec.field(default=NONE, name="registers per thread")
    shared_memory_bytes: int | None = msgspec.field(default=NONE, name="shared memory")
    blocks_per_multiprocessor: float | None = msgspec.field(default=None, name="blocks per SM")
    warps_per_multiprocessor: float | None = msgspec.field(default=None, name="warps per SM")
    occupancy_percent: float | None = msgspec.field(default=None, name="est. achieved occupancy %")


class MemoryArguments(msgspec.Struct, gc=False):
    """What is read of an allocator event's arguments."""

    device_type: int | None = msgspec.field(default=NONE, name="Device Type")
    device: int | None = msgspec.field(default=NONE, name="Device Id")
    address: int | None = msgspec.field(default=NONE, name="Addr")
    size_bytes: int | None = msgspec.field(default=NONE, name="Bytes")
    allocated_bytes: int | None = msgspec.field(default=NONE, name="Total Allocated")
    reserved_bytes: int | None = msgspec.field(default=NONE, name="Total Reserved")


class Numbering(dict[Any, int]):
    """Numbers what it is asked for in the order in which it is first asked."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


@dataclass(kw_only=True)
class Numberings:
    """What the columns of positions count through; a thread is a pair of `pid` and `tid`."""

    names: Numbering = field(default_factory=Numbering)
    threads: Numbering = field(default_factory=Numbering)
    kinds: Numbering = field(default_factory=Numbering)
    texts: Numbering = field(default_factory=Numbering)


class Collector(Generic[Collected]):
    """Takes over events of one sort, chunk by chunk, and makes their columns.

    Args:
        columns: The sort of columns; those that no event carries itself come from its arguments, by the same name.
        arguments: What is read of the arguments; None leaves them out.
    """

    def __init__(
        self, columns: type[Collected], numberings: Numberings, *, arguments: type[msgspec.Struct] | None = None
    ) -> None:
        self._columns = columns
        self._numberings = numberings
        self._arguments = msgspec.structs.fields(arguments) if arguments else ()
        self._decoder = msgspec.json.Decoder(list[arguments]) if arguments else None  # type: ignore[valid-type]
        self._buffers = {column.name: array("d" if column.type == Floats else "q") for column in fields(columns)}
        self.negative_durations = 0
        """Events that were left out because their duration is negative."""

    def add(self, events: Sequence[RawEvent]) -> None:
        """Take over some more events.

        Raises:
            DamagedDocumentError: an event has no time or no duration, or arguments of another type.
        """
        lasting: dict[str, Integers | Floats] = {}
        if events and issubclass(self._columns, Spans):
            durations = durations_ns(events)
            kept = durations >= 0
            if not kept.all():
                self.negative_durations += len(events) - int(kept.sum())
                events = list(compress(events, kept))
            lasting["duration_ns"] = durations[kept]
        if not events:
            return
        for name, column in {**self._own_columns(events), **lasting, **self._argument_columns(events)}.items():
            self._buffers[name].frombytes(column.tobytes())

    def collected(self) -> Collected:
        """The columns of all events; they share the memory in which they were collected, so none can be added after."""
        return self._columns(**{name: np.asarray(buffer) for name, buffer in self._buffers.items()})

    def _own_columns(self, events: Sequence[RawEvent]) -> dict[str, Integers | Floats]:
        names, threads, kinds = self._numberings.names, self._numberings.threads, self._numberings.kinds
        columns: dict[str, Integers | Floats] = {
            "thread": _numbered(threads, map(_THREAD, events), len(events)),
            "start_ns": starts_ns(events),
        }
        if not issubclass(self._columns, Spans):
            return columns
        return {
            **columns,
            "name": _numbered(names, map(_NAME, events), len(events)),
            "kind": _numbered(kinds, map(_KIND, events), len(events)),
        }

    def _argument_columns(self, events: Sequence[RawEvent]) -> dict[str, Integers | Floats]:
        if self._decoder is None:
            return {}
        text = b",".join(map(_ARGUMENTS, events))
        for old, new in _OLD_ARGUMENTS:
            if old in text[:_LOOKED_AT]:
                text = text.replace(old, new)
        try:
            read = self._decoder.decode(b"[" + text + b"]")
        except msgspec.ValidationError as error:
            index, what = fault_of(error)
            raise DamagedDocumentError(f"the args of {named(events[index or 0])}{what}") from error
        columns = zip(*map(msgspec.structs.astuple, read), strict=True)
        try:
            return {
                each.name: self._argument_column(each, column)
                for each, column in zip(self._arguments, columns, strict=True)
            }
        except OverflowError as error:
            raise DamagedDocumentError("the args of an event: a whole number does not fit 64 bits") from error

    def _argument_column(self, argument: msgspec.structs.FieldInfo, values: Sequence[Any]) -> Integers | Floats:
        if argument.type == float | None:
            return np.array(values, dtype=np.float64)
        if argument.type is msgspec.Raw:
            return _numbered(self._numberings.texts, map(bytes, values), len(values))
        try:
            return np.array(values, dtype=np.int64)
        except (OverflowError, TypeError):
            return np.array([NONE if value in (None, _UNSIGNED_NONE) else value for value in values], dtype=np.int64)


def _numbered(numbering: Numbering, keys: Iterable[Any], count: int) -> Integers:
    return np.fromiter(map(numbering.__getitem__, keys), dtype=np.int64, count=count)


_THREAD: Final = attrgetter("pid", "tid")
_NAME: Final = attrgetter("name")
_KIND: Final = attrgetter("cat")
_ARGUMENTS: Final = attrgetter("args")
