"""What each rule of the advice finds, and whether it can be answered at all, on rows written by
hand.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.storage.columns import Table
from gpu_report.traces.advice import ADVICE, ALL_ADVICE, weigh
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import COPIES, KERNELS
from gpu_report.traces.memory import MEMORY
from gpu_report.traces.quality import QUALITY, row_of
from gpu_report.traces.steps import STEPS
from gpu_report.traces.trace import Trace
from tests.trace_frames import READ_BY
from tests.unit.traces.by_hand import RawEvent, kernel, launch, operation, span, step, trace_of

H100 = {"id": 0, "name": "H100", "totalGlobalMem": 100 * 2**20, "computeMajor": 9}
Tables = dict[Table, list[dict[str, Any]]]


def step_row(**changed: Any) -> dict[str, Any]:
    return {
        "step": 1,
        "wall_ms": 100.0,
        "loader_ms": 0.0,
        "communication_ms": 0.0,
        "exposed_communication_ms": 0.0,
        "device_busy_ms": 90.0,
        "host_busy_ms": 50.0,
        "other_ms": 0.0,
        "operator_ms": 1.0,
        **changed,
    }


def kernel_row(**changed: Any) -> dict[str, Any]:
    return {
        "name": "gemm",
        "category": "matrix product",
        "total_ms": 50.0,
        "tensor_cores": "no",
        "operation": "aten::mm",
        "source": "",
        **changed,
    }


def gap_row(cause: str, total_ms: float) -> dict[str, Any]:
    return {"cause": cause, "operation": "aten::empty", "total_ms": total_ms}


def launch_row(**changed: Any) -> dict[str, Any]:
    return {
        "step": 1,
        "launches": 100,
        "short_share": 0.0,
        "launch_bound_share": 0.0,
        "median_delay_us": 5.0,
        **changed,
    }


def advice_rows(tables: Tables, trace: Trace) -> list[dict[str, Any]]:
    return [row for _, row in weigh(tables, trace)[0]]


def unanswered(tables: Tables, trace: Trace) -> dict[str, str]:
    return {row["rule"]: row["reason"] for row in weigh(tables, trace)[1]}


def waiting(*more: RawEvent, steps: int = 1) -> Trace:
    """One wait in the first step, for 30 of its 100 microseconds."""
    return trace_of(
        *(step(number, 100 * (number - 1), 100) for number in range(1, steps + 1)),
        operation("aten::item", 11, 50),
        span("cuda_runtime", "cudaStreamSynchronize", 20, 30, on=(100, 100), correlation=5),
        launch(1, 2, 1),
        kernel("gemm", 15, 35, correlation=1),
        *more,
        deviceProperties=[H100],
    )


def rules(tables: Tables, trace: Trace) -> list[str]:
    return [row["rule"] for row in advice_rows(tables, trace)]


LIMITED: Tables = {
    STEPS: [
        step_row(loader_ms=10.0, exposed_communication_ms=20.0, device_busy_ms=20.0, other_ms=30.0)
    ],
    IDLE: [gap_row("allocator", 5.0), gap_row("synchronisation", 1.0)],
    LAUNCHES: [launch_row(launch_bound_share=0.5, short_share=0.9)],
    KERNELS: [kernel_row(), kernel_row(category="recurrent")],
    COPIES: [{"host_memory": "pageable", "total_ms": 5.0, "copies": 2}],
    MEMORY: [{"device": "cuda", "allocated_mib": 50.0, "reserved_mib": 99.0}],
}


def on_device(**metadata: Any) -> Trace:
    events = [step(1, 0, 100), operation("aten::mm", 10, 10), launch(1, 12, 1)]
    return trace_of(*events, kernel("gemm", 15, 5, correlation=1), **metadata)


@pytest.fixture
def trace() -> Trace:
    return on_device(deviceProperties=[H100])


@pytest.fixture(scope="module")
def shared_trace() -> Trace:
    return on_device()


@pytest.mark.parametrize(
    ("below", "beyond", "rule"),
    [
        ({STEPS: [step_row(loader_ms=4.9)]}, {STEPS: [step_row(loader_ms=5.0)]}, "data loader"),
        (
            {STEPS: [step_row(exposed_communication_ms=9.9)]},
            {STEPS: [step_row(exposed_communication_ms=10.0)]},
            "communication",
        ),
        (
            {STEPS: [step_row(device_busy_ms=50.0)]},
            {STEPS: [step_row(device_busy_ms=49.9)]},
            "accelerator busy",
        ),
        (
            {STEPS: [step_row()], LAUNCHES: [launch_row(launch_bound_share=0.19)]},
            {STEPS: [step_row()], LAUNCHES: [launch_row(launch_bound_share=0.2)]},
            "launch-bound",
        ),
        (
            {LAUNCHES: [launch_row(short_share=0.49, launch_bound_share=0.05)]},
            {LAUNCHES: [launch_row(short_share=0.5, launch_bound_share=0.05)]},
            "short kernels",
        ),
        (
            {STEPS: [step_row()], IDLE: [gap_row("allocator", 4.9)]},
            {STEPS: [step_row()], IDLE: [gap_row("allocator", 5.0)]},
            "allocator",
        ),
        (
            {
                STEPS: [step_row()],
                COPIES: [{"host_memory": "pageable", "total_ms": 1.9, "copies": 2}],
            },
            {
                STEPS: [step_row()],
                COPIES: [{"host_memory": "pageable", "total_ms": 2.0, "copies": 2}],
            },
            "pageable copies",
        ),
        (
            {MEMORY: [{"device": "cuda", "allocated_mib": 50.0, "reserved_mib": 89.0}]},
            {MEMORY: [{"device": "cuda", "allocated_mib": 50.0, "reserved_mib": 90.0}]},
            "peak memory",
        ),
        (
            {STEPS: [step_row()], KERNELS: [kernel_row(tensor_cores="unknown")]},
            {STEPS: [step_row()], KERNELS: [kernel_row(tensor_cores="no")]},
            "tensor cores",
        ),
        (
            {STEPS: [step_row()], KERNELS: [kernel_row(category="recurrent", tensor_cores="yes")]},
            {STEPS: [step_row()], KERNELS: [kernel_row(category="recurrent", tensor_cores="no")]},
            "tensor cores of recurrent layers",
        ),
        (
            {STEPS: [step_row(other_ms=19.9)]},
            {STEPS: [step_row(other_ms=20.0)]},
            "nothing recorded",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_rule_applies_from_its_threshold_on(
    below: Tables, beyond: Tables, rule: str, trace: Trace
) -> None:
    assert rule not in rules(below, trace)
    assert rules(beyond, trace) == [rule]


NO_GROUND: dict[str, Tables] = {
    "no tables": {},
    "a step that nothing limits": {STEPS: [step_row()], LAUNCHES: [launch_row()], QUALITY: []},
    "short kernels that the device did not wait for": {
        LAUNCHES: [launch_row(short_share=1.0, launch_bound_share=0.04)],
    },
    "pinned copies": {
        STEPS: [step_row()],
        COPIES: [{"host_memory": "pinned", "total_ms": 50.0, "copies": 2}],
    },
    "copies of all steps, as a share of all steps also where one is not reliable": {
        STEPS: [step_row(step=1), step_row(step=2)],
        COPIES: [{"host_memory": "pageable", "total_ms": 3.8, "copies": 2}],
        QUALITY: [
            row_of(
                "short last step",
                0,
                0,
                passed=False,
                text="so it is",
                invalidates=["steps"],
                step=2,
            )
        ],
    },
    "a layout kernel of an operation with tensor cores": {
        STEPS: [step_row()],
        KERNELS: [
            kernel_row(tensor_cores="yes", total_ms=10.0),
            kernel_row(name="nchwToNhwc", total_ms=40.0),
        ],
    },
}


@pytest.mark.parametrize("case", NO_GROUND)
def test_what_is_no_ground_for_advice_gets_none(case: str, trace: Trace) -> None:
    assert advice_rows(NO_GROUND[case], trace) == []


def test_what_is_at_stake_orders_the_advice(trace: Trace) -> None:
    tables = {
        STEPS: [step_row(loader_ms=10.0, exposed_communication_ms=30.0)],
        LAUNCHES: [launch_row(short_share=1.0, launch_bound_share=0.05)],
    }

    assert rules(tables, trace) == ["communication", "data loader", "short kernels"]


@pytest.mark.parametrize("spoils", ["steps", "steps.loader_ms"])
def test_no_advice_rests_on_a_number_that_the_gate_invalidates(spoils: str, trace: Trace) -> None:
    failed = row_of("any", 0, 0, passed=False, text="", invalidates=[spoils])

    assert rules({STEPS: [step_row(loader_ms=50.0)], QUALITY: [failed]}, trace) == []


def test_a_synchronising_call_is_named_with_its_source_line() -> None:
    waited = trace_of(
        step(1, 0, 100),
        span("python_function", "train.py(12): one_step", 5, 90, on=(100, 100)),
        span("python_function", "torch/_tensor.py(3): item", 10, 60, on=(100, 100)),
        operation("aten::item", 11, 50),
        operation("aten::_local_scalar_dense", 12, 48),
        span("cuda_runtime", "cudaStreamSynchronize", 20, 30, on=(100, 100), correlation=5),
        launch(1, 2, 1),
        kernel("gemm", 15, 35, correlation=1),
    )

    idle = {share: [gap_row("synchronisation", share)] for share in (0.9, 1.0)}
    assert advice_rows({STEPS: [step_row()], IDLE: idle[0.9]}, waited) == []
    (advice,) = advice_rows({STEPS: [step_row()], IDLE: idle[1.0]}, waited)

    assert advice["rule"] == "synchronising calls"
    assert advice["place"] == "train.py(12): one_step"
    assert advice["value"] == 1.0
    assert "item() made the host wait once a step, which took 30.0 µs of it" in advice["finding"]


def test_of_several_waits_each_has_its_own_time_at_stake() -> None:
    short = [
        operation("aten::nonzero", 70, 8),
        span("cuda_runtime", "cudaStreamSynchronize", 71, 2, on=(100, 100), correlation=6),
    ]
    tables = {STEPS: [step_row()], IDLE: [gap_row("synchronisation", 25.0)]}

    at_stake = {row["place"]: share for share, row in weigh(tables, waiting(*short))[0]}

    assert at_stake == {"aten::item": 0.25, "aten::nonzero": 0.02}


@given(loader=st.floats(0, 100), communication=st.floats(0, 100), busy=st.floats(0, 100))
def test_every_row_is_beyond_its_threshold_and_as_declared(
    shared_trace: Trace, loader: float, communication: float, busy: float
) -> None:
    row = step_row(loader_ms=loader, exposed_communication_ms=communication, device_busy_ms=busy)
    is_floor = {advice.name: advice.is_floor for advice in ALL_ADVICE}

    rows = advice_rows({STEPS: [row]}, shared_trace)

    ADVICE.rows_to_csv(rows)
    assert all((each["value"] < each["threshold"]) == is_floor[each["rule"]] for each in rows)
    assert len(rows) == (loader >= 5) + (communication >= 10) + (busy < 50)


@pytest.mark.parametrize("rule", [advice.name for advice in ALL_ADVICE])
def test_a_rule_keeps_silent_where_a_column_that_it_reads_is_not_reliable(rule: str) -> None:
    trace = waiting()

    assert rule in rules({**LIMITED, QUALITY: []}, trace)
    for column in (
        f"{table.name}.{column}" for table, columns in READ_BY[rule].items() for column in columns
    ):
        failed = row_of("any", 0, 0, passed=False, text="so it is", invalidates=[column])
        assert rule not in rules({**LIMITED, QUALITY: [failed]}, trace)
        assert unanswered({**LIMITED, QUALITY: [failed]}, trace)[rule] == "so it is"


def test_a_missing_number_is_not_taken_for_zero(trace: Trace) -> None:
    tables = {STEPS: [step_row(device_busy_ms=None)]}

    assert rules(tables, trace) == []
    assert unanswered(tables, trace)["accelerator busy"] == "its table steps lacks device_busy_ms"


@pytest.mark.parametrize(
    ("rule", "properties"),
    [("tensor cores", []), ("peak memory", [{**H100, "totalGlobalMem": 10**400}])],
)
def test_what_the_trace_does_not_say_of_its_device_is_not_taken_for_no(
    rule: str, properties: list[dict[str, Any]]
) -> None:
    trace = trace_of(step(1, 0, 100), deviceProperties=properties)

    assert unanswered(LIMITED, trace)[rule].startswith("it does not say")


def test_time_without_operations_says_nothing_where_none_were_recorded(trace: Trace) -> None:
    tables = {STEPS: [step_row(other_ms=90.0, operator_ms=0.0)]}

    assert "nothing recorded" not in rules(tables, trace)
    assert unanswered(tables, trace)["nothing recorded"] == "it has no operations of the host"


@pytest.mark.parametrize(
    ("category", "switch"),
    [("matrix product", "set_float32_matmul_precision"), ("convolution", "cudnn.allow_tf32")],
)
def test_advice_on_tensor_cores_names_the_switch_of_what_runs_without(
    category: str, switch: str, trace: Trace
) -> None:
    (row,) = advice_rows({STEPS: [step_row()], KERNELS: [kernel_row(category=category)]}, trace)

    assert switch in row["advice"]
