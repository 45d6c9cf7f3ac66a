"""Events as they are decoded become columns, chunk by chunk; what repeats is numbered.

events of one sort -> Collector -> their columns; columns of one sort from several processes -> Joiner -> one
"""

from array import array
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np

from gpu_report.traces.events import MEMORY, OLD_ARGUMENTS, Arguments, DamagedDocumentError, RawEvent, named, shortened
from gpu_report.traces.spans import Columns, Integers, Spans
from gpu_report.traces.times import durations_ns, durations_of, starts_ns, starts_of

_UNSIGNED_NONE: Final = (1 << 64) - 1
_ARGUMENTS: Final = {each.name: each for each in msgspec.structs.fields(Arguments)}
_TEXTS: Final = {name: "texts" for name, each in _ARGUMENTS.items() if each.type is msgspec.Raw}
_FRACTIONS: Final = {name for name, each in _ARGUMENTS.items() if isinstance(each.default, float)}
_NUMBERED: Final = {"thread": "threads", "name": "names", "kind": "kinds", **_TEXTS}
"""Columns of positions, with the name of what they count through."""

_NO_ARGUMENTS: Final = Arguments()
Collected = TypeVar("Collected", bound=Columns)


class Numbering(dict[Any, int]):
    """Numbers what it is asked for in the order in which it is first asked."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class Threads(dict[Any, "_ThreadsOfProcess"]):
    """By `pid` the processes, each of which numbers its threads by their `tid`; all count on together."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[Any, Any]] = []
        """The pid and the tid of each number."""

    def __missing__(self, pid: Any) -> "_ThreadsOfProcess":
        self[pid] = process = _ThreadsOfProcess(pid, self.pairs)
        return process


class _ThreadsOfProcess(dict[Any, int]):
    def __init__(self, pid: Any, pairs: list[tuple[Any, Any]]) -> None:
        super().__init__()
        self._pid, self._pairs = pid, pairs

    def __missing__(self, tid: Any) -> int:
        self[tid] = number = len(self._pairs)
        self._pairs.append((self._pid, tid))
        return number


class Numberings(msgspec.Struct, kw_only=True):
    """What the columns of positions count through."""

    names: Numbering = msgspec.field(default_factory=Numbering)
    threads: Threads = msgspec.field(default_factory=Threads)
    kinds: Numbering = msgspec.field(default_factory=Numbering)
    texts: Numbering = msgspec.field(default_factory=Numbering)

    def taken_over(self, others: "Numberings") -> dict[str, Integers]:
        """By the name of each numbering the numbers that the others' have here, new ones where they are not known."""
        numbers = {
            "names": [self.names[name] for name in others.names],
            "threads": [self.threads[pid][tid] for pid, tid in others.threads.pairs],
            "kinds": [self.kinds[kind] for kind in others.kinds],
            "texts": [self.texts[text] for text in others.texts],
        }
        return {numbering: np.array(each, dtype=np.int64) for numbering, each in numbers.items()}


