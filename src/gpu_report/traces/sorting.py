"""The events of a trace sorted by what they are, and collected as columns.

decoded events -> SortedEvents, chunk by chunk -> Collected
"""

import re
from typing import Any, Final

import msgspec

from gpu_report.traces.collecting import Collector, Joiner, Numberings
from gpu_report.traces.events import MEMORY, RawEvent
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
            InexactTimesError: see `gpu_report.traces.times.starts_of`.
        """
        spans, memory = _SpansByKind(), []
        for event in events:
            if event.ph == "X":
                spans[event.cat].append(event)
            elif event.name == MEMORY and event.ph == "i":
                memory.append(event)
        loading = [event for event in spans.marks if event.name.startswith(_LOADER) and (event.dur or 0) >= 0]
        self._collectors["calls"].add(spans.calls + loading)
        self._collectors["marks"].add(spans.marks)
        self._collectors["work"].add(spans.work)
        self._collectors["functions"].add(spans.functions)
        self._collectors["memory"].add(memory)

    def collected(self) -> Collected:
        """All columns; none can be added after.

        Raises:
            DamagedDocumentError: a time or a duration is beyond belief.
            InexactTimesError: see `gpu_report.traces.times.starts_ns`.
        """
        columns = {sort: collector.collected() for sort, collector in self._collectors.items()}
        negative_durations = sum(collector.negative_durations for collector in self._collectors.values())
        return Collected(numberings=self._numberings, negative_durations=negative_durations, **columns)


class JoinedEvents:
    """Takes over what several processes collected of the parts of a file, in its order."""

    def __init__(self) -> None:
        self._numberings = Numberings()
        self._joiners: dict[str, Joiner[Any]] = {sort: Joiner(columns) for sort, columns in _SORTS.items()}
        self._negative_durations = 0

    def add(self, others: Collected) -> None:
        """Take over what was collected of the next part."""
        numbers = self._numberings.taken_over(others.numberings)
        for sort, joiner in self._joiners.items():
            joiner.add(getattr(others, sort), numbers)
        self._negative_durations += others.negative_durations

    def joined(self) -> Collected:
        """All columns; none can be added after."""
        columns = {sort: joiner.joined() for sort, joiner in self._joiners.items()}
        return Collected(numberings=self._numberings, negative_durations=self._negative_durations, **columns)


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
