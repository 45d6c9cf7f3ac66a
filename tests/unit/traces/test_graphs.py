"""A replayed graph's kernels have the operations of the same step before its capture; all values
follow from the times written here.
"""

from pathlib import Path
from typing import Any

import pytest

from gpu_report.traces.analysis import analyse
from gpu_report.traces.attribution import attribute
from gpu_report.traces.graphs import with_operations
from gpu_report.traces.idle import LAUNCHES
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.phases import PHASES
from gpu_report.traces.quality import Gate
from gpu_report.traces.ranks import exchange_of
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables, tabulate_trace
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import (
    MAIN,
    RawEvent,
    launch,
    mark,
    operation,
    span,
    step,
    trace_of,
    write,
)

GEMM, RELU, ADAM = "sm90_gemm", "relu_kernel", "multi_tensor_apply"
NAMES = (GEMM, RELU, GEMM, ADAM)


def replays(*names: str, streams: tuple[int, ...] = (7,)) -> Trace:
    return trace_of(*replay_events(*names, streams=streams))


def replay_events(*names: str, streams: tuple[int, ...] = (7,)) -> list[RawEvent]:
    """Two steps that each replay a graph, whose kernels take 10, 20, 30 ... us one after another,
    after a copy of 5 us.
    """
    events: list[RawEvent] = []
    for number, begin in ((1, 0), (2, 1000)):
        events += [
            step(number, begin, 900),
            mark("data", begin + 1, 20),
            *copied(number, begin + 5),
            span("cuda_runtime", "cudaGraphLaunch", begin + 30, 5, on=MAIN, correlation=number),
        ]
        at = begin + 50
        for place, name in enumerate(names):
            on = (0, streams[place % len(streams)])
            us = 10 * (place + 1)
            events.append(span("kernel", name, at, us, on=on, correlation=number))
            at += us
    return events


def copied(number: int, at: float) -> list[RawEvent]:
    return [
        operation("aten::copy_", at, 10),
        launch(100 + number, at + 1),
        span(
            "gpu_memcpy",
            "Memcpy DtoD (Device -> Device)",
            at + 3,
            5,
            on=(0, 7),
            correlation=100 + number,
        ),
    ]


OPERATIONS_OF_STEP = (
    ("forward", "aten::mm", GEMM),
    ("forward", "aten::relu", RELU),
    ("backward", "MmBackward0", GEMM),
    ("optimizer", "Optimizer.step#Adam.step", ADAM),
)


def uncaptured(*operations: tuple[str, str, str], beside: bool = False) -> Trace:
    return trace_of(*uncaptured_events(*operations, beside=beside))


def uncaptured_events(*operations: tuple[str, str, str], beside: bool = False) -> list[RawEvent]:
    """One step of operations, each with its phase and its kernel of 7 us; `beside` them a kernel of
    another name.
    """
    events: list[RawEvent] = [step(1, 0, 900), mark("data", 1, 20), *copied(1, 5)]
    for place, (phase, name, kernel) in enumerate(operations or OPERATIONS_OF_STEP):
        begin = 100 + 100 * place
        events += [
            mark(phase, begin, 90),
            operation(name, begin + 5, 80),
            launch(place + 1, begin + 10),
            span(
                "gpu_memset" if kernel.startswith("Memset") else "kernel",
                *(kernel, begin + 20, 7),
                on=(0, 7),
                correlation=place + 1,
            ),
        ]
        if beside and place == 1:
            events += [
                launch(50, begin + 40),
                span("kernel", "only_once", begin + 50, 3, on=(0, 8), correlation=50),
            ]
    return events


def by(found: TraceTables, table: Any, key: str, value: str) -> dict[str, Any]:
    rows = Gate(found).rows(table, key, value)
    return {row[key]: row[value] for row in rows if row.get("device") != "cpu"}


def test_replayed_kernels_have_operation_and_phase_of_the_uncaptured_step() -> None:
    found = tabulate_trace(replays(*NAMES), rich=uncaptured())

    assert by(found, OPERATIONS, "name", "self_ms") == {
        "Optimizer.step#Adam.step": 0.08,
        "MmBackward0": 0.06,
        "aten::relu": 0.04,
        "aten::mm": 0.02,
        "aten::copy_": 0.01,
    }
    assert by(found, PHASES, "phase", "self_ms") == {
        "data": 0.01,
        "forward": 0.06,
        "backward": 0.06,
        "optimizer": 0.08,
    }
    assert by(found, CATEGORY_TIMES, "category", "self_ms") == {
        "matrix product": 0.08,
        "optimizer": 0.08,
        "activation": 0.04,
        "copy": 0.01,
    }


def test_each_replay_calls_the_operations_of_its_graph() -> None:
    found = tabulate_trace(replays(*NAMES), rich=uncaptured())

    assert by(found, OPERATIONS, "name", "calls")["MmBackward0"] == 2
    assert by(found, OPERATIONS, "name", "median_us")["MmBackward0"] == 30


