"""What the allocators gave out: totals over time, memory by operation, and what was alive when a device was fullest.

allocator's events -> one _Allocator per device, in order of time -> MEMORY, ALLOCATIONS and ALIVE
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from gpu_report.traces.attribution import DeviceWork, HostCalls
from gpu_report.traces.grouping import distinct, fits
from gpu_report.traces.nesting import windows
from gpu_report.traces.spans import NONE, Flags, MemoryEvents
from gpu_report.traces.steps import step_bounds
from gpu_report.traces.times import Integers
from gpu_report.traces.trace import HOST, Trace

BEFORE: Final = "(before the trace)"
"""Stands for the operations that allocated what was there when the recording began."""

NO_OPERATION: Final = "(no operation)"
"""Stands for the operation of a block that was allocated outside of all."""

MOMENTS: Final = 200
"""At most so many rows of MEMORY per device."""

Row = dict[str, Any]
_HOST_TYPE: Final = 0
_ALLOCATING: Final = re.compile(r"aten::(new_)?empty(_strided|_like)?|aten::resize_")
_UNNAMED_DEVICE: Final = "accelerator"
_BYTES_PER_MIB: Final = 2.0**20
_NS_PER_MS: Final = 1e6


class _Allocator(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one device's allocator, by time; events of one moment keep the order of the file."""

    device: str
    events: MemoryEvents

    @property
    def says_allocated(self) -> bool:
        return bool((self.events.allocated_bytes > 0).any())

    @property
    def says_reserved(self) -> bool:
        return bool((self.events.reserved_bytes > 0).any())

    @property
    def held_bytes(self) -> Integers:
        """What tensors held after each event; without the allocator's totals, beyond what they held before."""
        return self.events.allocated_bytes if self.says_allocated else np.cumsum(self.events.changed_bytes)


def memory_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of MEMORY: of each of 200 equal slices of the time the moment at which most was allocated.

    The peak is the first moment of the highest total. A device whose allocator tells no totals has no rows.
    """
    begin_ns = min((step.start_ns for step in trace.steps), default=0)
    return [
        row
        for allocator in _allocators(trace)
        if allocator.says_allocated
        for row in _timeline(allocator, begin_ns=begin_ns)
    ]


def allocation_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of ALLOCATIONS, the most memory first within a device."""
    begin_ns, end_ns = step_bounds(trace)
    steps = windows(begin_ns, end_ns, np.arange(len(begin_ns)))
    rows: list[Row] = []
    for allocator in _allocators(trace):
        events = allocator.events
        is_asked = (events.changed_bytes > 0) & (steps.at(events.start_ns) != NONE)
        asked = events.chosen(is_asked)
        named = _rows_by_name(allocator.device, _names_at(asked, trace, calls), asked.changed_bytes, trace.names)
        all_mib = int(asked.changed_bytes.sum()) / _BYTES_PER_MIB
        within_call_mib = _within_call_mib(events, np.flatnonzero(is_asked), trace, calls)
        rows += sorted(
            (
                {
                    "device": row["device"],
                    "operation": row["operation"],
                    "allocations_per_step": row["blocks"] / len(begin_ns),
                    "allocated_mib_per_step": row["size_mib"] / len(begin_ns),
                    "share": row["size_mib"] / all_mib,
                    "within_call_mib": within_call_mib.get(row["operation"]),
                }
                for row in named
            ),
            key=lambda row: (-row["share"], row["operation"]),
        )
    return rows


def _within_call_mib(events: MemoryEvents, asked: Integers, trace: Trace, calls: HostCalls) -> dict[str, float]:
    """By operation, the most that one call held at a time in blocks that it freed again; empty without addresses."""
    if (events.address == NONE).any():
        return {}
    operation = _operations_at(events, calls, tells_nothing=_tells_nothing(trace, calls))
    asked = asked[operation[asked] != NONE]
    call = operation[asked]
    freed = np.minimum(_next_of_block(events)[asked], len(events) - 1)
    is_freed = (events.address[freed] == events.address[asked]) & (events.changed_bytes[freed] < 0)
    is_within = is_freed & (events.start_ns[freed] < calls.spans.end_ns[call])
    size_bytes = np.where(is_within, events.changed_bytes[asked], 0)
    of_call = np.tile(call, 2)
    order = np.lexsort((np.concatenate([asked, freed]), of_call))
    held_bytes = np.cumsum(np.concatenate([size_bytes, -size_bytes])[order])  # 0 again at the end of each call
    name = calls.spans.name[of_call[order]]
    return {trace.names[one]: int(held_bytes[name == one].max()) / _BYTES_PER_MIB for one in distinct(name).tolist()}


