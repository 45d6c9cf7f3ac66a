"""Reading a trace file of torch.profiler, plain or gzipped, with one line of error where it is not
a whole trace.

blocks of bytes -> events -> columns by sort: host calls, marks, device work, functions, memory ->
Trace

What repeats is numbered. Times are whole nanoseconds, exact although the file gives microseconds
with three decimals.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np

from gpu_report.errors import TraceError
from gpu_report.printing.terminal import shortened
from gpu_report.traces.document import (
    BLOCK_BYTES,
    MEMORY,
    NAME_A_TRACE,
    Arguments,
    DamagedDocumentError,
    ExactEvent,
    RawEvent,
    blocks_of,
    events_of,
    kept_name,
    named,
)
from gpu_report.traces.grouping import fits, sums
from gpu_report.traces.nesting import begin_order, overlaps
from gpu_report.traces.trace import (
    MOST_RANKS,
    NONE,
    RUNTIME,
    UNNAMED_DEVICE,
    CallSpans,
    Columns,
    Exchanges,
    Floats,
    Integers,
    LinkedSpans,
    MemoryEvents,
    Spans,
    Step,
    Trace,
    WorkSpans,
)
from gpu_report.traces.vendors import NAMES

EXACT_US: Final = 2.0**43
"""Some 101 days: a smaller 64-bit float is off by less than half a nanosecond."""

_LATEST_US: Final = 4 * 10**15
"""Some 127 years before or after 1970; the difference of two such times fits 64 bits of
nanoseconds.
"""

_NS_PER_US: Final = 1000
_STEPS_MEET_NS: Final = 1000  # steps follow each other; rounding may make two overlap by less
_NS_PER_DAY: Final = 24 * 3600 * 10**9
"""No recording lasts a day. Kineto counts from the begin of a quarter, so that a lost time, which
is 0, is farther away than that on all days but the first.
"""
_TS: Final = "ts, which every event has"
_SORT_OF_KIND: Final = {
    **dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset"), "work"),
    "cpu_op": "calls",
    "user_annotation": "marks",
    "python_function": "functions",
}
_ARGUMENTS: Final = {each.name: each for each in msgspec.structs.fields(Arguments)}
_TEXTS: Final = {"inputs", *(name for name, of in _ARGUMENTS.items() if of.type is msgspec.Raw)}
_FRACTIONS: Final = {name for name, each in _ARGUMENTS.items() if isinstance(each.default, float)}
_NO_ARGUMENTS: Final = Arguments()


class InexactTimesError(Exception):
    """Times that are too large for the floats that they were read as; read again as ExactEvent they
    are exact.
    """


class Numbering(dict[Any, int]):
    """Numbers what it is asked for in the order in which it is first asked; what is kept as one
    text, as the threads 1 and "1" are, has one number.

    `texts` are what is kept.
    """

    def __init__(self, kept: Callable[[Any], str]) -> None:
        self._kept = kept
        self.texts: dict[str, int] = {}

    def __missing__(self, key: Any) -> int:
        self[key] = number = self.texts.setdefault(self._kept(key), len(self.texts))
        return number


Numberings = Mapping[str, Numbering]
"""What the columns of positions count through; threads are pairs of the pid and the tid."""


_SORTS: Final[Mapping[str, type[Columns]]] = {
    "calls": CallSpans,
    "marks": LinkedSpans,
    "work": WorkSpans,
    "functions": Spans,
    "memory": MemoryEvents,
    "exchanges": Exchanges,
}


def read_trace(path: Path, *, block_bytes: int = BLOCK_BYTES) -> Trace:
    """Read a `.pt.trace.json` or `.pt.trace.json.gz` as torch.profiler exports it, `block_bytes` at
    a time.

    It is read again, from its begin, with exact times where floats do not hold them.

    The loader's own mark, `enumerate(DataLoader)#...`, is taken for an operation: waiting for data
    is work of the loop.

    Raises:
        TraceError: the file is missing, cut short, no trace, of PyTorch before 2.0, or holds
            neither a step nor a call nor device work.
    """
    try:
        try:
            return _read_as(RawEvent, blocks_of(path, block_bytes=block_bytes))
        except InexactTimesError:
            return _read_as(ExactEvent, blocks_of(path, block_bytes=block_bytes))
    except DamagedDocumentError as error:
        raise TraceError(f"trace {path}: {error}") from error


def _read_as(event_type: type[RawEvent], blocks: Iterable[bytes]) -> Trace:
    metadata: dict[str, Any] = {}
    numberings = {
        "names": Numbering(kept_name),
        "threads": Numbering(lambda thread: kept_name("/".join(map(str, thread)))),
        "kinds": Numbering(kept_name),
        "texts": Numbering(lambda text: text.decode("utf-8", "replace")),
    }
    collectors = {sort: Collector(columns, numberings) for sort, columns in _SORTS.items()}
    for events in events_of(blocks, metadata, event_type=event_type):
        of_sorts = _by_sort(events)
        for sort, collector in collectors.items():
            collector.add(of_sorts[sort])
    columns = {sort: each.collected() for sort, each in collectors.items()}
    # Events of negative duration are read like all others, and left out.
    is_kept = {
        sort: columns[sort].duration_ns >= 0 for sort in _SORTS if issubclass(_SORTS[sort], Spans)
    }
    columns |= {sort: columns[sort].chosen(kept) for sort, kept in is_kept.items()}
    names, threads, kinds, texts = (tuple(each.texts) for each in numberings.values())
    _move_to_begin([*columns.values()], names)
    calls, marks, work = columns["calls"], columns["marks"], columns["work"]
    kinds = _corrected(work, names, kinds)
    steps, loop_thread, marks = _split_steps(calls, marks, work, names, threads, kinds)
    calls = calls.chosen(begin_order(calls))
    run_id, info = metadata.get("gpu_report_run"), metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else metadata.get("rank")
    has_rank = isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MOST_RANKS
    backends = {match["backend"] for kind in kinds if (match := RUNTIME.fullmatch(kind))}
    return Trace(
        rank=rank if has_rank else None,
        run_id=run_id if isinstance(run_id, str) else None,
        device=min(backends, default=UNNAMED_DEVICE) if len(work) else None,
        negative_durations=sum(int((~is_kept[sort]).sum()) for sort in ("calls", "work")),
        has_steps=bool(steps),
        metadata=metadata,
        names=names,
        threads=threads,
        kinds=kinds,
        texts=texts,
        steps=steps or (_whole_recording(calls, work, kinds),),
        loop_thread=loop_thread,
        calls=calls,
        marks=marks,
        work=columns["work"],
        functions=columns["functions"],
        memory=columns["memory"],
        exchanges=columns["exchanges"],
    )


def _by_sort(events: Sequence[RawEvent]) -> Mapping[str | None, list[RawEvent]]:
    of_sort: dict[str | None, list[RawEvent]] = {sort: [] for sort in (*_SORTS, None)}
    for event in events:
        if event.ph == "X":
            of_sort[_sort_of(event.cat)].append(event)
        elif event.name == MEMORY and event.ph == "i":
            of_sort["memory"].append(event)
    of_sort["calls"] += [
        event
        for event in of_sort["marks"]
        if event.name.startswith("enumerate(DataLoader)#") and (event.dur or 0) >= 0
    ]
    of_sort["exchanges"] = [
        event for event in of_sort["calls"] if event.name == "record_param_comms"
    ]
    return of_sort


def _move_to_begin(groups: Sequence[Columns], names: Sequence[str]) -> None:
    """Make the times count from the earliest.

    Raises:
        DamagedDocumentError: the last event begins a day or more after the first, such as after a
            kernel whose time was lost and is 0.
    """
    begins = [
        (
            int(group.start_ns[at]),
            names[group.name[at]] if isinstance(group, Spans) else MEMORY,
        )
        for group in groups
        if len(group)
        for at in (group.start_ns.argmin(), group.start_ns.argmax())
    ]
    (origin_ns, first), (latest_ns, last) = (
        min(begins, default=(0, "")),
        max(begins, default=(0, "")),
    )
    if latest_ns - origin_ns >= _NS_PER_DAY:
        raise DamagedDocumentError(
            f"{named(first)} begins {(latest_ns - origin_ns) / _NS_PER_DAY:,.0f} days before "
            f"{named(last)}, so one time is wrong"
        )
    for group in groups:  # in place: the columns of a large trace are most of the memory there is
        group.start_ns[:] -= origin_ns


def _corrected(work: WorkSpans, names: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds; copies and fills that a profiler took for kernels (ROCm 7.1) are of their own from
    here on.
    """
    for kind, purpose in (("gpu_memcpy", "copies"), ("gpu_memset", "fills")):
        is_it = fits(names, work.name, NAMES[purpose].search)
        if is_it.any():
            kinds = kinds if kind in kinds else (*kinds, kind)
            work.kind[is_it] = kinds.index(kind)
    return kinds


