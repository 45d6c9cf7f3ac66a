"""From a trace to its tables: who did how much, where, in which category, and how busy each step was."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from gpu_report.traces.attribution import CATEGORY_NAMES, DeviceWork, HostCalls, attribute_device, attribute_host
from gpu_report.traces.nesting import covered_ns
from gpu_report.traces.phases import phase_rows
from gpu_report.traces.schema import CATEGORY_TIMES, HOST, KERNELS, OPERATIONS, PHASES, STEPS
from gpu_report.traces.spans import NONE, Flags, Integers
from gpu_report.traces.tables import TraceRows
from gpu_report.traces.trace import Trace

NO_LAUNCH: Final = "(launch not recorded)"
"""Stands for the operation of device work whose launch the trace does not hold."""

Row = dict[str, Any]
_NS_PER_MS: Final = 1e6
_NS_PER_US: Final = 1e3


def tabulate_trace(trace: Trace) -> TraceRows:
    """The tables over the profiled steps; rows are ordered by device (host first), then by own time, then by name."""
    calls = attribute_host(trace)
    work = attribute_device(trace, calls)
    device = trace.device or ""
    operations = [_host_operations(calls), _device_operations(calls, work)]
    categories = [operations[0].by_category(), _device_categories(work)]
    return {
        OPERATIONS: [
            row
            for times, where in zip(operations, (HOST, device), strict=True)
            for row in _operation_rows(times, (*trace.names, NO_LAUNCH), where)
        ],
        KERNELS: list(_kernel_rows(work, trace.names)),
        CATEGORY_TIMES: [
            row for times, where in zip(categories, (HOST, device), strict=True) for row in _category_rows(times, where)
        ],
        STEPS: list(_step_rows(trace)),
        PHASES: phase_rows(trace, calls, work),
    }


@dataclass(frozen=True, kw_only=True)
class _Times:
    """Sums per name and category, one number per pair in each column."""

    name: Integers
    category: Integers
    calls: Integers
    total_ns: Integers
    self_ns: Integers

    def beside(self, other: "_Times") -> "_Times":
        """The pairs of both."""
        columns = {each.name: (getattr(self, each.name), getattr(other, each.name)) for each in fields(self)}
        return _Times(**{name: np.concatenate(pair) for name, pair in columns.items()})

    def by_category(self) -> "_Times":
        categories, group = np.unique(self.category, return_inverse=True)
        return _Times(
            name=np.zeros_like(categories),
            category=categories,
            calls=_sums(group, self.calls, len(categories)),
            total_ns=_sums(group, self.self_ns, len(categories)),
            self_ns=_sums(group, self.self_ns, len(categories)),
        )


def _keys(name: Integers, category: Integers) -> Integers:
    return name * len(CATEGORY_NAMES) + category


def _sums(group: Integers, values: Integers, groups: int) -> Integers:
    """Exact sums; bincount would add as floats."""
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums


def _counts(group: Integers, groups: int) -> Integers:
    return np.bincount(group, minlength=groups).astype(np.int64)


def _host_operations(calls: HostCalls) -> _Times:
    spans = calls.spans.chosen(calls.in_step)
    keys, group = np.unique(_keys(spans.name, calls.category[calls.in_step]), return_inverse=True)
    is_outermost = ~_lies_in_its_like(calls)[calls.in_step]
    return _Times(
        name=keys // len(CATEGORY_NAMES),
        category=keys % len(CATEGORY_NAMES),
        calls=_counts(group, len(keys)),
        total_ns=_sums(group, spans.duration_ns * is_outermost, len(keys)),
        self_ns=_sums(group, calls.self_ns[calls.in_step], len(keys)),
    )


def _lies_in_its_like(calls: HostCalls) -> Flags:
    """Whether a call of the same name lies around each call."""
    name = calls.spans.name
    found = np.zeros(len(name), dtype=np.bool_)
    inner = np.arange(len(name))
    for outer in _outwards(calls, inner):
        inner, around = inner[outer != NONE], outer[outer != NONE]
        found[inner] |= name[around] == name[inner]
    return found


def _outwards(calls: HostCalls, positions: Integers) -> Iterator[Integers]:
    """Level by level the call around each position that still has one; NONE where it has none."""
    while len(positions):
        positions = calls.parent[positions]
        yield positions
        positions = positions[positions != NONE]


def _device_operations(calls: HostCalls, work: DeviceWork) -> _Times:
    """What each operation launched, and what the operations inside it did; each piece counts once in a row."""
    launched = _launched(work)
    own_key = _keys(calls.spans.name[launched.call], launched.category)
    group, key, caller = _rows_of_each(calls, launched, own_key)
    keys, row = np.unique(key, return_inverse=True)
    callers = np.unique(row * max(len(calls.spans), 1) + caller)
    times = _Times(
        name=keys // len(CATEGORY_NAMES),
        category=keys % len(CATEGORY_NAMES),
        calls=_counts(callers // max(len(calls.spans), 1), len(keys)),
        total_ns=_sums(row, launched.duration_ns[group], len(keys)),
        self_ns=_sums(np.searchsorted(keys, own_key), launched.duration_ns, len(keys)),
    )
    return times.beside(_without_launch(work))


@dataclass(frozen=True, kw_only=True)
class _Launched:
    """Device work summed per call that launched it and category."""

    call: Integers
    category: Integers
    duration_ns: Integers


def _launched(work: DeviceWork) -> _Launched:
    is_launched = work.call != NONE
    keys, group = np.unique(_keys(work.call[is_launched], work.category[is_launched]), return_inverse=True)
    return _Launched(
        call=keys // len(CATEGORY_NAMES),
        category=keys % len(CATEGORY_NAMES),
        duration_ns=_sums(group, work.spans.duration_ns[is_launched], len(keys)),
    )


def _without_launch(work: DeviceWork) -> _Times:
    """The rows of work whose launch is not in the trace, under the name that stands for it."""
    is_known = work.call != NONE
    unknown = DeviceWork(
        spans=work.spans.chosen(~is_known), call=work.call[~is_known], category=work.category[~is_known]
    )
    return _work_times(np.full(len(unknown.call), NONE), unknown)


def _rows_of_each(calls: HostCalls, launched: _Launched, own_key: Integers) -> tuple[Integers, Integers, Integers]:
    """Each group of work beside each key that it counts in, once, and the innermost call of that key around it."""
    groups, keys, callers = [np.arange(len(launched.call))], [own_key], [launched.call]
    for outer in _outwards(calls, launched.call):
        groups.append(groups[-1][outer != NONE])
        callers.append(outer[outer != NONE])
        keys.append(_keys(calls.spans.name[callers[-1]], calls.category[callers[-1]]))
    group, key, caller = np.concatenate(groups), np.concatenate(keys), np.concatenate(callers)
    _, first = np.unique(group * (key.max(initial=0) + 1) + key, return_index=True)
    return group[first], key[first], caller[first]


def _operation_rows(times: _Times, names: Sequence[str], device: str) -> Iterator[Row]:
    all_ns = int(times.self_ns.sum())
    for index in _ordered(times, names):
        yield {
            "name": names[times.name[index]],
            "device": device,
            "category": CATEGORY_NAMES[times.category[index]],
            "calls": int(times.calls[index]),
            "total_ms": int(times.total_ns[index]) / _NS_PER_MS,
            "self_ms": int(times.self_ns[index]) / _NS_PER_MS,
            "self_share": _share(int(times.self_ns[index]), all_ns),
        }


def _ordered(times: _Times, names: Sequence[str]) -> list[int]:
    """Positions by own time, the longest first, then by name and category."""
    return sorted(
        range(len(times.name)),
        key=lambda index: (-times.self_ns[index], names[times.name[index]], CATEGORY_NAMES[times.category[index]]),
    )


def _work_times(name: Integers, work: DeviceWork) -> _Times:
    keys, group = np.unique(_keys(name, work.category), return_inverse=True)
    total_ns = _sums(group, work.spans.duration_ns, len(keys))
    return _Times(
        name=keys // len(CATEGORY_NAMES),
        category=keys % len(CATEGORY_NAMES),
        calls=_counts(group, len(keys)),
        total_ns=total_ns,
        self_ns=total_ns,
    )


def _kernel_rows(work: DeviceWork, names: Sequence[str]) -> Iterator[Row]:
    times = _work_times(work.spans.name, work)
    all_ns = int(times.total_ns.sum())
    for index in _ordered(times, names):
        total_ns, calls = int(times.total_ns[index]), int(times.calls[index])
        yield {
            "name": names[times.name[index]],
            "category": CATEGORY_NAMES[times.category[index]],
            "calls": calls,
            "total_ms": total_ns / _NS_PER_MS,
            "mean_us": total_ns / _NS_PER_US / calls,
            "share": _share(total_ns, all_ns),
        }


def _device_categories(work: DeviceWork) -> _Times:
    return _work_times(np.zeros_like(work.spans.name), work)


def _category_rows(times: _Times, device: str) -> Iterator[Row]:
    all_ns = int(times.self_ns.sum())
    for index in _ordered(times, [""]):
        yield {
            "device": device,
            "category": CATEGORY_NAMES[times.category[index]],
            "calls": int(times.calls[index]),
            "self_ms": int(times.self_ns[index]) / _NS_PER_MS,
            "share": _share(int(times.self_ns[index]), all_ns),
        }


def _step_rows(trace: Trace) -> Iterator[Row]:
    steps = trace.steps
    begin_ns, end_ns = (np.array([getattr(step, side) for step in steps]) for side in ("start_ns", "end_ns"))
    host_ns, device_ns = (covered_ns(spans, begin_ns, end_ns).tolist() for spans in (trace.calls, trace.work))
    for step, host, device in zip(steps, host_ns, device_ns, strict=True):
        wall_ns = step.end_ns - step.start_ns
        yield {
            "step": step.number,
            "wall_ms": wall_ns / _NS_PER_MS,
            "host_busy_ms": host / _NS_PER_MS,
            "device_busy_ms": device / _NS_PER_MS if device else None,
            "device_idle_share": 1 - device / wall_ns if device else None,
        }


def _share(part_ns: int, all_ns: int) -> float | None:
    return part_ns / all_ns if all_ns else None
