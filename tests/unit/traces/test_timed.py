"""Shares of a step as long as a timed one: every value follows from the times written here."""

from typing import Any

import pytest

from gpu_report.tables.processes import values_of
from gpu_report.tables.statistics import summarise
from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.quality import QUALITY, Gate
from gpu_report.traces.ranks import RANKS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables, slowness_of_profiled_steps, tabulate_trace
from gpu_report.traces.timed import TimedStep, of_timed_steps
from tests.factories import make_record
from tests.unit.traces.by_hand import kernel, launch, operation, step, trace_of


def profiled(*, steps: int = 2) -> TraceTables:
    """Steps of 100 us: an operation of 40 us launches a kernel of 30 us that begins 50 us after the
    step does.
    """
    events = []
    for number in range(steps):
        begin = 100 * number
        events += [
            step(number, begin, 100),
            operation("aten::mm", begin + 10, 40),
            launch(number + 1, begin + 45),
            kernel("gemm", begin + 50, 30, correlation=number + 1),
        ]
    return tabulate_trace(trace_of(*events))


def timed(tables: TraceTables, step_us: float, slowest_us: float | None = None) -> TraceTables:
    step = TimedStep(step_us / 1e3, (slowest_us or step_us) / 1e3)
    return of_timed_steps(tables, step)


def rows(tables: TraceTables, table: Any) -> list[Row]:
    return [dict(row) for row in tables[table]]


def test_device_work_lasts_as_long_and_the_rest_shrinks_to_the_timed_step() -> None:
    row = rows(timed(profiled(), step_us=65), STEPS)[0]

    # 35 us are left beside the kernel's 30 us, half of the 70 us that were profiled.
    assert row["wall_ms"] == pytest.approx(0.065)
    assert row["kernel_ms"] == row["device_busy_ms"] == pytest.approx(0.030)
    assert row["device_idle_share"] == pytest.approx(35 / 65)
    assert row["runtime_ms"] == pytest.approx(0.0005)
    assert row["host_busy_ms"] == pytest.approx(0.040 * 65 / 100)
    assert row["operator_ms"] == pytest.approx(39 / 2 / 1e3)
    parts = ("kernel", "memcpy", "memset", "communication", "runtime", "loader", "operator")
    assert sum(row[f"{part}_ms"] for part in parts) + row["other_ms"] == pytest.approx(0.065)


def test_gaps_are_weights_of_the_idle_time() -> None:
    found = timed(profiled(), step_us=65)

    assert sum(row["share"] for row in rows(found, IDLE)) == pytest.approx(35 / 65)
    assert sum(row["total_ms"] for row in rows(found, IDLE)) == pytest.approx(2 * 0.035)
    before = rows(profiled(), LAUNCHES)[0]["launch_bound_share"]
    after = rows(found, LAUNCHES)[0]["launch_bound_share"]
    assert after == pytest.approx(before * (35 / 65) / (70 / 100))


def test_a_device_that_works_longer_than_a_timed_step_works_for_all_of_it() -> None:
    row = rows(timed(profiled(), step_us=29), STEPS)[0]

    assert row["device_idle_share"] == 0
    assert row["wall_ms"] == row["kernel_ms"] == pytest.approx(0.029)


def test_no_rounding_makes_a_busy_device_idle() -> None:
    tables = profiled()
    parts = {"kernel_ms": 0.5, "memcpy_ms": 0.45, "memset_ms": 0.66, "device_busy_ms": 1.61}
    steps = [{**row, **parts, "wall_ms": 1.7} for row in tables[STEPS]]

    found = timed({**tables, STEPS: steps}, step_us=1180)

    assert {row["device_idle_share"] for row in found[STEPS]} == {0}


def test_a_timed_step_is_right_where_the_profiled_host_ran_ahead() -> None:
    events = [
        *(step(1, 0, 100), operation("aten::mm", 10, 40), launch(1, 45)),
        kernel("gemm", 50, 130, correlation=1),
    ]
    tables = tabulate_trace(trace_of(*events))

    failed = [
        [row["check"] for row in each[QUALITY] if not row["passed"]]
        for each in (tables, timed(tables, step_us=150))
    ]

    assert failed == [["host ahead of the device"], []]


def test_a_slowed_profile_leaves_the_idle_share_of_a_timed_step_known_and_not_its_causes() -> None:
    tables = profiled()
    tables = {**tables, QUALITY: [*tables[QUALITY], slowness_of_profiled_steps(1.6)]}
    gates = [Gate(each) for each in (tables, timed(tables, step_us=65))]

    assert [gate.trusts(STEPS, "device_idle_share") for gate in gates] == [False, True]
    assert not any(gate.trusts(IDLE, "share") for gate in gates)


def test_busy_beyond_the_slowest_timed_step_is_not_reliable() -> None:
    """30 us of work are within 5 % of 29 us, and not of 28 us."""
    trusted = [
        len(Gate(timed(profiled(), 27, slowest_us)).rows(STEPS, "device_busy_ms"))
        for slowest_us in (29, 28)
    ]

    assert trusted == [2, 0]