def _split_steps(
    calls: CallSpans,
    marks: LinkedSpans,
    work: WorkSpans,
    names: tuple[str, ...],
    threads: tuple[str, ...],
    kinds: tuple[str, ...],
) -> tuple[tuple[Step, ...], int, LinkedSpans]:
    """The steps in order of time, the thread of the training loop, and the marks that are no steps.

    Raises:
        DamagedDocumentError: they and the operations are of several processes, or two steps overlap
            or have one number; of two marks of one step the outer counts.
    """
    matches = (
        (position, re.fullmatch(r"ProfilerStep#([0-9]{1,18})", name))
        for position, name in enumerate(names)
    )
    numbers = {position: int(match[1]) for position, match in matches if match}
    is_step = np.isin(marks.name, np.array(list(numbers), dtype=np.int64))
    spans = marks.chosen(is_step & (marks.duration_ns > 0))
    spans = spans.chosen(np.lexsort((-spans.end_ns, spans.start_ns)))
    operating = calls.thread[fits(kinds, calls.kind, "cpu_op".__eq__)]
    training = np.unique(np.append(operating, spans.thread)).tolist()
    processes = sorted({threads[thread].partition("/")[0] for thread in training} - {"None"})
    if len(processes) > 1:
        raise DamagedDocumentError(
            f"it holds {len(processes)} training processes "
            f"({', '.join(processes[:8])}), as a file merged from several ranks does",
            "name a folder with one trace for each rank",
        )
    _, first, which = np.unique(spans.name, return_index=True, return_inverse=True)
    is_again = spans.end_ns > spans.end_ns[first[which]]
    first.sort()
    reached_ns = np.append(0, np.maximum.accumulate(spans.end_ns[first]))[: len(first)]
    is_early = spans.start_ns[first] < reached_ns - _STEPS_MEET_NS
    wrong = spans.name[np.append(np.flatnonzero(is_again), first[is_early])]
    if len(wrong):
        raise DamagedDocumentError(
            f"{names[wrong[0]]} begins again, or before another step has ended, so "
            "that it is not one training",
            "record each training in a trace of its own",
        )
    spans = spans.chosen(first)
    # The last call of step() leaves a mark in which nothing is called and no device works.
    *others, begin_ns = spans.start_ns.tolist() or [0]
    end_ns = spans.end_ns[-1:].max(initial=0)
    happens = [overlaps(each, begin_ns, end_ns).any() for each in (calls, work)]
    if others and len(calls) and not any(happens):
        spans = spans.chosen(np.arange(len(others)))
    rest = marks.chosen(~is_step)
    looping: Spans = next((each for each in (spans, rest) if len(each)), calls)
    busy_ns = sums(looping.thread, looping.duration_ns, len(threads))
    steps = tuple(
        Step(number=numbers[name], start_ns=start_ns, end_ns=end_ns)
        for name, start_ns, end_ns in zip(
            spans.name.tolist(), spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True
        )
    )
    return steps, int(busy_ns.argmax()) if len(looping) else NONE, rest


