"""Decoded events become columns, chunk by chunk, sorted by what they are; what repeats is numbered.

decoded events -> SortedEvents -> Collected; what several processes collected -> JoinedEvents -> Collected

Times are whole nanoseconds, exact although the file gives microseconds with three decimals.
"""

import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
import numpy as np

from gpu_report.traces.events import (
    MEMORY,
    OLD_ARGUMENTS,
    Arguments,
    DamagedDocumentError,
    ExactEvent,
    RawEvent,
    kept_name,
    named,
    shortened,
)
from gpu_report.traces.trace import CallSpans, Columns, Integers, LinkedSpans, MemoryEvents, Spans, WorkSpans

RUNTIME: Final = re.compile(r"(?P<backend>\w+)_(?:runtime|driver)")
OLD_KINDS: Final = {
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
}
"""What profilers before PyTorch 1.11 called the kinds, and what they are called since."""

EXACT_US: Final = 2.0**43
"""Some 101 days: a smaller 64-bit float is off by less than half a nanosecond."""

_LATEST_US: Final = 4 * 10**15
"""Some 127 years before or after 1970; the difference of two such times fits 64 bits of nanoseconds."""

_NS_PER_US: Final = 1000
_AT_ONCE: Final = 1 << 16
_MOST_SHOWN: Final = 40
_LOADER: Final = "enumerate(DataLoader)#"
_SORT_OF_KIND: Final = {
    **dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset"), "work"),
    "user_annotation": "marks",
    "python_function": "functions",
}
_UNSIGNED_NONE: Final = (1 << 64) - 1
_ARGUMENTS: Final = {each.name: each for each in msgspec.structs.fields(Arguments)}
_TEXTS: Final = {name: "texts" for name, each in _ARGUMENTS.items() if each.type is msgspec.Raw}
_FRACTIONS: Final = {name for name, each in _ARGUMENTS.items() if isinstance(each.default, float)}
_NUMBERED: Final = {"thread": "threads", "name": "names", "kind": "kinds", **_TEXTS}
"""Columns of positions, with the name of what they count through."""

_NO_ARGUMENTS: Final = Arguments()
_Columns = TypeVar("_Columns", bound=Columns)
NameOf = Callable[[int], str]
"""The name of the event at a position."""


class InexactTimesError(Exception):
    """Times that are too large for the floats that they were read as; read again as ExactEvent they are exact."""


