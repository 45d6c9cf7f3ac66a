"""What ranks exchange: two traces made by hand with known waits, one rank of a real trace, and a
real run with gloo.
"""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_report.measure.run import RANKS_PROFILE_FACTOR
from gpu_report.traces.attribution import attribute
from gpu_report.traces.ranks import (
    COLLECTIVES,
    LEAST_STEPS,
    RANKS,
    SLOW_FROM,
    Exchange,
    exchange_of,
    median_collectives,
    median_ranks,
    slow_rank,
    tabulate_ranks,
)
from gpu_report.traces.tables import tabulate_trace_of
from gpu_report.traces.trace import Trace
from tests.unit.measure.test_ranks import measured
from tests.unit.traces.by_hand import AUTOGRAD, RawEvent, kernel, launch, operation, step, trace_of

NCCL = (0, 20)
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
STEP_US = 1000
NOTE = {
    "Collective name": "allreduce",
    "In msg nelems": 1_000_000,
    "Out msg nelems": 1_000_000,
    "dtype": "Float",
    "Group size": 2,
    "Process Group Name": "0",
    "Process Group Ranks": "[0, 1]",
}


def collective(
    number: int, start_us: float, duration_us: float, *, note: dict[str, Any] | None = NOTE
) -> list[RawEvent]:
    """A collective that the host launched 50 us before it ran; it is not noted if there is no
    `note`.
    """
    noting = operation("record_param_comms", start_us - 50, 20, on=AUTOGRAD, external_id=number)
    noting["args"] |= note or {}
    started = launch(number, start_us - 45, on=AUTOGRAD)
    return [
        *([noting] if note else []),
        started,
        kernel(KERNEL, start_us, duration_us, on=NCCL, correlation=number),
    ]


def rank_trace(
    rank: int, *collectives: tuple[float, float], world: int = 2, **options: Any
) -> Trace:
    """A step per collective, which has it at that moment and for that long; autograd computes from
    100 to 600 us.
    """
    events = []
    for number, (start_us, duration_us) in enumerate(collectives, start=1):
        begin_us = number * STEP_US
        events += [
            step(number, begin_us, STEP_US),
            operation(
                "autograd::engine::evaluate_function: MmBackward0", begin_us, 40, on=AUTOGRAD
            ),
            launch(100 + number, begin_us + 10, on=AUTOGRAD),
            kernel("gemm", begin_us + 100, 500, correlation=100 + number),
            *collective(number, begin_us + start_us, duration_us, **options),
        ]
    return trace_of(*events, distributedInfo={"rank": rank, "world_size": world})


def exchanges(*traces: Trace) -> list[Exchange]:
    return [exchange_of(*attribute(trace)) for trace in traces]


def rank_rows(*traces: Trace) -> list[dict[str, Any]]:
    tables = tabulate_ranks(exchanges(*traces))
    for table, rows in tables.items():
        table.rows_to_csv(rows)
    return tables[RANKS]


def test_a_rank_waits_as_long_as_its_collective_takes_longer_than_the_shortest() -> None:
    early, late = rank_rows(rank_trace(0, (400, 400)), rank_trace(1, (700, 100)))

    assert (early["communication_ms"], early["hidden_ms"], early["exposed_ms"]) == pytest.approx(
        (0.4, 0.2, 0.2)
    )
    assert (late["communication_ms"], late["hidden_ms"], late["exposed_ms"]) == pytest.approx(
        (0.1, 0.0, 0.1)
    )
    assert (early["wait_ms"], late["wait_ms"]) == pytest.approx((0.3, 0.0))
    assert early["compute_ms"] == late["compute_ms"] == pytest.approx(0.5)


def test_bandwidth_is_that_of_the_rank_that_came_last() -> None:
    early, late = tabulate_ranks(exchanges(rank_trace(0, (400, 400)), rank_trace(1, (700, 100))))[
        COLLECTIVES
    ]

    assert (early["operation"], early["bytes"], early["group_size"]) == ("all-reduce", 4e6, 2)
    assert (early["begin_after_backward_ms"], late["begin_after_backward_ms"]) == pytest.approx(
        (-0.2, 0.1)
    )
    assert early["transfer_ms"] == late["transfer_ms"] == pytest.approx(0.1)
    assert early["bus_bandwidth_gb_per_s"] == pytest.approx(2 * (2 - 1) / 2 * 4e6 / 1e5)