def test_a_training_on_the_cpu_keeps_the_profiled_step() -> None:
    tables = tabulate_trace(trace_of(step(1, 0, 100), operation("aten::mm", 10, 40)))

    assert timed(tables, step_us=65) == tables


def shared(*, wait_us: float | None) -> TraceTables:
    """A step of 100 us in which rank 0 computes for 30 and exchanges for 40, of which it waits for
    `wait_us`; rank 1 computes for 28, exchanges for 5 and waits for nobody.
    """
    tables = tabulate_trace(
        trace_of(
            step(1, 0, 100),
            operation("aten::mm", 1, 8),
            launch(1, 2),
            kernel("gemm", 10, 30, correlation=1),
            operation("c10d::allreduce_", 20, 8),
            launch(2, 21),
            kernel("ncclDevKernel_AllReduce", 50, 40, correlation=2),
        )
    )
    ranks = [
        {
            "rank": rank,
            "step": 1,
            "wall_ms": 0.1,
            "compute_ms": compute_us / 1e3,
            "communication_ms": exchange_us / 1e3,
            "hidden_ms": 0.0,
            "exposed_ms": exchange_us / 1e3,
            "wait_ms": None if waited_us is None else waited_us / 1e3,
        }
        for rank, compute_us, exchange_us, waited_us in [
            (0, 30, 40, wait_us),
            (1, 28, 5, wait_us and 0),
        ]
    ]
    return {**tables, RANKS: ranks}


def test_of_a_shared_step_the_rank_that_waited_least_gives_kernels_and_exchange() -> None:
    """50 us are timed: 33 of kernels and exchange, and 17 for 67 of waits and of the host."""
    row = rows(timed(shared(wait_us=35), step_us=50), STEPS)[0]

    assert row["kernel_ms"] == pytest.approx(0.028)
    assert row["device_busy_ms"] == pytest.approx(0.033)
    assert row["communication_ms"] == pytest.approx(0.005 + 0.037 * 17 / 67)
    assert row["wall_ms"] == pytest.approx(0.050)
    parts = ("kernel", "memcpy", "memset", "communication", "runtime", "loader", "operator")
    assert sum(row[f"{part}_ms"] for part in parts) + row["other_ms"] == pytest.approx(0.050)


def test_causes_of_a_shared_step_are_all_of_its_idle_time_with_waits_for_other_ranks() -> None:
    found = timed(shared(wait_us=35), step_us=50)

    shares = dict.fromkeys(("other ranks", "host", "launch"), 0.0)
    for row in rows(found, IDLE):
        shares[row["cause"]] += row["share"]
    assert shares["other ranks"] == pytest.approx(0.037 * 17 / 67 / 0.050)
    assert sum(shares.values()) == pytest.approx(rows(found, STEPS)[0]["device_idle_share"])


def test_where_waits_are_not_known_all_exposed_exchange_is_stretched_like_a_gap() -> None:
    row = rows(timed(shared(wait_us=None), step_us=50), STEPS)[0]

    assert row["communication_ms"] == pytest.approx(0.040 * 20 / 70)
    assert row["exposed_communication_ms"] == pytest.approx(0.040 * 20 / 70)
    assert row["device_busy_ms"] == pytest.approx(0.030 + 0.040 * 20 / 70)
    assert row["wall_ms"] == pytest.approx(0.050)


def test_a_step_without_device_work_stays_as_it_is() -> None:
    trace = trace_of(
        step(1, 0, 100),
        operation("aten::mm", 10, 40),
        launch(1, 45),
        kernel("gemm", 50, 30, correlation=1),
        step(2, 100, 100),
        operation("aten::mm", 110, 40),
    )
    with_work, without = rows(timed(tabulate_trace(trace), step_us=29), STEPS)

    assert with_work["wall_ms"] == pytest.approx(0.029)
    assert (without["wall_ms"], without["device_idle_share"]) == (0.1, None)


def test_the_timed_step_is_that_of_other_tables_and_the_slowest_counts_its_long_steps() -> None:
    record = make_record("cnn-small-cuda-b64-w0-fp32-e2", processes=3)
    times = {0: [90.0, 2.0, 2.0], 1: [90.0, 4.0, 4.0, 4.0, 8.0], 2: [90.0, 1.0, 1.0]}
    repetitions = [
        each.model_copy(
            update={
                "extra_epochs": [],
                "epochs": [
                    epoch.model_copy(update={"step_times_ms": times[number]})
                    for epoch in each.epochs
                ],
            }
        )
        for number, each in enumerate(record.repetitions)
    ]

    changed = record.model_copy(update={"repetitions": repetitions})
    found = TimedStep.of(changed)
    assert found is not None
    assert [found.median_ms, found.slowest_ms] == pytest.approx([2, 5])
    assert found.median_ms == pytest.approx(summarise(values_of(changed, "step_time_ms")).value)
    assert TimedStep.of(record.model_copy(update={"status": "oom"})) is None
