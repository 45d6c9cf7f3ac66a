"""Events as they are decoded become columns, chunk by chunk; what repeats is numbered.

events of one sort -> Collector -> their columns
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import compress
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np

from gpu_report.traces.events import DamagedDocumentError, RawEvent, fault_of, named
from gpu_report.traces.spans import NONE, Columns, Floats, Integers, Spans
from gpu_report.traces.times import durations_ns, starts_ns

_UNSIGNED_NONE: Final = (1 << 64) - 1
_OLD_ARGUMENTS: Final = ((b'"external id"', b'"External id"'), (b'"Input dims"', b'"Input Dims"'))
"""What profilers before PyTorch 1.13 called some arguments, and what they are called since."""

Collected = TypeVar("Collected", bound=Columns)


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

    def taken_over(self, others: "Numberings") -> dict[str, Integers]:
        """By the name of each numbering the numbers that the others' have here, new ones where they are not known."""
        return {
            each.name: np.array([getattr(self, each.name)[key] for key in getattr(others, each.name)], dtype=np.int64)
            for each in fields(self)
        }


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
        texts = {each.name: "texts" for each in self._arguments if each.type is msgspec.Raw}
        self._numbering_of = {"thread": "threads", "name": "names", "kind": "kinds", **texts}
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

    def extend(self, others: Collected, numbers: Mapping[str, Integers]) -> None:
        """Take over columns that another process collected; `numbers` as from `Numberings.taken_over`."""
        for name, buffer in self._buffers.items():
            column, numbering = getattr(others, name), self._numbering_of.get(name)
            buffer.frombytes((column if numbering is None else numbers[numbering][column]).tobytes())

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
            if _says(old, new, text):
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


def _says(old: bytes, new: bytes, text: bytes) -> bool:
    """Whether the first of the two in the text, which differ in one letter, is the old one; a profiler keeps to one."""
    letter = next(place for place, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1])
    place = text.find(old[letter + 1 :])
    return place > 0 and text[place - 1] == old[letter]


def _numbered(numbering: Numbering, keys: Iterable[Any], count: int) -> Integers:
    return np.fromiter(map(numbering.__getitem__, keys), dtype=np.int64, count=count)


_THREAD: Final = attrgetter("pid", "tid")
_NAME: Final = attrgetter("name")
_KIND: Final = attrgetter("cat")
_ARGUMENTS: Final = attrgetter("args")
