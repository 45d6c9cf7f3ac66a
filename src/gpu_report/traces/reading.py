"""Reading a trace file of torch.profiler, plain or gzipped, with one line of error where it is not a whole trace.

blocks of bytes -> events -> columns of host calls, marks and device work -> Trace
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpu_report.traces.chunks import Document, events_of
from gpu_report.traces.collecting import (
    OLD_KINDS,
    RUNTIME,
    Collected,
    InexactTimesError,
    JoinedEvents,
    Numbering,
    SortedEvents,
)
from gpu_report.traces.events import DamagedDocumentError, ExactEvent, RawEvent, kept_name
from gpu_report.traces.grouping import is_among
from gpu_report.traces.nesting import begin_order
from gpu_report.traces.parallel import BrokenReadingError, parts_of, processes_for_reading, read_in_turns
from gpu_report.traces.stream import BLOCK_BYTES, WHOLE, Part, blocks_of
from gpu_report.traces.trace import MOST_RANKS, NONE, CallSpans, LinkedSpans, Spans, Step, Trace, TraceError, WorkSpans

_STEP: Final = re.compile(r"ProfilerStep#([0-9]{1,18})")
_UNNAMED_DEVICE: Final = "accelerator"

Read = Callable[[Part], tuple[Collected, Document]]
"""Reads a part of a trace's file."""


def read_trace(path: Path, *, block_bytes: int = BLOCK_BYTES, parts: Sequence[Part] | None = None) -> Trace:
    """Read a `.pt.trace.json` or `.pt.trace.json.gz` as torch.profiler exports it, so many bytes at a time.

    Parts are read by several processes; without any given, a large plain file is divided. The loader's own
    mark, `enumerate(DataLoader)#...`, is taken for an operation: waiting for data is work of the loop.

    Raises:
        TraceError: the file is missing, cut short, no trace, or holds neither a step nor a call nor device work.
    """
    if parts is None:
        parts = parts_of(path) if processes_for_reading() > 1 else [WHOLE]
    try:
        try:
            return _read_as(RawEvent, path, block_bytes, parts)
        except InexactTimesError:
            return _read_as(ExactEvent, path, block_bytes, parts)
    except DamagedDocumentError as error:
        raise TraceError(f"trace {path}: {error}; record it again") from error


def _read_as(event_type: type[RawEvent], path: Path, block_bytes: int, parts: Sequence[Part]) -> Trace:
    """A file that cannot be read in parts is read as a whole, which finds what is wrong with it, if anything is."""
    read = partial(_read_part, event_type, path, block_bytes)
    collected, document = (_read_in_parts(read, parts) if len(parts) > 1 else None) or read(WHOLE)
    return _trace(collected, document)


def _read_in_parts(read: Read, parts: Sequence[Part]) -> tuple[Collected, Document] | None:
    """None where a part turns out to be no sequence of whole events, or a process ended early."""
    joined, document = JoinedEvents(), Document()
    try:
        for collected, said in read_in_turns(read, parts, processes=min(processes_for_reading(), len(parts))):
            joined.add(collected)
            document.metadata.update(said.metadata)
            document.repaired |= said.repaired
            del collected, said  # before the next part is read
    except (DamagedDocumentError, BrokenReadingError):
        return None
    return joined.joined(), document


def _read_part(event_type: type[RawEvent], path: Path, block_bytes: int, part: Part) -> tuple[Collected, Document]:
    document = Document()
    sorted_events = SortedEvents(exact=event_type is ExactEvent)
    blocks = blocks_of(path, block_bytes=block_bytes, part=part)
    for events in events_of(
        blocks, document, event_type=event_type, has_head=part.begin == 0, has_tail=part.end is None
    ):
        sorted_events.add(events)
    return sorted_events.collected(), document


