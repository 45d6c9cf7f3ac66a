"""The allocator's totals over time, and what each operation asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from torch.profiler import profile

from gpu_report.traces.memory import (
    MOMENTS,
    NO_OPERATION,
    allocation_rows,
    memory_rows,
)
from gpu_report.traces.reading import read_trace
from gpu_report.traces.trace import NONE, MemoryEvents, Trace
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    MAIN,
    RawEvent,
    kernel,
    launch,
    made_by,
    operation,
    recorded,
    span,
    step,
    trace_of,
)

MIB = 2**20
CUDA, HOST_TYPE = 1, 0


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


def test_a_block_that_is_allocated_when_an_operation_ends_is_not_that_operations() -> None:
    trace = cuda_trace(operation("aten::mm", 10, 10), allocator_event(20, 4, 1, total_mib=4))

    assert asked(trace) == [("cuda", NO_OPERATION, 1, 4)]


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


@pytest.mark.parametrize("inner", ["aten::empty", "aten::empty_strided", "aten::resize_"])
def test_an_operation_that_only_allocates_gives_way_to_the_one_it_allocates_for(inner: str) -> None:
    trace = cuda_trace(
        operation("aten::cudnn_convolution", 10, 50),
        operation(inner, 20, 20),
        launch(7, 22, 10),
        allocator_event(25, 2, 1, total_mib=2),
        operation("aten::empty", 80, 10),
        allocator_event(85, 1, 2, total_mib=3),
    )

    assert asked(trace) == [
        ("cuda", "aten::cudnn_convolution", 1, 2),
        ("cuda", "aten::empty", 1, 1),
    ]


def test_devices_have_peaks_of_their_own_and_numbers_where_there_are_several() -> None:
    trace = cuda_trace(
        operation("aten::mm", 10, 90),
        allocator_event(20, 1, 1, total_mib=1),
        allocator_event(30, 2, 1, total_mib=2, device=1),
        allocator_event(40, -1, 1, total_mib=0),
        allocator_event(50, 4, 1, total_mib=4, device_type=HOST_TYPE),
    )

    assert asked(trace) == [
        (device, "aten::mm", 1, size) for device, size in (("cpu", 4), ("cuda:0", 1), ("cuda:1", 2))
    ]


def test_times_count_from_the_first_step_and_the_host_has_no_reserved_memory() -> None:
    trace = trace_of(
        operation("aten::mm", 0, 10),
        step(1, 1000, 1000),
        launch(1, 1000),
        kernel("gemm", 1001, 1, correlation=1),
        allocator_event(500, 4, 1, total_mib=4, reserved_mib=20),
        allocator_event(1500, -4, 1, total_mib=0, reserved_mib=20),
        allocator_event(1600, 1, 1, total_mib=1, device_type=HOST_TYPE),
    )

    assert timeline(trace) == [("cpu", 0.6, 1, None), ("cuda", -0.5, 4, 20), ("cuda", 0.5, 0, 20)]


def test_memory_shared_with_the_loaders_workers_is_no_part_of_the_hosts_totals() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        operation("aten::mm", 0, 500),
        allocator_event(10, 8, 1, total_mib=8, device_type=HOST_TYPE),
        allocator_event(20, 100, 2, total_mib=0, reserved_mib=100, device_type=HOST_TYPE),
        allocator_event(30, -100, 3, total_mib=0, device_type=HOST_TYPE),
        allocator_event(40, -8, 1, total_mib=0, device_type=HOST_TYPE),
    )

    assert timeline(trace) == [("cpu", 0.01, 8, None), ("cpu", 0.04, 0, None)]
    assert asked(trace) == [("cpu", "aten::mm", 1, 8)]


def test_without_totals_there_is_no_timeline_but_what_was_asked_for() -> None:
    trace = cuda_trace(
        operation("aten::mm", 10, 90),
        allocator_event(20, 3, 1, total_mib=-1 / MIB),
        allocator_event(30, -3, 1, total_mib=-1 / MIB),
        allocator_event(40, 2, 2, total_mib=-1 / MIB),
    )

    assert timeline(trace) == []
    assert asked(trace) == [("cuda", "aten::mm", 2, 5)]


def test_a_trace_without_memory_has_no_rows() -> None:
    trace = cuda_trace()

    assert (timeline(trace), asked(trace)) == ([], [])


def test_an_operation_asked_for_what_it_freed_again_as_well_and_before_the_steps_for_nothing() -> (
    None
):
    trace = trace_of(
        operation("aten::mm", 1, 5),
        allocator_event(2, 64, 9),
        step(1, 10, 100),
        step(2, 110, 100),
        operation("aten::mm", 20, 30),
        allocator_event(30, 2, 1),
        allocator_event(40, -2, 1),
        operation("aten::add", 120, 30),
        operation("aten::empty", 130, 10),
        allocator_event(135, 5, 1),
        allocator_event(160, 1, 2),
        operation("aten::mm", 170, 30),
        allocator_event(180, 4, 3),
    )

    assert asked(trace) == [
        ("accelerator", "aten::mm", 1.0, 3.0),
        ("accelerator", "aten::add", 0.5, 2.5),
        ("accelerator", NO_OPERATION, 0.5, 0.5),
    ]


def within_calls(trace: Trace) -> dict[str, float | None]:
    rows = made_by(allocation_rows, trace)
    return {row["operation"]: row["within_call_mib"] for row in rows}


def test_memory_within_a_call_is_the_most_that_one_call_held_and_freed_again() -> None:
    trace = cuda_trace(
        operation("aten::cudnn_convolution", 10, 20),
        allocator_event(11, 100, 1),
        allocator_event(12, 8, 2),
        allocator_event(13, 4, 3),
        allocator_event(14, -8, 2),
        allocator_event(15, 6, 4),
        allocator_event(16, -6, 4),
        allocator_event(17, -4, 3),
        operation("aten::cudnn_convolution", 40, 20),
        operation("aten::empty", 41, 2),
        allocator_event(42, 9, 2),
        allocator_event(50, -9, 2),
    )

    assert within_calls(trace) == {"aten::cudnn_convolution": 12.0}


def test_what_outlives_its_call_or_was_asked_for_outside_of_all_is_not_memory_within_it() -> None:
    trace = cuda_trace(
        operation("aten::relu", 10, 10),
        allocator_event(12, 5, 1),
        allocator_event(20, -5, 1),
        operation("aten::mm", 30, 10),
        allocator_event(32, 7, 1),
        operation("aten::add", 50, 10),
        allocator_event(52, 7, 1),
        allocator_event(70, 3, 2),
        allocator_event(72, -3, 2),
    )

    assert within_calls(trace) == {
        "aten::relu": 0.0,
        "aten::mm": 0.0,
        "aten::add": 0.0,
        NO_OPERATION: None,
    }


def test_blocks_without_addresses_do_not_show_what_was_held_within_a_call() -> None:
    trace = cuda_trace(
        operation("aten::mm", 10, 10),
        allocator_event(12, 5, NONE),
        allocator_event(14, -5, NONE),
    )

    assert within_calls(trace) == {"aten::mm": None}


@pytest.mark.parametrize(
    "fixture", ["unet_cuda", "lstm_cuda", "transformer_fp16_cuda", "unet_compiled_cuda"]
)
def test_a_real_trace_shares_out_all_that_was_asked_for_in_its_step(fixture: str) -> None:
    trace = recorded(fixture)
    (one,) = trace.steps
    events = trace.memory
    within = (
        (events.start_ns >= one.start_ns)
        & (events.start_ns < one.end_ns)
        & (events.changed_bytes > 0)
    )
    on_device = events.changed_bytes[within & (events.device_type != HOST_TYPE)].sum() / MIB

    assert sum(size for device, *_, size in asked(trace) if device == "cuda") == pytest.approx(
        on_device
    )
    assert on_device > 0


def test_convolutions_of_a_real_trace_hold_a_workspace_and_elementwise_operations_none() -> None:
    held = within_calls(recorded("unet_cuda"))

    assert held["aten::cudnn_convolution"] == pytest.approx(192.3, abs=0.1)
    assert held["aten::cudnn_batch_norm"] == held["aten::cat"] == 0.0


def test_a_convolution_on_the_cpu_holds_the_columns_that_it_multiplies_within_its_call(
    tmp_path: Path,
) -> None:
    batch, channels, side, kernel_side = 4, 8, 32, 3
    images = torch.ones(
        batch, channels, side, side
    ).double()  # oneDNN, which needs no columns, has no doubles
    weights = torch.ones(8, channels, kernel_side, kernel_side).double()
    path = tmp_path / "trace.json"
    with profile(profile_memory=True, acc_events=True) as profiler:
        torch.conv2d(images, weights, padding=1)
    profiler.export_chrome_trace(str(path))

    columns_mib = 8 * batch * channels * kernel_side**2 * side**2 / MIB
    assert within_calls(read_trace(path))["aten::_slow_conv2d_forward"] == pytest.approx(
        columns_mib, rel=0.01
    )


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