def _whole_recording(calls: CallSpans, work: WorkSpans, kinds: tuple[str, ...]) -> Step:
    """One step from the first to the last host call or device work; a thread that only asks the
    driver, such as NCCL's watchdog, says nothing of when the training ended.
    """
    operating = np.unique(calls.thread[fits(kinds, calls.kind, "cpu_op".__eq__)])
    if len(operating):
        calls = calls.chosen(np.isin(calls.thread, operating))
    start_ns = np.append(calls.start_ns, work.start_ns).min(initial=np.iinfo(np.int64).max)
    end_ns = np.append(calls.end_ns, work.end_ns).max(initial=0)
    if end_ns <= start_ns:
        raise DamagedDocumentError(
            "it holds no ProfilerStep, and neither a host call (cpu_op) nor device work (kernel) "
            "that lasts: the profiler recorded nothing, or another program wrote it",
            NAME_A_TRACE,
        )
    return Step(number=0, start_ns=int(start_ns), end_ns=int(end_ns))


@lru_cache(maxsize=1000)  # a file may have any number of kinds
def _sort_of(kind: str | None) -> str | None:
    is_driver_call = kind is not None and RUNTIME.fullmatch(kind)
    return "calls" if is_driver_call else _SORT_OF_KIND.get(kind or "")