class Numbering(dict[Any, int]):
    """Numbers what it is asked for in the order in which it is first asked."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class Numberings(msgspec.Struct, kw_only=True):
    """What the columns of positions count through; threads are pairs of the pid and the tid."""

    names: Numbering = msgspec.field(default_factory=Numbering)
    threads: Numbering = msgspec.field(default_factory=Numbering)
    kinds: Numbering = msgspec.field(default_factory=Numbering)
    texts: Numbering = msgspec.field(default_factory=Numbering)

    def taken_over(self, others: "Numberings") -> dict[str, Integers]:
        """By the name of each numbering the numbers that the others' have here, new ones where they are not known."""
        return {
            field: np.array([getattr(self, field)[key] for key in getattr(others, field)], dtype=np.int64)
            for field in self.__struct_fields__
        }


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of each sort, and what their positions count through.

    `negative_durations` events were left out because they last less than nothing.
    """

    numberings: Numberings
    calls: CallSpans
    marks: LinkedSpans
    work: WorkSpans
    functions: Spans
    memory: MemoryEvents
    negative_durations: int

    @property
    def groups(self) -> tuple[Columns, ...]:
        """All columns."""
        return self.calls, self.marks, self.work, self.functions, self.memory


_SORTS: Final[dict[str, type[Columns]]] = {
    "calls": CallSpans,
    "marks": LinkedSpans,
    "work": WorkSpans,
    "functions": Spans,
    "memory": MemoryEvents,
}


class SortedEvents:
    """Takes over events chunk by chunk; others than these, such as arrows from launch to kernel, are left out."""

    def __init__(self, *, exact: bool = False) -> None:
        self._numberings = Numberings()
        self._collectors: dict[str, Collector[Any]] = {
            sort: Collector(columns, self._numberings, exact=exact) for sort, columns in _SORTS.items()
        }

    def add(self, events: list[RawEvent]) -> None:
        """Take over some more events.

        Raises:
            DamagedDocumentError: an event has no time or no duration, or arguments of another type.
            InexactTimesError: see `starts_of`.
        """
        spans = _SpansByKind()
        for event in events:
            if event.ph == "X":
                spans[event.cat].append(event)
            elif event.name == MEMORY and event.ph == "i":
                spans.sorts["memory"].append(event)
        spans.sorts["calls"] += [
            event for event in spans.sorts["marks"] if event.name.startswith(_LOADER) and (event.dur or 0) >= 0
        ]
        for sort, collector in self._collectors.items():
            collector.add(spans.sorts[sort])

    def collected(self) -> Collected:
        """All columns; none can be added after.

        Raises:
            DamagedDocumentError: a time or a duration is beyond belief.
            InexactTimesError: see `starts_ns`.
        """
        columns = {sort: collector.collected() for sort, collector in self._collectors.items()}
        negative_durations = sum(collector.negative_durations for collector in self._collectors.values())
        return Collected(numberings=self._numberings, negative_durations=negative_durations, **columns)


class JoinedEvents:
    """Takes over what several processes collected of the parts of a file, in its order."""

    def __init__(self) -> None:
        self._numberings = Numberings()
        self._buffers = {sort: _buffers(columns) for sort, columns in _SORTS.items()}
        self._negative_durations = 0

    def add(self, others: Collected) -> None:
        """Take over what was collected of the next part."""
        numbers = self._numberings.taken_over(others.numberings)
        for sort, buffers in self._buffers.items():
            for name, buffer in buffers.items():
                column = getattr(getattr(others, sort), name)
                buffer.frombytes((numbers[_NUMBERED[name]][column] if name in _NUMBERED else column).tobytes())
        self._negative_durations += others.negative_durations

    def joined(self) -> Collected:
        """All columns; they share the memory in which they were joined, so none can be added after."""
        columns: dict[str, Any] = {sort: _SORTS[sort](**_arrays(each)) for sort, each in self._buffers.items()}
        return Collected(numberings=self._numberings, negative_durations=self._negative_durations, **columns)


class _SpansByKind(dict[str | None, list[RawEvent]]):
    """Lists of events by kind; kinds of one sort share one list, which so keeps the order of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.sorts: dict[str | None, list[RawEvent]] = {sort: [] for sort in (*_SORTS, None)}

    def __missing__(self, kind: str | None) -> list[RawEvent]:
        self[kind] = chosen = self.sorts[_sort_of(kind or "")]
        return chosen


def _sort_of(kind: str) -> str | None:
    kind = OLD_KINDS.get(kind, kind)
    if kind == "cpu_op" or RUNTIME.fullmatch(kind):
        return "calls"
    return _SORT_OF_KIND.get(kind)


class Collector(Generic[_Columns]):
    """Takes over events of one sort, chunk by chunk, and makes their columns.

    Args:
        columns: The sort of columns; those that no event carries itself come from its arguments, by the same name.
        exact: Whether the events are ExactEvents.
    """

    def __init__(self, columns: type[_Columns], numberings: Numberings, *, exact: bool = False) -> None:
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
            InexactTimesError: see `starts_of`.
        """
        if not events:
            return
        names, threads, kinds = self._numberings.names, self._numberings.threads, self._numberings.kinds
        self._buffers["start_ns"].extend(starts_of(events))
        self._buffers["thread"].extend([threads[event.pid, event.tid] for event in events])
        if issubclass(self._columns, Spans):
            durations_us = _floats([event.dur for event in events], events, "dur, which every span has")
            self._buffers["duration_ns"].extend(durations_us)
            self._buffers["name"].extend([names[event.name] for event in events])
            self._buffers["kind"].extend([kinds[event.cat] for event in events])
        if self._arguments:
            self._add_arguments(events)

    def collected(self) -> _Columns:
        """The columns of all events; they share the memory in which they were collected, so none can be added after.

        Raises:
            DamagedDocumentError: a time or a duration is beyond belief.
            InexactTimesError: see `starts_ns`.
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


