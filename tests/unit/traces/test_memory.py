"""The allocator's totals over time, and what each operation asked for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpu_report.traces.memory import MOMENTS, NO_OPERATION, allocation_rows, memory_rows
from gpu_report.traces.trace import NONE, MemoryEvents, Trace
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    MAIN,
    RawEvent,
    kernel,
    launch,
    made_by,
    operation,
    span,
    step,
    trace_of,
)

MIB = 2**20
CUDA = 1


def allocator_event(
    at_us: float,
    size_mib: float,
    address: int,
    *,
    total_mib: float = 0,
    reserved_mib: float = 0,
    device_type: int = CUDA,
    device: int = 0,
    on: tuple[Any, Any] = MAIN,
) -> RawEvent:
    arguments = {
        "Device Type": device_type,
        "Device Id": device,
        "Addr": address,
        "Bytes": int(size_mib * MIB),
        "Total Allocated": int(total_mib * MIB),
        "Total Reserved": int(reserved_mib * MIB),
    }
    return span("cpu_instant_event", "[memory]", at_us, 0, on=on, **arguments) | {"ph": "i"}


def cuda_trace(*events: RawEvent) -> Trace:
    return trace_of(step(1, 0, 1000), launch(1, 0), kernel("gemm", 1, 1, correlation=1), *events)


def asked(trace: Trace) -> list[tuple[str, str, float, float]]:
    rows = made_by(allocation_rows, trace)
    columns = ("device", "operation", "allocations_per_step", "allocated_mib_per_step")
    return [tuple(row[column] for column in columns) for row in rows]


def timeline(trace: Trace) -> list[tuple[str, float, float, float | None]]:
    rows = made_by(memory_rows, trace)
    return [
        (row["device"], row["at_ms"], row["allocated_mib"], row["reserved_mib"]) for row in rows
    ]


def test_a_block_belongs_to_the_innermost_operation_that_still_runs_on_its_thread() -> None:
    trace = cuda_trace(
        operation("aten::conv2d", 10, 50),
        operation("aten::convolution", 20, 20),
        allocator_event(15, 1, 1, total_mib=1),
        allocator_event(30, 2, 2, total_mib=3),
        allocator_event(45, 4, 3, total_mib=7),
        operation("aten::mul", 0, 900, on=AUTOGRAD),
        allocator_event(32, 8, 4, total_mib=15, on=AUTOGRAD),
        allocator_event(70, 16, 5, total_mib=31),
    )

    assert asked(trace) == [
        ("cuda", NO_OPERATION, 1, 16),
        ("cuda", "aten::mul", 1, 8),
        ("cuda", "aten::conv2d", 2, 5),
        ("cuda", "aten::convolution", 1, 2),
    ]


@pytest.fixture(scope="module")
def bare_trace() -> Trace:
    return cuda_trace(operation("aten::mm", 0, 1000))


HISTORIES = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 2**40), st.integers(0, 10**7)), min_size=1
)
"""Address, size and time since the event before; an address in use is freed, one not in use given
out.
"""


def with_history(trace: Trace, history: list[tuple[int, int, int]]) -> Trace:
    """The trace with the allocator's events."""
    blocks: dict[int, int] = {}
    sizes, totals = [], []
    for address, size, _ in history:
        freed = blocks.pop(address, None)
        if freed is None:
            blocks[address] = size
        sizes.append(size if freed is None else -freed)
        totals.append(sum(blocks.values()))
    times = np.cumsum([gap for _, _, gap in history])
    ones = np.ones(len(history), dtype=np.int64)
    events = MemoryEvents(
        thread=ones * trace.calls.thread[0],
        start_ns=times,
        device_type=ones,
        device_id=ones * 0,
        address=np.array([address for address, _, _ in history]),
        changed_bytes=np.array(sizes, dtype=np.int64),
        allocated_bytes=np.array(totals, dtype=np.int64),
        reserved_bytes=ones * NONE,
    )
    return replace(trace, memory=events)


@given(history=HISTORIES, times=st.integers(1, 60))
def test_the_timeline_is_short_and_keeps_the_peak(
    bare_trace: Trace, history: list[tuple[int, int, int]], times: int
) -> None:
    trace = with_history(bare_trace, history * times)
    events = trace.memory
    moments = set(
        zip((events.start_ns / 1e6).tolist(), (events.allocated_bytes / MIB).tolist(), strict=True)
    )

    rows = timeline(trace)

    assert len(rows) <= MOMENTS
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert {(at_ms, allocated) for _, at_ms, allocated, _ in rows} <= moments
    assert max(row[2] for row in rows) == events.allocated_bytes.max() / MIB
