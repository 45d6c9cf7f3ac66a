"""Shares of a step as long as a timed one: every value follows from the times written here."""

from typing import Any

import pytest

from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.quality import Gate
from gpu_report.traces.steps import DEVICES, STEPS
from gpu_report.traces.tables import TraceTables, tabulate_trace
from gpu_report.traces.timed import TimedStep, of_timed_steps
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
    assert row["operator_ms"] == pytest.approx(39 / 2 / 1e3)
    parts = ("kernel", "memcpy", "memset", "communication", "runtime", "loader", "operator")
    assert sum(row[f"{part}_ms"] for part in parts) + row["other_ms"] == pytest.approx(0.065)


def test_gaps_are_weights_of_the_idle_time() -> None:
    found = timed(profiled(), step_us=65)

    assert sum(row["share"] for row in rows(found, IDLE)) == pytest.approx(35 / 65)
    assert sum(row["total_ms"] for row in rows(found, IDLE)) == pytest.approx(2 * 0.035)
    assert rows(found, DEVICES)[0]["idle_share"] == pytest.approx(35 / 65)
    before = rows(profiled(), LAUNCHES)[0]["launch_bound_share"]
    after = rows(found, LAUNCHES)[0]["launch_bound_share"]
    assert after == pytest.approx(before * (35 / 65) / (70 / 100))


def test_a_device_that_works_as_long_as_a_timed_step_is_never_idle() -> None:
    row = rows(timed(profiled(), step_us=29), STEPS)[0]

    assert (row["device_idle_share"], row["wall_ms"]) == (0, pytest.approx(0.030))


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
