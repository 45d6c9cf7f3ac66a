"""Operations have the time of their calls, and on the device that of the work they launched;
categories add them up.
"""

from collections import Counter

import numpy as np
import pytest

from gpu_report.traces.attribution import attribute_host
from gpu_report.traces.grouping import Row
from gpu_report.traces.nesting import cover_of
from gpu_report.traces.operations import NO_LAUNCH, category_rows, lies_in_its_like, operation_rows
from gpu_report.traces.reading import read_trace
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import (
    RawEvent,
    fixture_file,
    kernel,
    launch,
    made_by,
    mark,
    operation,
    step,
    trace_of,
)
from tests.unit.traces.conftest import RecordedTrace

GPU_FIXTURES = pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])


def fixture_trace(name: str) -> Trace:
    return read_trace(fixture_file(name))


def written(*events: RawEvent) -> list[Row]:
    return made_by(operation_rows, trace_of(*events))


def row(rows: list[Row], **where: str) -> Row:
    (found,) = [each for each in rows if where.items() <= each.items()]
    return found


def total(rows: list[Row], column: str, **where: str) -> float:
    return sum(float(each[column]) for each in rows if where.items() <= each.items())


def test_operations_show_calls_total_own_time_and_quantiles() -> None:
    rows = written(
        step(1, 0, 10_000),
        operation("aten::conv2d", 0, 3000),
        operation("aten::convolution", 1000, 1500),
        operation("aten::conv2d", 4000, 1000),
    )

    assert row(rows, name="aten::conv2d") == {
        "name": "aten::conv2d",
        "device": "cpu",
        "category": "convolution",
        "calls": 2,
        "total_ms": 4.0,
        "self_ms": 2.5,
        "self_share": 0.625,
        "p10_us": 1000.0,
        "median_us": 1000.0,
        "p90_us": 3000.0,
    }


def test_a_call_inside_one_of_the_same_name_counts_once_in_the_total() -> None:
    rows = written(
        step(1, 0, 9000), operation("aten::add", 0, 4000), operation("aten::add", 1000, 2000)
    )

    found = row(rows, name="aten::add")

    assert (found["calls"], found["total_ms"], found["self_ms"]) == (2, 4.0, 4.0)


def test_an_operation_has_the_device_time_of_what_is_launched_inside_it() -> None:
    rows = written(
        step(1, 0, 20_000),
        operation("aten::conv2d", 0, 9000),
        operation("aten::cudnn_convolution", 1000, 7000),
        launch(1, 2000),
        launch(2, 4000),
        kernel("first", 10_000, 2000, correlation=1),
        kernel("second", 12_000, 3000, correlation=2),
    )

    outer = row(rows, name="aten::conv2d", device="cuda")
    inner = row(rows, name="aten::cudnn_convolution", device="cuda")

    assert (outer["calls"], outer["total_ms"], outer["self_ms"]) == (1, 5.0, 0.0)
    assert (inner["calls"], inner["total_ms"], inner["self_ms"]) == (1, 5.0, 5.0)


def test_quantiles_on_the_device_are_of_all_that_one_call_launched() -> None:
    rows = written(
        step(1, 0, 20_000),
        operation("aten::add", 0, 900),
        launch(1, 100),
        launch(2, 200),
        operation("aten::add", 1000, 900),
        launch(3, 1100),
        kernel("first", 10_000, 200, correlation=1),
        kernel("second", 11_000, 300, correlation=2),
        kernel("third", 12_000, 100, correlation=3),
    )

    found = row(rows, name="aten::add", device="cuda")

    assert (found["calls"], found["p10_us"], found["median_us"], found["p90_us"]) == (
        2,
        100.0,
        100.0,
        500.0,
    )


def test_one_operation_inside_and_outside_the_optimizer_is_in_two_rows() -> None:
    rows = written(
        step(1, 0, 9000),
        operation("aten::mul_", 0, 1000),
        mark("Optimizer.step#SGD.step", 2000, 3000),
        operation("aten::mul_", 2500, 500),
    )

    assert row(rows, category="optimizer")["self_ms"] == 0.5
    assert row(rows, category="elementwise")["self_ms"] == 1.0


