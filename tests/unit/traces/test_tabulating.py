"""The tables of a trace add up: on a thread, over operations and categories, and with the profiler's own summary."""

import random
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from gpu_report.traces import TraceTables, read_trace, tabulate_trace
from gpu_report.traces.attribution import NO_LAUNCH, HostCall, attribute_host
from gpu_report.traces.nesting import union_ns
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    RawEvent,
    kernel,
    launch,
    mark,
    operation,
    span,
    step,
    trace_of,
)
from tests.unit.traces.conftest import RecordedTrace

FIXTURES = Path(__file__).parents[2] / "data" / "traces"
GPU_FIXTURES = pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])


def tables_of(folder: Path, *events: RawEvent) -> TraceTables:
    return tabulate_trace(trace_of(folder, *events))


def fixture_trace(name: str) -> Trace:
    return read_trace(FIXTURES / f"{name}.pt.trace.json.gz")


def row(frame: pd.DataFrame, **where: str) -> dict[str, object]:
    for column, value in where.items():
        frame = frame[frame[column] == value]
    (found,) = frame.to_dict("records")
    return {str(key): value for key, value in found.items()}


def test_operations_tell_calls_total_and_own_time(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 10_000),
        operation("aten::conv2d", 0, 3000),
        operation("aten::convolution", 1000, 1500),
        operation("aten::conv2d", 4000, 1000),
    )

    assert row(tables.operations, name="aten::conv2d") == {
        "name": "aten::conv2d",
        "device": "cpu",
        "category": "convolution",
        "calls": 2,
        "total_ms": 4.0,
        "self_ms": 2.5,
        "self_share": 0.625,
    }


def test_a_call_inside_one_of_the_same_name_counts_once_in_the_total(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, step(1, 0, 9000), operation("aten::add", 0, 4000), operation("aten::add", 1000, 2000))

    found = row(tables.operations, name="aten::add")

    assert (found["calls"], found["total_ms"], found["self_ms"]) == (2, 4.0, 4.0)


def test_an_operation_has_the_device_time_of_what_is_launched_inside_it(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 20_000),
        operation("aten::conv2d", 0, 9000),
        operation("aten::cudnn_convolution", 1000, 7000),
        launch(1, 2000),
        launch(2, 4000),
        kernel("first", 10_000, 2000, correlation=1),
        kernel("second", 12_000, 3000, correlation=2),
    )

    outer = row(tables.operations, name="aten::conv2d", device="cuda")
    inner = row(tables.operations, name="aten::cudnn_convolution", device="cuda")

    assert (outer["calls"], outer["total_ms"], outer["self_ms"]) == (1, 5.0, 0.0)
    assert (inner["calls"], inner["total_ms"], inner["self_ms"]) == (1, 5.0, 5.0)


def test_one_operation_inside_and_outside_the_optimizer_stands_in_two_rows(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 9000),
        operation("aten::mul_", 0, 1000),
        mark("Optimizer.step#SGD.step", 2000, 3000),
        operation("aten::mul_", 2500, 500),
    )

    assert row(tables.operations, category="optimizer")["self_ms"] == 0.5
    assert row(tables.operations, category="elementwise")["self_ms"] == 1.0


def test_work_whose_launch_was_lost_is_shown_as_such(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, step(1, 0, 9000), kernel("gemm", 0, 1000, correlation=4))

    assert row(tables.operations, name=NO_LAUNCH)["category"] == "matrix product"


def test_a_kernel_that_two_kinds_of_operation_launch_stands_in_two_rows(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 20_000),
        operation("aten::add", 0, 1000),
        launch(1, 100),
        operation("aten::_foreach_add_", 2000, 1000),
        launch(2, 2100),
        kernel("elementwise_kernel", 5000, 1000, correlation=1),
        kernel("elementwise_kernel", 7000, 3000, correlation=2),
    )

    assert row(tables.kernels, category="optimizer") == {
        "name": "elementwise_kernel",
        "category": "optimizer",
        "calls": 1,
        "total_ms": 3.0,
        "mean_us": 3000.0,
        "share": 0.75,
    }


def test_a_step_counts_overlapping_device_work_once_and_only_inside_its_window(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        step(1, 0, 10_000),
        operation("aten::mm", 0, 2000),
        operation("aten::mm", 1000, 2000, on=AUTOGRAD),
        launch(1, 100),
        launch(2, 200),
        launch(3, 300),
        kernel("gemm", 4000, 2000, correlation=1),
        kernel("gemm", 5000, 2000, correlation=2, on=(0, 8)),
        span("gpu_memcpy", "Memcpy DtoH", 9000, 5000, correlation=3, on=(0, 8)),
    )

    assert row(tables.steps) == {
        "step": 1,
        "wall_ms": 10.0,
        "host_busy_ms": 3.0,
        "device_busy_ms": 4.0,
        "device_idle_share": 0.6,
    }


