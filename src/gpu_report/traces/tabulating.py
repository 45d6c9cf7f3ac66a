"""From a trace to its tables: who did how much, where, in which category, and how busy each step was."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_report.traces.attribution import NO_LAUNCH, DeviceWork, HostCall, attribute_device, attribute_host
from gpu_report.traces.nesting import union_ns
from gpu_report.traces.phases import tabulate_phases
from gpu_report.traces.tables import CATEGORY_TIMES, HOST, KERNELS, OPERATIONS, STEPS, TraceTables
from gpu_report.traces.trace import Event, Step, Trace

_NS_PER_MS: Final = 1e6
_NS_PER_US: Final = 1e3


@dataclass(slots=True)
class _Times:
    calls: int = 0
    total_ns: int = 0
    self_ns: int = 0


OperationKey = tuple[str, str, str]
"""Name, device, category."""


def tabulate_trace(trace: Trace) -> TraceTables:
    """The tables over the profiled steps; rows are ordered by device (host first), then by own time, then by name."""
    calls = attribute_host(trace)
    work = attribute_device(trace, calls)
    host = _host_operations(call for call in calls if call.in_step)
    device = _device_operations(work, trace.device or "")
    return TraceTables(
        operations=OPERATIONS.from_rows([*_operation_rows(host), *_operation_rows(device)]),
        kernels=KERNELS.from_rows(_kernel_rows(work)),
        categories=CATEGORY_TIMES.from_rows(
            [*_host_category_rows(host), *_device_category_rows(work, trace.device or "")]
        ),
        steps=STEPS.from_rows(_step_row(step, trace.calls, trace.work) for step in trace.steps),
        phases=tabulate_phases(trace, calls, work),
    )


def _host_operations(calls: Iterable[HostCall]) -> dict[OperationKey, _Times]:
    times: dict[OperationKey, _Times] = defaultdict(_Times)
    for call in calls:
        row = times[call.event.name, HOST, call.category]
        row.calls += 1
        row.self_ns += call.self_ns
        if not any(outer.event.name == call.event.name for outer in call.outer()):
            row.total_ns += call.event.duration_ns
    return times


def _device_operations(work: Iterable[DeviceWork], device: str) -> dict[OperationKey, _Times]:
    times: dict[OperationKey, _Times] = defaultdict(_Times)
    callers: dict[OperationKey, set[int]] = defaultdict(set)
    for piece in work:
        duration_ns = piece.event.duration_ns
        if piece.call is None:
            row = times[NO_LAUNCH, device, piece.category]
            row.calls += 1
            row.total_ns += duration_ns
            row.self_ns += duration_ns
            continue
        times[piece.call.event.name, device, piece.category].self_ns += duration_ns
        for key, caller in _keys_along_the_chain(piece.call, piece.category, device).items():
            times[key].total_ns += duration_ns
            callers[key].add(id(caller))
    for key, distinct in callers.items():
        times[key].calls += len(distinct)
    return times


def _keys_along_the_chain(call: HostCall, category: str, device: str) -> dict[OperationKey, HostCall]:
    """The rows that a piece of work counts in, each once: its own operation's and those of the operations around it."""
    keys = {(call.event.name, device, category): call}
    for outer in call.outer():
        keys.setdefault((outer.event.name, device, outer.category), outer)
    return keys


def _operation_rows(times: Mapping[OperationKey, _Times]) -> list[dict[str, Any]]:
    all_ns = sum(row.self_ns for row in times.values())
    return [
        {
            "name": name,
            "device": device,
            "category": category,
            "calls": row.calls,
            "total_ms": row.total_ns / _NS_PER_MS,
            "self_ms": row.self_ns / _NS_PER_MS,
            "self_share": _share(row.self_ns, all_ns),
        }
        for (name, device, category), row in sorted(times.items(), key=lambda item: (-item[1].self_ns, item[0]))
    ]


def _kernel_rows(work: Iterable[DeviceWork]) -> list[dict[str, Any]]:
    times: dict[tuple[str, str], _Times] = defaultdict(_Times)
    for piece in work:
        row = times[piece.event.name, piece.category]
        row.calls += 1
        row.total_ns += piece.event.duration_ns
    all_ns = sum(row.total_ns for row in times.values())
    return [
        {
            "name": name,
            "category": category,
            "calls": row.calls,
            "total_ms": row.total_ns / _NS_PER_MS,
            "mean_us": row.total_ns / _NS_PER_US / row.calls,
            "share": _share(row.total_ns, all_ns),
        }
        for (name, category), row in sorted(times.items(), key=lambda item: (-item[1].total_ns, item[0]))
    ]


def _host_category_rows(operations: Mapping[OperationKey, _Times]) -> list[dict[str, Any]]:
    times: dict[str, _Times] = defaultdict(_Times)
    for (_, _, category), operation in operations.items():
        times[category].calls += operation.calls
        times[category].self_ns += operation.self_ns
    return _category_rows(times, HOST)


def _device_category_rows(work: Iterable[DeviceWork], device: str) -> list[dict[str, Any]]:
    times: dict[str, _Times] = defaultdict(_Times)
    for piece in work:
        times[piece.category].calls += 1
        times[piece.category].self_ns += piece.event.duration_ns
    return _category_rows(times, device)


def _category_rows(times: Mapping[str, _Times], device: str) -> list[dict[str, Any]]:
    all_ns = sum(row.self_ns for row in times.values())
    return [
        {
            "device": device,
            "category": category,
            "calls": row.calls,
            "self_ms": row.self_ns / _NS_PER_MS,
            "share": _share(row.self_ns, all_ns),
        }
        for category, row in sorted(times.items(), key=lambda item: (-item[1].self_ns, item[0]))
    ]


def _step_row(step: Step, calls: Sequence[Event], work: Sequence[Event]) -> dict[str, Any]:
    wall_ns = step.end_ns - step.start_ns
    busy_ns = _busy_ns(step, work)
    return {
        "step": step.number,
        "wall_ms": wall_ns / _NS_PER_MS,
        "host_busy_ms": _busy_ns(step, calls) / _NS_PER_MS,
        "device_busy_ms": busy_ns / _NS_PER_MS if busy_ns else None,
        "device_idle_share": 1 - busy_ns / wall_ns if busy_ns else None,
    }


def _busy_ns(step: Step, events: Iterable[Event]) -> int:
    inside = (
        (event.start_ns, event.end_ns)
        for event in events
        if event.start_ns < step.end_ns and event.end_ns > step.start_ns
    )
    return union_ns(inside, start_ns=step.start_ns, end_ns=step.end_ns)


def _share(part_ns: int, all_ns: int) -> float | None:
    return part_ns / all_ns if all_ns else None
