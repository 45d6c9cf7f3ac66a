"""Operations have the time of their calls, and on the device that of the work they launched;
categories add them up.
"""

from collections import Counter

import pytest

from gpu_report.traces.attribution import attribute_host
from gpu_report.traces.grouping import Row
from gpu_report.traces.operations import operation_rows
from gpu_report.traces.reading import read_trace
from tests.unit.traces.by_hand import RawEvent, kernel, launch, made_by, operation, step, trace_of
from tests.unit.traces.conftest import RecordedTrace


def written(*events: RawEvent) -> list[Row]:
    return made_by(operation_rows, trace_of(*events))


def row(rows: list[Row], **where: str) -> Row:
    (found,) = [each for each in rows if where.items() <= each.items()]
    return found


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