def test_where_nothing_ran_on_a_device_nothing_is_said_of_its_idling(tmp_path: Path) -> None:
    steps = tables_of(tmp_path, step(1, 0, 10_000), operation("aten::mm", 0, 2000)).steps

    assert steps[["device_busy_ms", "device_idle_share"]].isna().all(axis=None)


def test_a_step_that_saw_no_device_event_is_not_called_idle(tmp_path: Path) -> None:
    steps = tables_of(
        tmp_path,
        step(1, 0, 10_000),
        operation("aten::mm", 0, 2000),
        launch(1, 100),
        kernel("gemm", 500, 2000, correlation=1),
        step(2, 10_000, 10_000),
    ).steps

    assert steps["device_idle_share"].isna().tolist() == [False, True]


@GPU_FIXTURES
def test_shares_add_up_to_one_on_each_device(fixture: str) -> None:
    tables = tabulate_trace(fixture_trace(fixture))

    assert tables.operations.groupby("device")["self_share"].sum().to_dict() == pytest.approx({"cpu": 1, "cuda": 1})
    assert tables.categories.groupby("device")["share"].sum().to_dict() == pytest.approx({"cpu": 1, "cuda": 1})
    assert tables.kernels["share"].sum() == pytest.approx(1)


@GPU_FIXTURES
def test_categories_add_up_the_operations(fixture: str) -> None:
    tables = tabulate_trace(fixture_trace(fixture))

    operations = tables.operations.groupby(["device", "category"])["self_ms"].sum()
    categories = tables.categories.set_index(["device", "category"])["self_ms"]

    assert categories.to_dict() == pytest.approx(operations[operations > 0].to_dict())


@GPU_FIXTURES
def test_kernels_add_up_to_the_device_time_of_the_operations(fixture: str) -> None:
    tables = tabulate_trace(fixture_trace(fixture))

    on_device = tables.operations[tables.operations["device"] == "cuda"]

    assert tables.kernels["total_ms"].sum() == pytest.approx(on_device["self_ms"].sum())


@GPU_FIXTURES
def test_own_times_add_up_to_the_busy_time_of_every_thread(fixture: str) -> None:
    trace = fixture_trace(fixture)
    (window,) = trace.steps
    threads = {call.thread for call in trace.calls}

    busy_ns = sum(
        union_ns(
            (
                (call.start_ns, call.end_ns)
                for call in trace.calls
                if call.thread == thread and call.start_ns < window.end_ns
            ),
            start_ns=window.start_ns,
            end_ns=2 * window.end_ns,
        )
        for thread in threads
    )

    host = tabulate_trace(trace).operations.query("device == 'cpu'")
    assert host["self_ms"].sum() == pytest.approx(busy_ns / 1e6)


@GPU_FIXTURES
def test_own_time_never_exceeds_the_total(fixture: str) -> None:
    operations = tabulate_trace(fixture_trace(fixture)).operations

    assert (operations["self_ms"] <= operations["total_ms"] + 1e-9).all()


@GPU_FIXTURES
def test_the_order_of_the_events_in_the_file_does_not_matter(fixture: str) -> None:
    trace = fixture_trace(fixture)
    shuffled = {kind: list(getattr(trace, kind)) for kind in ("calls", "marks", "work")}
    for events in shuffled.values():
        random.Random(7).shuffle(events)
    other = Trace(**{**vars(trace), **{kind: tuple(events) for kind, events in shuffled.items()}})

    assert tabulate_trace(other).as_csv() == tabulate_trace(trace).as_csv()


def test_own_times_and_calls_agree_with_the_profilers_summary(recorded_trace: RecordedTrace) -> None:
    trace = read_trace(recorded_trace.path)
    ours = tabulate_trace(trace).operations.groupby("name")[["calls", "self_ms"]].sum()
    # The profiler's summary takes a call and one of the same name in it (aten::div_ with a scalar) for one.
    merged = Counter(call.event.name for call in attribute_host(trace) if is_inside_its_like(call))

    for name, calls, self_ms in ours.itertuples():
        assert calls - merged[name] == recorded_trace.calls[name], name
        assert self_ms * 1e3 == pytest.approx(recorded_trace.self_us[name], abs=0.01 * calls), name


def is_inside_its_like(call: HostCall) -> bool:
    return call.parent is not None and call.parent.event.name == call.event.name