def test_collectives_of_a_graph_are_in_the_steps_that_replay_it() -> None:
    names = (GEMM, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    operations = (("backward", "MmBackward0", names[0]), ("backward", "nccl:all_reduce", names[1]))
    linked = with_operations(attribute(replays(*names)), attribute(uncaptured(*operations)))

    found = exchange_of(*linked).collectives

    assert [(row["step"], row["operation"]) for row in found] == [
        (1, "all-reduce"),
        (2, "all-reduce"),
    ]


def test_the_host_and_the_steps_are_those_of_the_replays() -> None:
    alone = tabulate_trace(replays(*NAMES))
    found = tabulate_trace(replays(*NAMES), rich=uncaptured())

    assert found[STEPS] == alone[STEPS]
    assert found[LAUNCHES] == alone[LAUNCHES]
    assert [row for row in found[OPERATIONS] if row["device"] == "cpu"] == [
        row for row in alone[OPERATIONS] if row["device"] == "cpu"
    ]


def test_a_graph_without_an_uncaptured_step_has_no_operations() -> None:
    found = tabulate_trace(replays(*NAMES))

    assert by(found, OPERATIONS, "name", "self_ms") == {}
    assert by(found, KERNELS, "name", "operation") == {}
    assert "operations are unknown" in Gate(found).reasons(OPERATIONS, on="cuda")[0]


def test_kernels_in_another_order_are_matched_by_how_often_their_name_came_before() -> None:
    found = tabulate_trace(replays(RELU, GEMM, GEMM, ADAM, streams=(7, 8)), rich=uncaptured())

    assert by(found, PHASES, "phase", "self_ms") == {
        "data": 0.01,
        "forward": 2 * (0.01 + 0.02),
        "backward": 0.06,
        "optimizer": 0.08,
    }


def test_names_that_come_more_often_in_the_graph_leave_their_operations_unknown() -> None:
    found = tabulate_trace(replays(GEMM, RELU, RELU, GEMM, ADAM), rich=uncaptured())

    (reason,) = Gate(found).reasons(PHASES, on="cuda")
    # RELU takes 20 and 30 of 10 + 20 + 30 + 40 + 50 us, and of the 5 us of the copy.
    assert f"{50 / 155:.1%} of the device time whose operations are unknown" in reason


def test_work_beside_that_of_the_graph_changes_no_match() -> None:
    found = tabulate_trace(replays(*NAMES), rich=uncaptured(beside=True))

    assert by(found, PHASES, "phase", "self_ms")["backward"] == 0.06


@pytest.mark.parametrize(("most_us", "is_trusted"), [(800, True), (300, False)])
def test_up_to_a_fiftieth_of_the_time_may_be_of_unknown_operations(
    most_us: int, *, is_trusted: bool
) -> None:
    """Those of a kernel of 10 us, which the uncaptured step does not run."""
    events = [
        {**event, "dur": most_us} if event["name"] == ADAM else event
        for event in replay_events("other_kernel", ADAM)
    ]
    found = tabulate_trace(trace_of(*events), rich=uncaptured())

    assert Gate(found).trusts(PHASES, on="cuda") == is_trusted


def test_what_the_uncaptured_step_runs_for_its_data_is_in_no_graph() -> None:
    step_and_mark, *rest = uncaptured_events()
    for_data = [launch(60, 8), span("kernel", RELU, 12, 3, on=(0, 7), correlation=60)]
    rich = trace_of(step_and_mark, *rest, *for_data)

    found = tabulate_trace(replays(RELU, GEMM, GEMM, ADAM, streams=(7, 8)), rich=rich)

    assert by(found, OPERATIONS, "name", "self_ms")["aten::relu"] == 0.02


def test_a_graph_replayed_by_an_operation_is_no_uncaptured_step() -> None:
    replaying = [operation("graph_step", begin + 28, 10) for begin in (0, 1000)]
    rich = trace_of(*replay_events(*NAMES), *replaying)

    assert by(tabulate_trace(replays(*NAMES), rich=rich), OPERATIONS, "name", "self_ms") == {}


def test_a_fill_that_the_graph_runs_as_a_kernel_is_matched_as_a_fill() -> None:
    fill = ("forward", "aten::zero_", "Memset (Device)")
    found = tabulate_trace(
        replays("memset32_post", *NAMES), rich=uncaptured(fill, *OPERATIONS_OF_STEP)
    )

    assert by(found, OPERATIONS, "name", "self_ms")["aten::zero_"] == 0.02


def test_a_rich_trace_of_replays_shows_no_operations() -> None:
    found = tabulate_trace(replays(*NAMES), rich=replays(*NAMES))

    assert by(found, OPERATIONS, "name", "self_ms") == {}


def test_graphs_of_one_step_are_matched_one_after_the_other() -> None:
    """Two graphs of one kernel each: the forward and the backward product."""
    events: list[RawEvent] = []
    for number, begin in ((1, 0), (2, 1000)):
        events.append(step(number, begin, 900))
        for place, us in enumerate((10, 30)):
            launched = {"correlation": 10 * number + place}
            at = begin + 100 * place
            events += [
                span("cuda_runtime", "cudaGraphLaunch", at + 30, 5, on=MAIN, **launched),
                span("kernel", GEMM, at + 50, us, on=(0, 7), **launched),
            ]
    found = tabulate_trace(trace_of(*events), rich=uncaptured())

    assert by(found, PHASES, "phase", "self_ms") == {"forward": 0.02, "backward": 0.06}


def test_a_capture_trace_beside_that_of_the_replays_gives_it_the_operations(tmp_path: Path) -> None:
    module = span("python_function", "nn.Module: ReLU_0", 202, 88, on=MAIN)
    events = [*replay_events(*NAMES)], [*uncaptured_events(), module]
    replaying, capture = (
        write(tmp_path / name, each)
        for name, each in zip(("r.json", "c.json"), events, strict=True)
    )

    assert by(analyse(replaying).rows, OPERATIONS, "name", "self_ms") == {}
    found = analyse(replaying, uncaptured=capture).rows
    assert by(found, OPERATIONS, "name", "self_ms")["aten::relu"] == 0.04
    assert by(found, KERNELS, "operation", "module")["aten::relu"] == "ReLU_0"
