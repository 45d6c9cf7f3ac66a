"""What the allocators gave out: totals over time, memory by operation, and what was alive when a
device was fullest.

allocator's events -> those of each device, in order of time -> MEMORY and ALLOCATIONS
"""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_report.storage.columns import Table, number, text
from gpu_report.traces.attribution import DeviceWork, HostCalls, at_positions, step_at
from gpu_report.traces.grouping import (
    BYTES_PER_MIB,
    NS_PER_MS,
    Row,
    counts,
    fits,
    grouped,
    rows_of,
    sums,
)
from gpu_report.traces.nesting import innermost_at
from gpu_report.traces.trace import HOST, NONE, UNNAMED_DEVICE, Integers, MemoryEvents, Trace

_MEMORY_DEVICE: Final = text(
    "device",
    "Whose memory: cpu, or the accelerator's backend, with its number where there are several, "
    "such as cuda:1.",
)
MEMORY: Final = Table(
    name="memory",
    meaning="The allocator's totals over time, at most 200 moments per device, the peak always "
    "among them.",
    columns=(
        _MEMORY_DEVICE,
        number("at_ms", "ms", "Since the begin of the first profiled step."),
        number("allocated_mib", "MiB", "Memory given to tensors."),
        number(
            "reserved_mib",
            "MiB",
            "Memory taken from the device, or NaN where the allocator does not say.",
        ),
    ),
)
ALLOCATIONS: Final = Table(
    name="allocations",
    meaning=(
        "One row per device and operation: the memory that it asked for within the profiled "
        "steps, whether or not it was freed again; no rows where the profiler recorded no memory."
    ),
    columns=(
        _MEMORY_DEVICE,
        text(
            "operation",
            "The innermost operation at the time of the allocation, past those that only "
            "allocate, such as aten::empty; or (no operation).",
        ),
        number("allocations_per_step", "1", "Blocks that it asked for in a step."),
        number("allocated_mib_per_step", "MiB", "Their size together."),
        number("share", "1", "Over the sum of all operations on that device."),
        number(
            "within_call_mib",
            "MiB",
            "The most that one call held at a time in blocks that it freed before it ended, as a "
            "convolution does its workspace; missing outside of all operations and where blocks "
            "have no addresses.",
        ),
    ),
)
NO_OPERATION: Final = "(no operation)"
"""The operation of a block that was allocated outside of all."""

MOMENTS: Final = 200
"""The most rows of MEMORY per device."""

_ALLOCATING: Final = re.compile(r"aten::(new_)?empty(_strided|_like)?|aten::resize_")


def memory_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> Iterator[Row]:
    """The rows of MEMORY: of each of 200 equal slices of the time the moment at which most was
    allocated.

    The peak is the first moment of the highest total. A device whose allocator records no totals
    has no rows.
    """
    begin_ns = min((step.start_ns for step in trace.steps), default=0)
    for device, events in _allocators(trace):
        if (events.allocated_bytes > 0).any():
            says_reserved = (events.reserved_bytes > 0).any()
            yield from rows_of(
                _fullest_moments(events),
                device=[device] * len(events),
                at_ms=(events.start_ns - begin_ns) / NS_PER_MS,
                allocated_mib=events.allocated_bytes / BYTES_PER_MIB,
                reserved_mib=np.where(says_reserved, events.reserved_bytes, np.nan) / BYTES_PER_MIB,
            )


def allocation_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> Iterator[Row]:
    """The rows of ALLOCATIONS, the most memory first within a device.

    Memory belongs to the innermost call at its event that shows what it is for: driver calls do
    not, nor operations that allocate for another.
    """
    only_allocates = fits(trace.names, calls.spans.name, _ALLOCATING.fullmatch)
    skipped = calls.is_driver_call | (only_allocates & (calls.parent != NONE))
    for device, events in _allocators(trace):
        operation = innermost_at(
            calls.spans, calls.parent, events.thread, events.start_ns, skipped=skipped
        )
        asked = np.flatnonzero(
            (events.changed_bytes > 0) & (step_at(trace, events.start_ns) != NONE)
        )
        found, group = grouped(at_positions(calls.spans.name, operation[asked], missing=NONE))
        names = [NO_OPERATION if name == NONE else trace.names[name] for name in found.tolist()]
        size_mib = sums(group, events.changed_bytes[asked], len(found)) / BYTES_PER_MIB
        within_call_mib = _within_call_mib(events, asked, operation, trace, calls)
        rows = rows_of(
            range(len(found)),
            device=[device] * len(found),
            operation=names,
            allocations_per_step=counts(group, len(found)) / len(trace.steps),
            allocated_mib_per_step=size_mib / len(trace.steps),
            share=size_mib / size_mib.sum(),
            within_call_mib=[within_call_mib.get(name) for name in names],
        )
        yield from sorted(rows, key=lambda row: (-row["allocated_mib_per_step"], row["operation"]))