def starts_of(events: Sequence[RawEvent]) -> "array[Any]":
    """When the events begin: microseconds as floats, or whole nanoseconds where they are ExactEvents.

    Raises:
        DamagedDocumentError: an event has no time, or of ExactEvents one has a time beyond any clock.
        InexactTimesError: the first time is a float that is not below EXACT_US.
    """
    if events and isinstance(events[0], ExactEvent):
        return array("q", map(_exact_ns, cast("Sequence[ExactEvent]", events)))
    starts_us = _floats([event.ts for event in events], events, "ts, which every event has")
    if events and abs(starts_us[0]) >= EXACT_US:  # the others are looked at when all are there
        raise InexactTimesError
    return starts_us


def _exact_ns(event: ExactEvent) -> int:
    text = bytes(event.ts).decode("utf-8", "replace")
    if text == "null":
        raise DamagedDocumentError(f"{named(event.name)} has no ts, which every event has")
    if text[0] not in "-0123456789":
        said = kept_name(text, most=_MOST_SHOWN)
        raise DamagedDocumentError(f"{named(event.name)} has ts {said}, not a number of microseconds")
    try:
        time_us = Decimal(text)
        is_sound = abs(time_us) < _LATEST_US
    except ArithmeticError:  # of decimal: too large an exponent
        is_sound = False
    if not is_sound:
        raise DamagedDocumentError(f"{named(event.name)} has a ts beyond any clock")
    return round(time_us * _NS_PER_US)


def _floats(values: Sequence[float | None], events: Sequence[RawEvent], what: str) -> "array[Any]":
    try:
        return array("d", values)
    except TypeError as error:
        raise DamagedDocumentError(f"{named(events[values.index(None)].name)} has no {what}") from error


def starts_ns(starts: "array[Any]", name_of: NameOf) -> Integers:
    """What `starts_of` returned as nanoseconds, in the same memory.

    Raises:
        DamagedDocumentError: a time is beyond any clock.
        InexactTimesError: the times are floats, and one is not below EXACT_US.
    """
    if starts.typecode == "q":
        return np.asarray(starts)
    worst, largest_us = _largest(starts)
    if largest_us >= _LATEST_US:
        raise DamagedDocumentError(f"{named(name_of(worst))} has a ts beyond any clock")
    if largest_us >= EXACT_US:
        raise InexactTimesError
    return _nanoseconds(starts)


def durations_ns(durations: "array[Any]", name_of: NameOf) -> Integers:
    """Microseconds as nanoseconds, in the same memory; some may be negative: profilers have written such.

    Raises:
        DamagedDocumentError: an event lasts longer than any recording.
    """
    worst, longest_us = _largest(durations)
    if longest_us >= EXACT_US:
        raise DamagedDocumentError(f"{named(name_of(worst))} has the dur {durations[worst]:g} us, beyond belief")
    return _nanoseconds(durations)


def _largest(values: "array[Any]") -> tuple[int, float]:
    """The position and the size of what is farthest from 0."""
    floats = np.asarray(values)
    if not len(floats):
        return 0, 0.0
    worst = max(int(floats.argmax()), int(floats.argmin()), key=lambda position: abs(values[position]))
    return worst, abs(values[worst])


def _nanoseconds(values: "array[Any]") -> Integers:
    """Whole and fraction apart, since their product with 1000 would need more digits than a float has."""
    microseconds = np.asarray(values)
    nanoseconds = microseconds.view(np.int64)
    for begin in range(0, len(values), _AT_ONCE):
        piece = slice(begin, begin + _AT_ONCE)
        whole_us = np.floor(microseconds[piece])
        fraction_ns = np.rint((microseconds[piece] - whole_us) * _NS_PER_US)
        nanoseconds[piece] = whole_us.astype(np.int64) * _NS_PER_US + fraction_ns.astype(np.int64)
    return nanoseconds
