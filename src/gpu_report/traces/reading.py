"""Reading a trace file of torch.profiler, plain or gzipped, with one line of error where it is not a whole trace.

blocks of bytes -> events -> columns of host calls, marks and device work -> Trace
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpu_report.traces.chunks import DamagedDocumentError, Document, RawEvent, events_of
from gpu_report.traces.spans import (
    CallArguments,
    CallSpans,
    Collector,
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
from gpu_report.traces.stream import blocks_of
from gpu_report.traces.times import Integers
from gpu_report.traces.trace import Step, Trace, TraceError

_STEP: Final = re.compile(r"ProfilerStep#(\d+)")
_RUNTIME: Final = re.compile(r"(?P<backend>\w+)_(?:runtime|driver)")
_LOADER: Final = "enumerate(DataLoader)#"
_WORK_KINDS: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_MARK_KIND: Final = "user_annotation"
_FUNCTION_KIND: Final = "python_function"
_MEMORY: Final = "[memory]"
_UNNAMED_DEVICE: Final = "accelerator"


def read_trace(path: Path) -> Trace:
    """Read a `.pt.trace.json` or `.pt.trace.json.gz` as torch.profiler exports it.

    The loader's own mark, `enumerate(DataLoader)#...`, is taken for an operation: waiting for data is work of the loop.

    Raises:
        TraceError: the file is missing, cut short, no trace, or holds no complete profiled step.
    """
    document = Document()
    try:
        sorted_events = _SortedEvents()
        for events in events_of(blocks_of(path), document):
            sorted_events.add(events)
        return sorted_events.trace(path.name, document)
    except DamagedDocumentError as error:
        raise TraceError(f"trace {path}: {error}; record it again") from error


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
        loading = [event for event in spans.marks if event.name.startswith(_LOADER)]
        self._calls.add(spans.calls + loading)
        self._marks.add(spans.marks)
        self._work.add(spans.work)
        self._functions.add(spans.functions)
        self._memory.add([event for event in events if event.ph == "i" and event.name == _MEMORY])

    def trace(self, file_name: str, document: Document) -> Trace:
        collectors = (self._calls, self._marks, self._work, self._functions, self._memory)
        thread_of, threads = self._threads()
        groups = [collector.collected() for collector in collectors]
        origin_ns = min((int(group.start_ns.min()) for group in groups if len(group)), default=0)
        calls, marks, work, functions, memory = (
            replace(group, thread=thread_of[group.thread], start_ns=group.start_ns - origin_ns) for group in groups
        )
        names, kinds = tuple(self._numberings.names), tuple(self._numberings.kinds)
        step_numbers = _step_numbers(names)
        is_step = np.isin(marks.name, np.array(list(step_numbers), dtype=np.int64))
        run_id = document.metadata.get("gpu_report_run")
        return Trace(
            file_name=file_name,
            rank=_rank(document.metadata),
            run_id=run_id if isinstance(run_id, str) else None,
            device=_device(kinds) if len(work) else None,
            was_mended=document.mended,
            metadata=document.metadata,
            names=names,
            threads=threads,
            kinds=kinds,
            texts=tuple(text.decode("utf-8", "replace") for text in self._numberings.texts),
            steps=_steps(marks.chosen(is_step), step_numbers),
            calls=calls,
            marks=marks.chosen(~is_step),
            work=work,
            functions=functions,
            memory=memory,
        )

    def _threads(self) -> tuple[Integers, tuple[str, ...]]:
        """For each pair of process and thread the position of its name; 1 and "1" are one."""
        names = Numbering()
        return np.array([names[f"{pid}/{tid}"] for pid, tid in self._numberings.threads], dtype=np.int64), tuple(names)


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
        if kind == "cpu_op" or _RUNTIME.fullmatch(kind):
            return self.calls
        if kind in _WORK_KINDS:
            return self.work
        return {_MARK_KIND: self.marks, _FUNCTION_KIND: self.functions}.get(kind, [])


def _step_numbers(names: tuple[str, ...]) -> dict[int, int]:
    """Position of the name to number of the step."""
    matches = ((position, _STEP.fullmatch(name)) for position, name in enumerate(names))
    return {position: int(match[1]) for position, match in matches if match}


def _steps(marks: LinkedSpans, numbers: Mapping[int, int]) -> tuple[Step, ...]:
    rows = zip(marks.name.tolist(), marks.start_ns.tolist(), marks.end_ns.tolist(), strict=True)
    steps = sorted((start_ns, end_ns, numbers[name]) for name, start_ns, end_ns in rows if end_ns > start_ns)
    if not steps:
        raise DamagedDocumentError("it holds no ProfilerStep, so no step was profiled")
    return tuple(Step(number=number, start_ns=start_ns, end_ns=end_ns) for start_ns, end_ns, number in steps)


def _rank(metadata: Mapping[str, Any]) -> int | None:
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else metadata.get("rank")
    return rank if isinstance(rank, int) else None


def _device(kinds: tuple[str, ...]) -> str:
    backends = {match["backend"] for kind in kinds if (match := _RUNTIME.fullmatch(kind))}
    return min(backends, default=_UNNAMED_DEVICE)