class Collector:
    """Takes over events of one sort, chunk by chunk, and makes their columns.

    Args:
        columns: The sort of columns; those that no event carries itself come from its arguments, by
            the same name.
        numberings: Numbers what its columns of positions count through.
    """

    def __init__(self, columns: type[Columns], numberings: Numberings) -> None:
        self._columns = columns
        self._numberings = numberings
        self._buffers: dict[str, array[Any]] = {
            column: array("d" if column in _FRACTIONS else "q")
            for column in columns.__struct_fields__
        }
        self._arguments = [name for name in self._buffers if name in {*_ARGUMENTS, *_TEXTS}]

    def add(self, events: Sequence[RawEvent]) -> None:
        """Take over some more events.

        Raises:
            DamagedDocumentError: an event has no sound time or duration, or arguments of another
                type.
            InexactTimesError: see `starts_ns`.
        """
        if not events:
            return
        names, threads, kinds = (self._numberings[of] for of in ("names", "threads", "kinds"))
        self._buffers["start_ns"].frombytes(starts_ns(events).tobytes())
        self._buffers["thread"].extend([threads[event.pid, event.tid] for event in events])
        if issubclass(self._columns, Spans):
            self._buffers["duration_ns"].frombytes(durations_ns(events).tobytes())
            self._buffers["name"].extend([names[event.name] for event in events])
            self._buffers["kind"].extend([kinds[event.cat] for event in events])
        if self._arguments:
            self._add_arguments(events)

    def collected(self) -> Any:
        """The columns of all events; they share the memory in which they were collected, so none
        can be added after.
        """
        return self._columns(**{name: np.asarray(each) for name, each in self._buffers.items()})

    def _add_arguments(self, events: Sequence[RawEvent]) -> None:
        texts = self._numberings["texts"]
        nothing = texts[b""]
        arguments: list[Any] = [event.args or _NO_ARGUMENTS for event in events]
        try:
            # Few calls have inputs, and to ask each for the text of them would take long.
            names = ("shapes" if name == "inputs" else name for name in self._arguments)
            read = list(zip(*map(attrgetter(*names), arguments), strict=True))
        except AttributeError as error:
            event = next(event for event in events if not isinstance(event.args, Arguments | None))
            raise DamagedDocumentError(
                f"the args of {named(event.name)} are not an object"
            ) from error
        for column, values in zip(self._arguments, read, strict=True):
            if column == "inputs":
                of_events = zip(events, arguments, values, strict=True)
                self._buffers[column].extend(
                    [
                        texts[of.inputs(event.name)] if shapes else nothing
                        for event, of, shapes in of_events
                    ]
                )
            elif column in _TEXTS:
                self._buffers[column].extend(
                    [texts[bytes(text)] if text else nothing for text in values]
                )
            else:
                self._buffers[column].extend(
                    _numbers(column, values, self._buffers[column].typecode, events)
                )