def alive_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of ALIVE, the largest first within a device; its sizes add up to the allocator's total at the peak.

    A block lives until its address is freed, or given out again where the trace lacks the event that freed it. A device
    whose blocks have no addresses has no rows.
    """
    return [row for allocator in _allocators(trace) for row in _alive(allocator, trace, calls)]


def _allocators(trace: Trace) -> Iterator[_Allocator]:
    events = trace.memory
    if (np.diff(events.start_ns) < 0).any():
        events = events.chosen(np.argsort(events.start_ns, kind="stable"))
    is_host = events.device_type == _HOST_TYPE
    if is_host.any():
        yield _Allocator(device=HOST, events=_counted(events.chosen(is_host)))
    name = trace.device or _UNNAMED_DEVICE
    numbers = distinct(events.device_id[~is_host]).tolist()
    for number in numbers:
        device = name if len(numbers) == 1 else f"{name}:{number}"
        yield _Allocator(device=device, events=events.chosen(~is_host & (events.device_id == number)))


def _counted(events: MemoryEvents) -> MemoryEvents:
    """The events of the host that its totals count.

    They leave out memory shared with other processes, as batches from the loader's are: PyTorch writes a total of 0
    with it (`MapAllocator.cpp`). A total that really is 0 is what the one before and the event's own size add up to.
    """
    is_empty = events.allocated_bytes == 0
    latest = np.maximum.accumulate(np.where(is_empty, NONE, np.arange(len(events))))
    before_bytes = np.where(latest == NONE, 0, events.allocated_bytes[latest])
    is_shared = is_empty & (before_bytes + events.changed_bytes != 0)
    return events.chosen(~is_shared | (not (~is_empty).any()))


def _timeline(allocator: _Allocator, *, begin_ns: int) -> Iterator[Row]:
    events = allocator.events
    for index in _fullest_moments(events).tolist():
        reserved = float(events.reserved_bytes[index]) / _BYTES_PER_MIB if allocator.says_reserved else None
        yield {
            "device": allocator.device,
            "at_ms": (int(events.start_ns[index]) - begin_ns) / _NS_PER_MS,
            "allocated_mib": float(events.allocated_bytes[index]) / _BYTES_PER_MIB,
            "reserved_mib": reserved,
        }


def _fullest_moments(events: MemoryEvents) -> Integers:
    """The first position of the highest total within each slice of time."""
    if len(events) <= MOMENTS:
        return np.arange(len(events))
    since_ns = events.start_ns - events.start_ns[0]
    of_slice = np.minimum(since_ns * (MOMENTS / (float(since_ns[-1]) + 1)), MOMENTS - 1).astype(np.int64)
    order = np.lexsort((-events.allocated_bytes, of_slice))
    _, first = np.unique(of_slice[order], return_index=True)
    return order[first]


def _alive(allocator: _Allocator, trace: Trace, calls: HostCalls) -> list[Row]:
    events = allocator.events
    if (events.address == NONE).any():
        return []
    peak = int(np.argmax(allocator.held_bytes))
    blocks = events.chosen(_is_alive(events, peak))
    rows = list(_rows_by_name(allocator.device, _names_at(blocks, trace, calls), blocks.changed_bytes, trace.names))
    if allocator.says_allocated:
        rows += _rows_before(allocator.device, int(events.allocated_bytes[peak]) - int(blocks.changed_bytes.sum()))
    return sorted(rows, key=lambda row: (-row["size_mib"], row["operation"]))


def _names_at(events: MemoryEvents, trace: Trace, calls: HostCalls) -> Integers:
    """The name of the operation of each event, NONE outside of all."""
    operation = _operations_at(events, calls, tells_nothing=_tells_nothing(trace, calls))
    return np.where(operation == NONE, NONE, calls.spans.name[operation]) if len(calls.spans) else operation


def _is_alive(events: MemoryEvents, peak: int) -> Flags:
    """Which events allocated a block that was neither freed nor given out again up to the event `peak`."""
    return (events.changed_bytes > 0) & (np.arange(len(events)) <= peak) & (_next_of_block(events) > peak)


def _next_of_block(events: MemoryEvents) -> Integers:
    """The position of the next event of each event's address; past the last where there is none."""
    order = np.argsort(events.address, kind="stable")
    of_next = np.full(len(order), len(order))
    has_next = events.address[order][1:] == events.address[order][:-1]
    of_next[order[:-1][has_next]] = order[1:][has_next]
    return of_next


def _tells_nothing(trace: Trace, calls: HostCalls) -> Flags:
    """Which calls do not tell what memory is for: driver calls, and operations that allocate for another."""
    only_allocates = fits(trace.names, calls.spans.name, _ALLOCATING.fullmatch)
    is_inner: Flags = calls.parent != NONE
    return calls.is_driver_call | (only_allocates & is_inner)


def _operations_at(events: MemoryEvents, calls: HostCalls, *, tells_nothing: Flags) -> Integers:
    """The innermost call on the event's thread at its time that tells something, NONE outside of all."""
    found = np.full(len(events), NONE)
    spans = calls.spans
    bounds = np.flatnonzero(np.diff(spans.thread, prepend=NONE, append=NONE)).tolist()
    for begin, end in pairwise(bounds):
        on_thread = np.flatnonzero(events.thread == spans.thread[begin])
        latest = np.searchsorted(spans.start_ns[begin:end], events.start_ns[on_thread], side="right") - 1
        found[on_thread] = np.where(latest < 0, NONE, latest + begin)
    searching = np.flatnonzero(found != NONE)
    while len(searching):
        call = found[searching]
        is_over = spans.end_ns[call] <= events.start_ns[searching]
        searching, call = (column[is_over | tells_nothing[call]] for column in (searching, call))
        found[searching] = calls.parent[call]
        searching = searching[found[searching] != NONE]
    return found


def _rows_by_name(device: str, name: Integers, size_bytes: Integers, names: tuple[str, ...]) -> Iterator[Row]:
    for number in distinct(name).tolist():
        sizes = size_bytes[name == number]
        yield {
            "device": device,
            "operation": NO_OPERATION if number == NONE else names[number],
            "blocks": len(sizes),
            "size_mib": int(sizes.sum()) / _BYTES_PER_MIB,
        }


def _rows_before(device: str, size_bytes: int) -> list[Row]:
    """What the blocks of the trace do not account for, as the row of what was there before it."""
    if not size_bytes:
        return []
    return [{"device": device, "operation": BEFORE, "blocks": 0, "size_mib": size_bytes / _BYTES_PER_MIB}]
