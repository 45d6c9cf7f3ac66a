"""The table of idleness: sums per cause and operation, which with the busy time make the wall time."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.attribution import attribute_device, attribute_host
from gpu_report.traces.idle import idle_rows
from gpu_report.traces.reading import read_trace
from gpu_report.traces.steps import step_rows
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import AUTOGRAD, MAIN, RawEvent, kernel, launch, operation, span, step, trace_of

FIXTURES = Path(__file__).parents[2] / "data" / "traces"


def rows_of(trace: Trace) -> list[dict[str, Any]]:
    calls = attribute_host(trace)
    return idle_rows(trace, calls, attribute_device(trace, calls))


def operations_between(folder: Path, *events: RawEvent) -> list[tuple[str, str]]:
    """Cause and operation of the gap from 100 to 500 us."""
    work = [launch(1, 0), kernel("first", 0, 100, correlation=1), kernel("last", 500, 500, correlation=2)]
    rows = rows_of(trace_of(folder, step(1, 0, 1000), *work, *events))
    return [(row["cause"], row["operation"]) for row in rows]


def test_gaps_are_summed_by_cause_and_operation_the_longest_first(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 1000),
        launch(1, 0),
        kernel("a", 0, 100, correlation=1),
        operation("aten::mm", 110, 200),
        launch(2, 290),
        launch(3, 305),
        kernel("b", 300, 100, correlation=2),
        kernel("c", 410, 90, correlation=3),
        operation("aten::mm", 520, 70),
        launch(4, 580),
        kernel("d", 600, 400, correlation=4),
    )

    assert rows_of(trace) == [
        {"cause": "host", "operation": "aten::mm", "gaps": 2, "total_ms": 0.3, "longest_us": 200.0, "share": 0.3},
        {"cause": "launch", "operation": "", "gaps": 1, "total_ms": 0.01, "longest_us": 10.0, "share": 0.01},
    ]


def test_the_longest_in_all_stands_first_whatever_its_cause(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 1000),
        launch(1, 90),
        launch(2, 95),
        kernel("a", 100, 100, correlation=1),
        kernel("b", 400, 600, correlation=2),
    )

    assert [(row["cause"], row["total_ms"]) for row in rows_of(trace)] == [("launch", 0.2), ("host", 0.1)]


def test_the_operation_is_the_innermost_in_the_middle_of_the_gap(tmp_path: Path) -> None:
    found = operations_between(
        tmp_path,
        operation("aten::conv2d", 110, 380),
        operation("aten::empty", 120, 180),
        operation("aten::convolution", 300, 190),
        launch(2, 480),
    )

    assert found == [("host", "aten::convolution")]


def test_the_operation_is_looked_for_on_the_launching_thread_first(tmp_path: Path) -> None:
    loop, backward = operation("loop", 0, 490), operation("MmBackward0", 200, 290, on=AUTOGRAD)

    found = operations_between(tmp_path, loop, backward, launch(2, 480, on=AUTOGRAD))

    assert found == [("host", "MmBackward0")]


def test_where_the_launching_thread_did_nothing_yet_the_loops_operation_stands(tmp_path: Path) -> None:
    loop, backward = operation("loop", 0, 490), operation("MmBackward0", 400, 90, on=AUTOGRAD)

    found = operations_between(tmp_path, loop, backward, launch(2, 480, on=AUTOGRAD))

    assert found == [("host", "loop")]


def test_a_driver_call_stands_for_itself_only_outside_of_operations(tmp_path: Path) -> None:
    graph = span("cuda_runtime", "cudaGraphLaunch", 110, 380, on=MAIN, correlation=2)

    assert operations_between(tmp_path, graph) == [("host", "cudaGraphLaunch")]
    assert operations_between(tmp_path, graph, operation("replay", 105, 390)) == [("host", "replay")]


def test_for_a_synchronisation_the_operation_that_waited_stands(tmp_path: Path) -> None:
    found = operations_between(
        tmp_path,
        operation("aten::item", -400, 505),
        operation("aten::_local_scalar_dense", -395, 499),
        span("cuda_runtime", "cudaStreamSynchronize", -390, 493, on=MAIN),
        operation("aten::add", 110, 380),
        launch(2, 480),
    )

    assert found[0] == ("synchronisation", "aten::_local_scalar_dense")


def test_steps_without_device_work_take_no_part_in_the_share(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, step(1, 0, 1000), step(2, 1000, 1000), launch(1, 240), kernel("a", 250, 750))

    (row,) = rows_of(trace)

    assert (row["total_ms"], row["share"]) == (0.25, 0.25)


def test_without_an_accelerator_there_is_no_idleness(tmp_path: Path) -> None:
    assert rows_of(trace_of(tmp_path, step(1, 0, 1000), operation("aten::add", 0, 10))) == []


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_idle_and_busy_time_of_a_real_trace_make_the_wall_time(fixture: str) -> None:
    trace = read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz")
    calls = attribute_host(trace)
    steps = step_rows(trace, calls, attribute_device(trace, calls))

    idle_ms = sum(row["total_ms"] for row in rows_of(trace))

    assert idle_ms + sum(row["device_busy_ms"] for row in steps) == pytest.approx(sum(row["wall_ms"] for row in steps))


LAUNCHED = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 15), st.sampled_from([7, 8]))


@given(
    st.lists(LAUNCHED, min_size=1, max_size=8).flatmap(
        lambda work: st.tuples(st.just(work), st.permutations(range(len(work))))
    )
)
def test_the_order_of_events_in_the_file_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[list[tuple[int, int, int, int]], list[int]]
) -> None:
    work, order = drawn
    events = [
        [
            launch(number + 1, launched + number / 100, 0.005),
            operation(f"aten::op{number}", launched + number / 100 + 0.006, 9),
            kernel("gemm", launched + after, duration, on=(0, stream), correlation=number + 1),
        ]
        for number, (launched, after, duration, stream) in enumerate(work)
    ]
    folder = tmp_path_factory.mktemp("trace")

    first, second = (
        rows_of(trace_of(folder, *(event for number in numbers for event in events[number]), step(1, 0, 50)))
        for numbers in (range(len(work)), order)
    )

    assert first == second
