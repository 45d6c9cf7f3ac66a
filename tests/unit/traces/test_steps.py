"""What a step's time went into: each moment counts once, for the first class that goes on in it."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.steps import SHARES, step_rows
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    LOADER,
    MAIN,
    RawEvent,
    kernel,
    launch,
    made_by,
    operation,
    span,
    step,
    trace_of,
)

OTHER_STREAM = (0, 8)
DEVICE_COLUMNS = (
    "kernel_ms",
    "memcpy_ms",
    "memset_ms",
    "device_busy_ms",
    "device_idle_share",
    "exposed_copy_ms",
    "exposed_communication_ms",
)


def fill(start_us: float, duration_us: float) -> RawEvent:
    return span("gpu_memset", "Memset (Device)", start_us, duration_us, on=OTHER_STREAM)


def collective(start_us: float, duration_us: float) -> RawEvent:
    return kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start_us, duration_us, on=(0, 20))


def loader(start_us: float, duration_us: float) -> RawEvent:
    return span("user_annotation", LOADER, start_us, duration_us, on=MAIN)


def copy(start_us: float, duration_us: float) -> RawEvent:
    return span(
        "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", start_us, duration_us, on=OTHER_STREAM
    )


MAKERS: dict[str, Callable[[int, int], RawEvent]] = {
    "kernel": lambda start, duration: kernel("gemm", start, duration),
    "memcpy": copy,
    "memset": fill,
    "communication": collective,
    "runtime": lambda start, duration: launch(1, start, duration),
    "loader": loader,
    "operator": lambda start, duration: operation("aten::add", start, duration, on=AUTOGRAD),
}
TIMES = st.tuples(st.sampled_from(SHARES), st.integers(0, 60), st.integers(0, 30))


def rows_of(*events: RawEvent) -> list[dict[str, Any]]:
    trace = trace_of(*events)
    return made_by(step_rows, trace)


def events_of(times: list[tuple[str, int, int]]) -> list[RawEvent]:
    return [MAKERS[name](start_us, duration_us) for name, start_us, duration_us in times]


def first_class(times: list[tuple[str, int, int]], moment_us: int) -> str:
    going_on = {
        name
        for name, start_us, duration_us in times
        if start_us <= moment_us < start_us + duration_us
    }
    return next((name for name in SHARES if name in going_on), "other")


@given(st.lists(TIMES, max_size=12))
def test_each_moment_of_a_step_counts_for_the_first_class_that_goes_on(
    times: list[tuple[str, int, int]],
) -> None:
    work = ("kernel", 70, 1)
    steps = {1: range(5, 40), 2: range(42, 72)}
    marks = [step(number, window.start, len(window)) for number, window in steps.items()]

    rows = rows_of(*marks, *events_of([*times, work]))

    for row in rows:
        counted = [first_class([*times, work], moment_us) for moment_us in steps[row["step"]]]
        expected = {
            f"{name}_ms": pytest.approx(counted.count(name) / 1e3) for name in (*SHARES, "other")
        }
        missing = (
            dict.fromkeys(set(expected) & set(DEVICE_COLUMNS))
            if row["device_busy_ms"] is None
            else {}
        )
        assert {name: row[name] for name in expected} == {**expected, **missing}


@given(st.lists(TIMES, max_size=20))
def test_the_shares_sum_to_the_wall_time(times: list[tuple[str, int, int]]) -> None:
    (row,) = rows_of(step(1, 10, 45), *events_of(times))

    shares = [row[f"{name}_ms"] or 0 for name in (*SHARES, "other")]

    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(row["wall_ms"], abs=1e-6)


def test_a_step_without_device_work_is_not_reported_as_idle() -> None:
    seen, unseen = rows_of(
        step(1, 0, 10_000),
        kernel("gemm", 1000, 3000),
        step(2, 10_000, 10_000),
        operation("aten::add", 11_000, 2000),
    )

    assert None not in seen.values()
    assert {name for name, value in unseen.items() if value is None} == set(DEVICE_COLUMNS)
    assert (unseen["operator_ms"], unseen["other_ms"]) == (2.0, 8.0)
