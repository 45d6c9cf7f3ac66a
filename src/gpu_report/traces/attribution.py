"""Who did what within the profiled steps: host calls with their own time, device work with the call that launched it.

Trace -> HostCall (its parent, own time, category) -> DeviceWork (its call, category)
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_report.traces.categories import OTHER, category_by_name
from gpu_report.traces.nesting import Windows, nest
from gpu_report.traces.trace import Event, Trace

_CONTEXTS: Final = frozenset({"optimizer", "data loading"})
"""Categories that a mark of PyTorch's own (`Optimizer.step#...`) gives to every operation inside it."""

NO_LAUNCH: Final = "(launch not recorded)"
"""Stands for the operation of device work whose launch the trace does not hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostCall:
    """An operation or driver call on the host; `parent` is the call it began in, on the same thread."""

    event: Event
    parent: "HostCall | None"
    self_ns: int
    category: str
    in_step: bool

    def outer(self) -> Iterator["HostCall"]:
        """The calls it lies in, from the inside out."""
        call = self.parent
        while call is not None:
            yield call
            call = call.parent

    @property
    def is_driver_call(self) -> bool:
        """Whether this is a call into the accelerator's driver, not an operation of PyTorch."""
        return self.event.kind.endswith(("_runtime", "_driver"))


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceWork:
    """A kernel, copy or fill on the device; `call` is the operation that launched it, None where that is not known."""

    event: Event
    call: HostCall | None
    category: str


def attribute_host(trace: Trace) -> list[HostCall]:
    """Every host call of the trace, threads one after the other.

    A call counts as in a step where the outermost call around it began in one.
    """
    steps = Windows.of((step.start_ns, step.end_ns, step.number) for step in trace.steps)
    contexts = _contexts(trace)
    calls: list[HostCall] = []
    for thread, events in _by_thread(trace.calls).items():
        calls += _attribute_thread(events, steps=steps, contexts=contexts.get(thread, Windows.of([])))
    return calls


def attribute_device(trace: Trace, calls: Iterable[HostCall]) -> list[DeviceWork]:
    """The device work that the steps launched, also where it ran after their end.

    Work whose launch is not in the trace counts by its own start, unless it ran before any launched work did: then it
    was launched before the recording began, and belongs to an earlier step.
    """
    calls = list(calls)
    launches = {call.event.correlation: call for call in calls if call.is_driver_call}
    operations = {call.event.external_id: call for call in calls if not call.is_driver_call}
    launchers = [_launcher(event, launches, operations) for event in trace.work]
    launched_starts = (event.start_ns for event, call in zip(trace.work, launchers, strict=True) if call)
    first_launched_ns = min(launched_starts, default=0)
    steps = Windows.of((step.start_ns, step.end_ns, step.number) for step in trace.steps)
    return [
        DeviceWork(event=event, call=call, category=_device_category(event, call))
        for event, call in zip(trace.work, launchers, strict=True)
        if (call.in_step if call else event.start_ns >= first_launched_ns and steps.at(event.start_ns) is not None)
    ]


def _attribute_thread(events: list[Event], *, steps: Windows[int], contexts: Windows[str]) -> list[HostCall]:
    calls: list[HostCall] = []
    for event, position, self_ns in nest(events):
        parent = None if position is None else calls[position]
        call = HostCall(
            event=event,
            parent=parent,
            self_ns=self_ns,
            category=_host_category(event, parent, contexts.at(event.start_ns)),
            in_step=parent.in_step if parent else steps.at(event.start_ns) is not None,
        )
        calls.append(call)
    return calls


def _host_category(event: Event, parent: HostCall | None, context: str | None) -> str:
    by_name = category_by_name(event.name)
    if by_name == "runtime":
        return by_name
    return context or by_name or (parent.category if parent else OTHER)


def _device_category(event: Event, call: HostCall | None) -> str:
    if call is not None and call.category not in {OTHER, "runtime"}:
        return call.category
    return category_by_name(event.name) or OTHER


def _launcher(
    event: Event, launches: Mapping[int | None, HostCall], operations: Mapping[int | None, HostCall]
) -> HostCall | None:
    launch = launches.get(event.correlation) if event.correlation is not None else None
    if launch is None:
        return operations.get(event.external_id) if event.external_id is not None else None
    return next((call for call in launch.outer() if not call.is_driver_call), launch)


def _contexts(trace: Trace) -> dict[str, Windows[str]]:
    windows: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for mark in trace.marks:
        category = category_by_name(mark.name)
        if category in _CONTEXTS and category is not None:
            windows[mark.thread].append((mark.start_ns, mark.end_ns, category))
    return {thread: Windows.of(marks) for thread, marks in windows.items()}


def _by_thread(events: Iterable[Event]) -> dict[str, list[Event]]:
    threads: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        threads[event.thread].append(event)
    return threads