@pytest.mark.parametrize("slow", [0, 1])
def test_the_rank_that_all_others_wait_for_in_most_steps_is_slow(slow: int) -> None:
    steps = [
        [(700, 50) if (rank == slow) == (step > 0) else (400, 350) for step in range(5)]
        for rank in range(2)
    ]
    traces = [rank_trace(rank, *of_rank) for rank, of_rank in enumerate(steps)]

    assert slow_rank(rank_rows(*traces)) == slow


@pytest.mark.parametrize(
    "waits_us",
    [
        (900 * SLOW_FROM,) * LEAST_STEPS,
        (300, -300, 300, -300, 0),
        (0,) * LEAST_STEPS,
        (300,) * (LEAST_STEPS - 1),
    ],
    ids=["too short", "the other waits as often", "nobody waits", "too few steps"],
)
def test_no_rank_is_slow_that_is_not_waited_for_in_most_steps(waits_us: Sequence[float]) -> None:
    first = rank_trace(0, *((700 - max(wait, 0), 50 + max(wait, 0)) for wait in waits_us))
    second = rank_trace(1, *((700 - max(-wait, 0), 50 + max(-wait, 0)) for wait in waits_us))

    assert slow_rank(rank_rows(first, second)) is None


@pytest.mark.parametrize("names", [("allreduce", "_allgather_base"), ("send", "recv")])
def test_waits_are_unknown_where_ranks_do_not_do_the_same(names: tuple[str, str]) -> None:
    first, second = ({**NOTE, "Collective name": name} for name in names)
    rows = rank_rows(rank_trace(0, (400, 400), note=first), rank_trace(1, (700, 100), note=second))

    assert [row["wait_ms"] for row in rows] == [None, None]
    assert slow_rank(rows) is None


@pytest.mark.slow
def test_a_record_of_ranks_has_the_waits_of_all_of_them(tmp_path: Path) -> None:
    record = measured("Tiny", tmp_path)
    tables = tabulate_trace_of(record, tmp_path / "trace", tmp_path / "rich_trace")

    steps = [(row["rank"], row["step"] - tables[RANKS][0]["step"]) for row in tables[RANKS]]
    assert steps == [*itertools.product(range(2), range(RANKS_PROFILE_FACTOR * 2))]
    assert all(row["wait_ms"] is not None for row in tables[RANKS])
    assert {row["operation"] for row in tables[COLLECTIVES]} == {"all-reduce"}


def test_waits_of_ranks_that_have_other_steps_are_not_compared() -> None:
    steps = [(400, 350)] * (LEAST_STEPS + 1)
    late = [(700, 50)] * (LEAST_STEPS + 1)
    rows = rank_rows(rank_trace(0, *steps), rank_trace(1, *late))
    first, last = rows[0]["step"], rows[-1]["step"]

    assert slow_rank(rows) == 1
    assert slow_rank([row for row in rows if row["step"] != (last, first)[row["rank"]]]) is None


def test_collectives_at_one_position_are_told_apart_and_their_group_is_known_from_any_step() -> (
    None
):
    (row,) = tabulate_ranks(exchanges(rank_trace(0, (400, 350)), rank_trace(1, (700, 50))))[
        COLLECTIVES
    ][:1]
    of_steps = [
        {**row, "step": step, "operation": operation, "bytes": size, "group_size": ranks}
        for step, ranks in ((1, None), (2, 2.0))
        for operation, size in (("broadcast", None), ("all-reduce", None), ("all-reduce", 8.0))
    ]

    found = median_collectives(of_steps)

    assert [each["operation"] for each in found] == ["all-reduce", "all-reduce", "broadcast"]
    assert [each["bytes"] for each in found] == pytest.approx(
        [8.0, math.nan, math.nan], nan_ok=True
    )
    assert {(each["steps"], each["group_size"]) for each in found} == {(2, 2.0)}


def test_medians_are_over_the_steps_and_of_the_rank_that_waited_least() -> None:
    tables = tabulate_ranks(
        exchanges(
            rank_trace(0, (400, 400), (500, 300), (600, 200)), rank_trace(1, *[(700, 100)] * 3)
        )
    )
    (one,) = median_collectives(tables[COLLECTIVES])
    first, _ = median_ranks(tables[RANKS])

    assert (one["steps"], one["transfer_ms"], one["longest_ms"]) == (
        3,
        pytest.approx(0.1),
        pytest.approx(0.3),
    )
    assert (first["wait_ms"], first["wait_share"]) == pytest.approx((0.2, 0.2))
