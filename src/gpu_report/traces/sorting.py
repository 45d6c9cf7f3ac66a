"""The events of a trace sorted by what they are, and collected as columns.

decoded events -> SortedEvents, chunk by chunk -> Collected
"""

import re
from dataclasses import dataclass
from typing import Final

from gpu_report.traces.collecting import (
    CallArguments,
    Collector,
    LinkArguments,
    MemoryArguments,
    Numberings,
    WorkArguments,
)
from gpu_report.traces.events import RawEvent
from gpu_report.traces.spans import CallSpans, Columns, LinkedSpans, MemoryEvents, Spans, WorkSpans

RUNTIME: Final = re.compile(r"(?P<backend>\w+)_(?:runtime|driver)")
OLD_KINDS: Final = {
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
}
"""What profilers before PyTorch 1.11 called the kinds, and what they are called since."""

_LOADER: Final = "enumerate(DataLoader)#"
_WORK_KINDS: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_MARK_KIND: Final = "user_annotation"
_FUNCTION_KIND: Final = "python_function"
_MEMORY: Final = "[memory]"


@dataclass(frozen=True, kw_only=True)
class Collected:
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


class SortedEvents:
    """Takes over events chunk by chunk; others than these, such as arrows from launch to kernel, are left out."""

    def __init__(self) -> None:
        self._numberings = Numberings()
        self._calls = Collector(CallSpans, self._numberings, arguments=CallArguments)
        self._marks = Collector(LinkedSpans, self._numberings, arguments=LinkArguments)
        self._work = Collector(WorkSpans, self._numberings, arguments=WorkArguments)
        self._functions = Collector(Spans, self._numberings)
        self._memory = Collector(MemoryEvents, self._numberings, arguments=MemoryArguments)
        self._negative_durations = 0

    def add(self, events: list[RawEvent]) -> None:
        """Take over some more events.

        Raises:
            DamagedDocumentError: an event has no time or no duration, or arguments of another type.
            InexactTimesError: see `gpu_report.traces.times.starts_ns`.
        """
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

    def extend(self, others: Collected) -> None:
        """Take over what was collected of a later part."""
        numbers = self._numberings.taken_over(others.numberings)
        self._calls.extend(others.calls, numbers)
        self._marks.extend(others.marks, numbers)
        self._work.extend(others.work, numbers)
        self._functions.extend(others.functions, numbers)
        self._memory.extend(others.memory, numbers)
        self._negative_durations += others.negative_durations

    def collected(self) -> Collected:
        """All columns; none can be added after."""
        spans = (self._calls, self._marks, self._work, self._functions)
        return Collected(
            numberings=self._numberings,
            calls=self._calls.collected(),
            marks=self._marks.collected(),
            work=self._work.collected(),
            functions=self._functions.collected(),
            memory=self._memory.collected(),
            negative_durations=self._negative_durations + sum(each.negative_durations for each in spans),
        )


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
        kind = OLD_KINDS.get(kind, kind)
        if kind == "cpu_op" or RUNTIME.fullmatch(kind):
            return self.calls
        if kind in _WORK_KINDS:
            return self.work
        return {_MARK_KIND: self.marks, _FUNCTION_KIND: self.functions}.get(kind, [])
