"""Reading a trace file of torch.profiler, plain or gzipped, with one line of error where it is not a whole trace.

blocks of bytes -> events -> columns of host calls, marks and device work -> Trace
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from gpu_report.traces.chunks import DamagedDocumentError, Document, ExactEvent, RawEvent, events_of
from gpu_report.traces.spans import (
    NONE,
    CallArguments,
    CallSpans,
    Collector,
    Columns,
    LinkArguments,
    LinkedSpans,
    MemoryArguments,
    MemoryEvents,
    Numbering,
    Numberings,
    Spans,
    WorkArguments,
    WorkSpans,
)
from gpu_report.traces.stream import BLOCK_BYTES, blocks_of
from gpu_report.traces.times import InexactTimesError, Integers
from gpu_report.traces.trace import Step, Trace, TraceError

_STEP: Final = re.compile(r"ProfilerStep#([0-9]{1,18})")
_RUNTIME: Final = re.compile(r"(?P<backend>\w+)_(?:runtime|driver)")
_LOADER: Final = "enumerate(DataLoader)#"
_WORK_KINDS: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_MARK_KIND: Final = "user_annotation"
_FUNCTION_KIND: Final = "python_function"
_MEMORY: Final = "[memory]"
_UNNAMED_DEVICE: Final = "accelerator"
_OLD_KINDS: Final = {
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
}
"""What profilers before PyTorch 1.11 called the kinds, and what they are called since."""


def read_trace(path: Path, *, block_bytes: int = BLOCK_BYTES) -> Trace:
    """Read a `.pt.trace.json` or `.pt.trace.json.gz` as torch.profiler exports it, so many bytes at a time.

    The loader's own mark, `enumerate(DataLoader)#...`, is taken for an operation: waiting for data is work of the loop.

    Raises:
        TraceError: the file is missing, cut short, no trace, or holds neither a step nor a call nor device work.
    """
    try:
        try:
            return _read_as(RawEvent, path, block_bytes)
        except InexactTimesError:
            return _read_as(ExactEvent, path, block_bytes)
    except DamagedDocumentError as error:
        raise TraceError(f"trace {path}: {error}; record it again") from error


def _read_as(event_type: type[RawEvent], path: Path, block_bytes: int) -> Trace:
    document = Document()
    sorted_events = _SortedEvents()
    for events in events_of(blocks_of(path, block_bytes=block_bytes), document, event_type=event_type):
        sorted_events.add(events)
    return sorted_events.trace(path.name, document)


class _SortedEvents:
    """The events of a trace by what they are; others, such as arrows from launch to kernel, are left out."""

    def __init__(self) -> None:
        self._numberings = Numberings()
        self._calls = Collector(CallSpans, self._numberings, arguments=CallArguments)
        self._marks = Collector(LinkedSpans, self._numberings, arguments=LinkArguments)
        self._work = Collector(WorkSpans, self._numberings, arguments=WorkArguments)
        self._functions = Collector(Spans, self._numberings)
        self._memory = Collector(MemoryEvents, self._numberings, arguments=MemoryArguments)

    def add(self, events: list[RawEvent]) -> None:
        spans = _SpansByKind()
        for event in events:
            if event.ph == "X":
                spans[event.cat].append(event)
        loading = [event for event in spans.marks if event.name.startswith(_LOADER) and (event.dur or 0) >= 0]
        self._calls.add(spans.calls + loading)
        self._marks.add(spans.marks)
        self._work.add(spans.work)
        self._functions.add(spans.functions)
        self._memory.add([event for event in events if event.ph == "i" and event.name == _MEMORY])

    def trace(self, file_name: str, document: Document) -> Trace:
        calls, marks, work = self._calls.collected(), self._marks.collected(), self._work.collected()
        functions, memory = self._functions.collected(), self._memory.collected()
        place = self._placing(calls, marks, work, functions, memory)
        names, kinds = tuple(self._numberings.names), place.kinds
        calls, marks, work = place.spans(calls), place.spans(marks), place.spans(work)
        steps, loop_thread, calls, marks = _split_steps(names, calls, marks)
        run_id = document.metadata.get("gpu_report_run")
        return Trace(
            file_name=file_name,
            rank=_rank(document.metadata),
            run_id=run_id if isinstance(run_id, str) else None,
            device=_device(kinds) if len(work) else None,
            was_mended=document.mended,
            negative_durations=sum(
                spans.negative_durations for spans in (self._calls, self._marks, self._work, self._functions)
            ),
            has_steps=bool(steps),
            metadata=document.metadata,
            names=names,
            threads=place.threads,
            kinds=kinds,
            texts=tuple(text.decode("utf-8", "replace") for text in self._numberings.texts),
            steps=steps or (_whole_recording(calls, work),),
            loop_thread=loop_thread,
            calls=calls,
            marks=marks,
            work=work,
            functions=place.spans(functions),
            memory=place.columns(memory),
        )

    def _placing(self, *groups: Columns) -> "_Placing":
        threads, kinds = Numbering(), Numbering()
        return _Placing(
            origin_ns=min((int(group.start_ns.min()) for group in groups if len(group)), default=0),
            thread_of=np.array([threads[f"{pid}/{tid}"] for pid, tid in self._numberings.threads], dtype=np.int64),
            threads=tuple(threads),
            kind_of=np.array([kinds[_OLD_KINDS.get(kind, kind)] for kind in self._numberings.kinds], dtype=np.int64),
            kinds=tuple(kinds),
        )


Placed = TypeVar("Placed", bound=Columns)
PlacedSpans = TypeVar("PlacedSpans", bound=Spans)


@dataclass(frozen=True, kw_only=True)
class _Placing:
    """Moves times to begin with the earliest, and gives threads and kinds one number each: 1 and "1" are one thread."""

    origin_ns: int
    thread_of: Integers
    threads: tuple[str, ...]
    kind_of: Integers
    kinds: tuple[str, ...]

    def columns(self, group: Placed) -> Placed:
        return replace(group, thread=self.thread_of[group.thread], start_ns=group.start_ns - self.origin_ns)

    def spans(self, group: PlacedSpans) -> PlacedSpans:
        return replace(self.columns(group), kind=self.kind_of[group.kind])


class _SpansByKind(dict[str | None, list[RawEvent]]):
    """Lists of events by kind; kinds that are kept together share one list, which so keeps the order of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[RawEvent] = []
        self.marks: list[RawEvent] = []
        self.work: list[RawEvent] = []
        self.functions: list[RawEvent] = []

    def __missing__(self, kind: str | None) -> list[RawEvent]:
        self[kind] = chosen = self._list_for(kind or "")
        return chosen

    def _list_for(self, kind: str) -> list[RawEvent]:
        kind = _OLD_KINDS.get(kind, kind)
        if kind == "cpu_op" or _RUNTIME.fullmatch(kind):
            return self.calls
        if kind in _WORK_KINDS:
            return self.work
        return {_MARK_KIND: self.marks, _FUNCTION_KIND: self.functions}.get(kind, [])


def _split_steps(
    names: tuple[str, ...], calls: CallSpans, marks: LinkedSpans
) -> tuple[tuple[Step, ...], int, CallSpans, LinkedSpans]:
    """The steps in order of time, the first one's thread, and the calls and marks that are no steps.

    Old profilers wrote steps as operations.
    """
    matches = ((position, _STEP.fullmatch(name)) for position, name in enumerate(names))
    numbers = {position: int(match[1]) for position, match in matches if match}
    positions = np.array(list(numbers), dtype=np.int64)
    is_step_call, is_step_mark = np.isin(calls.name, positions), np.isin(marks.name, positions)
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
        calls.chosen(~is_step_call) if is_step_call.any() else calls,
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
    return rank if isinstance(rank, int) and not isinstance(rank, bool) else None


def _device(kinds: tuple[str, ...]) -> str:
    backends = {match["backend"] for kind in kinds if (match := _RUNTIME.fullmatch(kind))}
    return min(backends, default=_UNNAMED_DEVICE)