def _within_call_mib(
    events: MemoryEvents, asked: Integers, operation: Integers, trace: Trace, calls: HostCalls
) -> dict[str, float]:
    """By operation, the most that one call held at a time in blocks that it freed again; empty
    without addresses. `operation` is that of each event.
    """
    if (events.address == NONE).any():
        return {}
    asked = asked[operation[asked] != NONE]
    call = operation[asked]
    # The next event of each event's address; past the last where there is none.
    order = np.argsort(events.address, kind="stable")
    of_next = np.full(len(order), len(order))
    has_next = events.address[order][1:] == events.address[order][:-1]
    of_next[order[:-1][has_next]] = order[1:][has_next]
    freed = np.minimum(of_next[asked], len(events) - 1)
    is_freed = (events.address[freed] == events.address[asked]) & (events.changed_bytes[freed] < 0)
    is_within = is_freed & (events.start_ns[freed] < calls.spans.end_ns[call])
    size_bytes = np.where(is_within, events.changed_bytes[asked], 0)
    of_call = np.tile(call, 2)
    order = np.lexsort((np.concatenate([asked, freed]), of_call))
    held_bytes = np.cumsum(
        np.concatenate([size_bytes, -size_bytes])[order]
    )  # 0 again at the end of each call
    name = calls.spans.name[of_call[order]]
    return {
        trace.names[one]: int(held_bytes[name == one].max()) / BYTES_PER_MIB
        for one in np.unique(name).tolist()
    }


def _allocators(trace: Trace) -> Iterator[tuple[str, MemoryEvents]]:
    """Each device with the events of its allocator, by time; events of one moment keep the order of
    the file.
    """
    events = trace.memory.chosen(np.argsort(trace.memory.start_ns, kind="stable"))
    is_host = events.device_type == 0
    if is_host.any():
        yield HOST, _counted(events.chosen(is_host))
    name = trace.device or UNNAMED_DEVICE
    devices = np.unique(events.device_id[~is_host]).tolist()
    for device_id in devices:
        device = name if len(devices) == 1 else f"{name}:{device_id}"
        yield device, events.chosen(~is_host & (events.device_id == device_id))


def _counted(events: MemoryEvents) -> MemoryEvents:
    """The events of the host that its totals count.

    They leave out memory shared with other processes, as batches from the loader's are: PyTorch
    writes a total of 0 with it (`MapAllocator.cpp`). A total that really is 0 is what the one
    before and the event's own size add up to.
    """
    is_empty = events.allocated_bytes == 0
    latest = np.maximum.accumulate(np.where(is_empty, NONE, np.arange(len(events))))
    before_bytes = np.where(latest == NONE, 0, events.allocated_bytes[latest])
    is_shared = is_empty & (before_bytes + events.changed_bytes != 0)
    return events.chosen(~is_shared | (not (~is_empty).any()))


def _fullest_moments(events: MemoryEvents) -> Integers:
    """The first position of the highest total within each slice of time."""
    if len(events) <= MOMENTS:
        return np.arange(len(events))
    since_ns = events.start_ns - events.start_ns[0]
    of_slice = np.minimum(since_ns * (MOMENTS / (float(since_ns[-1]) + 1)), MOMENTS - 1).astype(
        np.int64
    )
    order = np.lexsort((-events.allocated_bytes, of_slice))
    _, first = np.unique(of_slice[order], return_index=True)
    return order[first]