class Collector(Generic[Collected]):
    """Takes over events of one sort, chunk by chunk, and makes their columns.

    Args:
        columns: The sort of columns; those that no event carries itself come from its arguments, by the same name.
        exact: Whether the events are ExactEvents.
    """

    def __init__(self, columns: type[Collected], numberings: Numberings, *, exact: bool = False) -> None:
        self._columns = columns
        self._numberings = numberings
        self._buffers = _buffers(columns)
        self._buffers["start_ns"] = array("q" if exact else "d")
        if issubclass(columns, Spans):
            self._buffers["duration_ns"] = array("d")
        self._arguments = [column for column in self._buffers if column in _ARGUMENTS]
        self.negative_durations = 0
        """Events that were left out, read like all others, because their duration is negative; known at the end."""

    def add(self, events: Sequence[RawEvent]) -> None:
        """Take over some more events.

        Raises:
            DamagedDocumentError: an event has no time or no duration, or arguments of another type.
            InexactTimesError: see `gpu_report.traces.times.starts_of`.
        """
        if not events:
            return
        names, threads, kinds = self._numberings.names, self._numberings.threads, self._numberings.kinds
        self._buffers["start_ns"].extend(starts_of(events))
        self._buffers["thread"].extend([threads[event.pid][event.tid] for event in events])
        if issubclass(self._columns, Spans):
            self._buffers["duration_ns"].extend(durations_of(events))
            self._buffers["name"].extend([names[event.name] for event in events])
            self._buffers["kind"].extend([kinds[event.cat] for event in events])
        if self._arguments:
            self._add_arguments(events)

    def collected(self) -> Collected:
        """The columns of all events; they share the memory in which they were collected, so none can be added after.

        Raises:
            DamagedDocumentError: a time or a duration is beyond belief.
            InexactTimesError: see `gpu_report.traces.times.starts_ns`.
        """
        times = {"start_ns": starts_ns(self._buffers.pop("start_ns"), self._name)}
        if "duration_ns" in self._buffers:
            times["duration_ns"] = durations_ns(self._buffers.pop("duration_ns"), self._name)
        columns = self._columns(**times, **_arrays(self._buffers))
        if not isinstance(columns, Spans):
            return columns
        is_kept = columns.duration_ns >= 0
        self.negative_durations = len(columns) - int(is_kept.sum())
        return columns.chosen(is_kept)

    def _name(self, position: int) -> str:
        names: list[str] = list(self._numberings.names)
        return names[self._buffers["name"][position]] if "name" in self._buffers else MEMORY

    def _add_arguments(self, events: Sequence[RawEvent]) -> None:
        texts = self._numberings.texts
        arguments: list[Any] = [event.args or _NO_ARGUMENTS for event in events]
        try:
            read = list(zip(*map(attrgetter(*self._arguments), arguments), strict=True))
        except AttributeError as error:
            event = next(event for event in events if not isinstance(event.args, Arguments | None))
            raise DamagedDocumentError(f"the args of {named(event.name)} are not an object") from error
        for column, values in zip(self._arguments, read, strict=True):
            said = _by_any_name(column, values, arguments)
            if column in _TEXTS:
                self._buffers[column].extend([texts[text] for text in _copied(said)])
            else:
                self._buffers[column].extend(_numbers(column, said, self._buffers[column].typecode, events))


class Joiner(Generic[Collected]):
    """Takes over columns of one sort that several processes collected, in the order of the file."""

    def __init__(self, columns: type[Collected]) -> None:
        self._columns = columns
        self._buffers = _buffers(columns)

    def add(self, others: Collected, numbers: Mapping[str, Integers]) -> None:
        """Take over some more; `numbers` as from `Numberings.taken_over`."""
        for name, buffer in self._buffers.items():
            column = getattr(others, name)
            buffer.frombytes((numbers[_NUMBERED[name]][column] if name in _NUMBERED else column).tobytes())

    def joined(self) -> Collected:
        """All of them; they share the memory in which they were joined, so none can be added after."""
        return self._columns(**_arrays(self._buffers))


def _buffers(columns: type[Columns]) -> "dict[str, array[Any]]":
    return {column: array("d" if column in _FRACTIONS else "q") for column in columns.__struct_fields__}


def _arrays(buffers: "Mapping[str, array[Any]]") -> dict[str, Any]:
    return {name: np.asarray(buffer) for name, buffer in buffers.items()}


def _by_any_name(column: str, values: tuple[Any, ...], arguments: Sequence[Arguments]) -> Sequence[Any]:
    """What the arguments say by today's name, or by the old one where today's is nowhere: a profiler keeps to one."""
    old = OLD_ARGUMENTS.get(column)
    if old and values.count(_ARGUMENTS[column].default) == len(values):
        return [getattr(each, old) for each in arguments]
    return values


def _copied(texts: Sequence[msgspec.Raw]) -> list[bytes]:
    """Each as bytes; all at once takes a third of the time, if none holds what is put between them."""
    copied = b"\0".join(texts).split(b"\0")
    return copied if len(copied) == len(texts) else [bytes(text) for text in texts]


def _numbers(column: str, values: Sequence[Any], typecode: str, events: Sequence[RawEvent]) -> "array[Any]":
    """What the arguments of events say, of one kind: whole numbers (typecode q) or any (d).

    A driver writes a number without a sign where it has none: the largest of 64 bits.
    """
    try:
        return array(typecode, values)
    except (OverflowError, TypeError):
        none = _ARGUMENTS[column].default
        known = [none if value is None or value == _UNSIGNED_NONE else value for value in values]
    try:
        return array(typecode, known)
    except (OverflowError, TypeError) as error:
        faults = ((_fault(value, typecode), event) for value, event in zip(known, events, strict=True))
        fault, event = next(each for each in faults if each[0])
        key = _ARGUMENTS[column].encode_name
        raise DamagedDocumentError(f"the args of {named(event.name)}, {key}: {fault}") from error


def _fault(value: Any, typecode: str) -> str | None:
    try:
        array(typecode, [value])
    except OverflowError:
        return f"{shortened(value)} does not fit 64 bits"
    except TypeError:
        return f"{shortened(value)} is not {'a whole number' if typecode == 'q' else 'a number'}"
    return None