def _numbers(
    column: str, values: Sequence[Any], typecode: str, events: Sequence[RawEvent]
) -> "array[Any]":
    """What the arguments of events say, of one kind: whole numbers (typecode q) or any (d).

    A driver writes a number without a sign where it has none: the largest of 64 bits.
    """
    with suppress(OverflowError, TypeError):
        return array(typecode, values)
    argument, numbers = _ARGUMENTS[column], array(typecode)
    for value, event in zip(values, events, strict=True):
        try:
            numbers.append(argument.default if value is None or value == 2**64 - 1 else value)
        except (OverflowError, TypeError) as error:
            asked = "a whole number" if typecode == "q" else "a number"
            fault = (
                "does not fit 64 bits" if isinstance(error, OverflowError) else f"is not {asked}"
            )
            where = f"the args of {named(event.name)}, {argument.encode_name}"
            raise DamagedDocumentError(f"{where}: {shortened(value)} {fault}") from error
    return numbers


def starts_ns(events: Sequence[RawEvent]) -> Integers:
    """When the events begin.

    Raises:
        DamagedDocumentError: an event has no time, or of ExactEvents one has a time beyond any
            clock.
        InexactTimesError: a time is a float that is not below EXACT_US.
    """
    if events and isinstance(events[0], ExactEvent):
        exact_ns = []
        for event in events:
            time_us = cast("ExactEvent", event).ts
            if time_us is None:
                raise DamagedDocumentError(f"{named(event.name)} has no {_TS}")
            if not time_us.is_finite() or time_us.copy_abs() >= _LATEST_US:
                raise DamagedDocumentError(f"{named(event.name)} has a ts beyond any clock")
            exact_ns.append(round(time_us * _NS_PER_US))
        return np.array(exact_ns, dtype=np.int64)
    starts_us = _floats([event.ts for event in events], events, _TS)
    if (np.abs(starts_us) >= EXACT_US).any():
        raise InexactTimesError
    return _nanoseconds(starts_us)


def durations_ns(events: Sequence[RawEvent]) -> Integers:
    """How long the events last; some may be negative: profilers have written such.

    Raises:
        DamagedDocumentError: an event has no duration, or lasts longer than any recording.
    """
    durations_us = _floats([event.dur for event in events], events, "dur, which every span has")
    for position in np.flatnonzero(np.abs(durations_us) >= EXACT_US).tolist():
        duration_us, name = durations_us[position], events[position].name
        raise DamagedDocumentError(f"{named(name)} has the dur {duration_us:g} us, beyond belief")
    return _nanoseconds(durations_us)


def _floats(values: list[Any], events: Sequence[RawEvent], what: str) -> Floats:
    try:
        return np.asarray(array("d", values))
    except TypeError as error:
        raise DamagedDocumentError(
            f"{named(events[values.index(None)].name)} has no {what}"
        ) from error


def _nanoseconds(microseconds: Floats) -> Integers:
    """Whole and fraction apart, since their product with 1000 would need more digits than a float
    has.
    """
    whole_us = np.floor(microseconds)
    fraction_ns = np.rint((microseconds - whole_us) * _NS_PER_US)
    return whole_us.astype(np.int64) * _NS_PER_US + fraction_ns.astype(np.int64)