def _trace(collected: Collected, document: Document) -> Trace:
    names, threads, kinds = _place(collected)
    steps, loop_thread, calls, marks = _split_steps(names, collected.calls, collected.marks)
    calls.put_in_order(begin_order(calls))
    run_id = document.metadata.get("gpu_report_run")
    return Trace(
        rank=_rank(document.metadata),
        run_id=run_id if isinstance(run_id, str) else None,
        device=_device(kinds) if len(collected.work) else None,
        was_repaired=document.repaired,
        negative_durations=collected.negative_durations,
        has_steps=bool(steps),
        metadata=document.metadata,
        names=names,
        threads=threads,
        kinds=kinds,
        texts=tuple(text.decode("utf-8", "replace") for text in collected.numberings.texts),
        steps=steps or (_whole_recording(calls, collected.work),),
        loop_thread=loop_thread,
        calls=calls,
        marks=marks,
        work=collected.work,
        functions=collected.functions,
        memory=collected.memory,
    )


def _place(collected: Collected) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Move the times to begin with the earliest, and give names, threads and kinds that are kept alike one number.

    The threads 1 and "1" are one.

    Returns:
        What the columns of names, of threads and of kinds count through then.
    """
    names, threads, kinds = Numbering(), Numbering(), Numbering()
    numberings = collected.numberings
    name_of = np.array([names[kept_name(name)] for name in numberings.names], dtype=np.int64)
    thread_of = np.array([threads[kept_name(f"{pid}/{tid}")] for pid, tid in numberings.threads], dtype=np.int64)
    kind_of = np.array([kinds[kept_name(OLD_KINDS.get(kind, kind))] for kind in numberings.kinds], dtype=np.int64)
    origin_ns = min((int(group.start_ns.min()) for group in collected.groups if len(group)), default=0)
    for group in collected.groups:  # in place: the columns of a large trace are most of the memory there is
        group.start_ns[:] -= origin_ns
        group.thread[:] = thread_of[group.thread]
        if isinstance(group, Spans):
            group.name[:] = name_of[group.name]
            group.kind[:] = kind_of[group.kind]
    return tuple(names), tuple(threads), tuple(kinds)


def _split_steps(
    names: tuple[str, ...], calls: CallSpans, marks: LinkedSpans
) -> tuple[tuple[Step, ...], int, CallSpans, LinkedSpans]:
    """The steps in order of time, the first one's thread, and the calls and marks that are no steps.

    Old profilers wrote steps as operations.
    """
    matches = ((position, _STEP.fullmatch(name)) for position, name in enumerate(names))
    numbers = {position: int(match[1]) for position, match in matches if match}
    positions = np.array(list(numbers), dtype=np.int64)
    is_step_call, is_step_mark = is_among(calls.name, positions), is_among(marks.name, positions)
    spans: tuple[Spans, ...] = (calls.chosen(is_step_call), marks.chosen(is_step_mark))
    steps = sorted(
        (start_ns, end_ns, numbers[name], thread)
        for each in spans
        for name, thread, start_ns, end_ns in zip(
            *(column.tolist() for column in (each.name, each.thread, each.start_ns, each.end_ns)), strict=True
        )
        if end_ns > start_ns
    )
    return (
        tuple(Step(number=number, start_ns=start_ns, end_ns=end_ns) for start_ns, end_ns, number, _ in steps),
        steps[0][-1] if steps else NONE,
        calls.chosen(~is_step_call),
        marks.chosen(~is_step_mark),
    )


def _whole_recording(calls: CallSpans, work: WorkSpans) -> Step:
    """One step from the first to the last host call or device work."""
    start_ns = np.append(calls.start_ns, work.start_ns).min(initial=np.iinfo(np.int64).max)
    end_ns = np.append(calls.end_ns, work.end_ns).max(initial=0)
    if end_ns <= start_ns:
        raise DamagedDocumentError("it holds no ProfilerStep, and neither a host call nor device work that lasts")
    return Step(number=0, start_ns=int(start_ns), end_ns=int(end_ns))


def _rank(metadata: Mapping[str, Any]) -> int | None:
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else metadata.get("rank")
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MOST_RANKS else None


def _device(kinds: tuple[str, ...]) -> str:
    backends = {match["backend"] for kind in kinds if (match := RUNTIME.fullmatch(kind))}
    return min(backends, default=_UNNAMED_DEVICE)