def test_work_whose_launch_was_lost_is_shown_as_such() -> None:
    rows = written(step(1, 0, 9000), kernel("gemm", 0, 1000, correlation=4))

    assert (row(rows, name=NO_LAUNCH)["category"], row(rows, name=NO_LAUNCH)["median_us"]) == (
        "matrix product",
        1000.0,
    )


def test_rows_are_ordered_by_device_and_then_by_own_time() -> None:
    rows = written(
        step(1, 0, 20_000),
        operation("aten::add", 0, 100),
        launch(1, 50),
        operation("aten::mul", 200, 300),
        kernel("k", 10_000, 900, correlation=1),
    )

    assert [(each["device"], each["name"]) for each in rows] == [
        ("cpu", "aten::mul"),
        ("cpu", "aten::add"),
        ("cpu", "cudaLaunchKernel"),
        ("cuda", "aten::add"),
    ]


@GPU_FIXTURES
def test_shares_add_up_to_one_on_each_device(fixture: str) -> None:
    trace = fixture_trace(fixture)

    for device in ("cpu", "cuda"):
        assert total(made_by(operation_rows, trace), "self_share", device=device) == pytest.approx(
            1
        )
        assert total(made_by(category_rows, trace), "share", device=device) == pytest.approx(1)


@GPU_FIXTURES
def test_categories_add_up_the_operations(fixture: str) -> None:
    trace = fixture_trace(fixture)
    operations = made_by(operation_rows, trace)

    for each in made_by(category_rows, trace):
        where = {"device": each["device"], "category": each["category"]}
        assert each["self_ms"] == pytest.approx(total(operations, "self_ms", **where))


@GPU_FIXTURES
def test_own_times_add_up_to_the_busy_time_of_every_thread(fixture: str) -> None:
    trace = fixture_trace(fixture)
    (window,) = trace.steps
    begun = trace.calls.chosen(trace.calls.start_ns < window.end_ns)

    busy_ns = sum(
        cover_of(begun, begun.thread == thread).within(
            np.array([window.start_ns]), np.array([2 * window.end_ns])
        )[0]
        for thread in np.unique(begun.thread)
    )

    assert total(made_by(operation_rows, trace), "self_ms", device="cpu") == pytest.approx(
        busy_ns / 1e6
    )


@GPU_FIXTURES
def test_own_time_never_exceeds_the_total_and_quantiles_ascend(fixture: str) -> None:
    for each in made_by(operation_rows, fixture_trace(fixture)):
        assert each["self_ms"] <= each["total_ms"] + 1e-9
        assert each["p10_us"] <= each["median_us"] <= each["p90_us"]


def test_own_times_and_calls_agree_with_the_profilers_summary(
    recorded_trace: RecordedTrace,
) -> None:
    trace = read_trace(recorded_trace.path)
    calls = attribute_host(trace)
    # The profiler's summary takes a call and one of the same name in it (aten::div_ with a scalar)
    # for one.
    is_parents_name = (calls.parent >= 0) & (calls.spans.name == calls.spans.name[calls.parent])
    merged = Counter(trace.names[name] for name in calls.spans.name[is_parents_name])
    number: Counter[str] = Counter()
    self_ms: Counter[str] = Counter()
    for each in made_by(operation_rows, trace):
        number[each["name"]] += each["calls"]
        self_ms[each["name"]] += each["self_ms"]

    for name in number:
        assert number[name] - merged[name] == recorded_trace.calls[name], name
        assert self_ms[name] * 1e3 == pytest.approx(
            recorded_trace.self_us[name], abs=0.01 * number[name]
        ), name


def test_a_call_lies_in_its_like_only_where_one_is_around_it() -> None:
    trace = trace_of(
        step(1, 0, 9000),
        operation("aten::add", 0, 5000),
        operation("aten::mul", 1000, 3000),
        operation("aten::add", 2000, 1000),
        operation("aten::mul", 6000, 1000),
    )
    calls = attribute_host(trace)

    assert lies_in_its_like(calls).tolist() == [False, False, True, False]
