"""A pass of a workload's own loop: its time, its launches and bytes, and the least that the device
would need.
"""

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.records.calibration import Calibration
from gpu_report.records.record import Record
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables
from tests.factories import make_calibration, make_record
from tests.tabulated import (
    tabulate_convergence,
    tabulate_epochs,
    tabulate_losses,
    tabulate_own_loops,
)
from tests.trace_frames import make_trace_tables, with_failed_check

CPU, CUDA = (
    "linear_regression-cpu-b8000-w0-fp32-e3x200",
    "linear_regression-cuda-b4000000-w0-fp32-e3x200",
)
SEPARATE, BOUND = f"{CUDA}-separate", f"{CUDA}-statistics"
OTHERS = "cnn-medium-cpu-b64-w0-fp32-e3"
POSITIVE = st.floats(min_value=1e3, max_value=1e15)


def tabulated(*records: Record, calibration: Calibration | None = None) -> pd.DataFrame:
    return tabulate_own_loops(records, calibration, {})


def launches_of(slug: str, trace: TraceTables) -> float:
    (launches,) = tabulate_own_loops([make_record(slug)], None, {slug: trace})[
        "work_per_pass"
    ].tolist()
    return float(launches)


def row_of(record: Record, *, calibration: Calibration | None = None) -> "pd.Series[Any]":
    (row,) = (row for _, row in tabulated(record, calibration=calibration).iterrows())
    return row


def with_work(slug: str, *, flops: float, moved: float) -> Record:
    record = make_record(slug)
    assert record.profile is not None
    assert record.profile.work is not None
    work = record.profile.work.model_copy(update={"flops": flops, "bytes": moved})
    return record.model_copy(update={"profile": record.profile.model_copy(update={"work": work})})


def calibrated(*, flops_per_s: float, bytes_per_s: float) -> Calibration:
    made = make_calibration(["cuda"])
    products = [
        one.model_copy(update={"flops_per_s": [flops_per_s] * 3})
        for one in made.ceilings[0].matrix_products
    ]
    ceilings = made.ceilings[0].model_copy(
        update={"matrix_products": products, "copy_bytes_per_s": [bytes_per_s] * 3}
    )
    return made.model_copy(update={"ceilings": [ceilings]})


def with_errors(*errors: float | None) -> Record:
    record = make_record(SEPARATE, processes=len(errors))
    pairs = zip(record.repetitions, errors, strict=True)
    return record.model_copy(
        update={
            "repetitions": [
                each.model_copy(update={"reference_error": error}) for each, error in pairs
            ]
        }
    )


def test_processes_that_differ_give_a_pass_its_interval() -> None:
    row = row_of(make_record(CPU, processes=5, noise=0.1))
    alone = row_of(make_record(CPU, processes=1))

    assert row["pass_us_low"] < row["pass_us"] < row["pass_us_high"]
    assert [
        row[f"pass_us_{end}"] / row[f"training_ms_{end}"] for end in ("low", "high")
    ] == pytest.approx([5, 5])
    assert math.isnan(alone["pass_us_low"])


def test_the_warm_up_is_no_part_of_a_pass() -> None:
    short = CPU.replace("e3x", "e2x")

    slow_to_begin, as_ever = (
        row_of(make_record(short, first_epoch_ratio=ratio)) for ratio in (50.0, 1.0)
    )

    assert slow_to_begin["pass_us"] == pytest.approx(as_ever["pass_us"])


@given(flops=POSITIVE, moved=POSITIVE, peak=POSITIVE, copies=POSITIVE)
def test_the_floor_is_the_longer_of_bytes_and_arithmetic(
    flops: float, moved: float, peak: float, copies: float
) -> None:
    record = with_work(SEPARATE, flops=flops, moved=moved)

    row = row_of(record, calibration=calibrated(flops_per_s=peak, bytes_per_s=copies))

    of_bytes_us, of_arithmetic_us = 1e6 * moved / copies, 1e6 * flops / peak
    assert row["floor_us"] == pytest.approx(max(of_bytes_us, of_arithmetic_us))
    assert row["times_floor"] == pytest.approx(row["pass_us"] / row["floor_us"])


@pytest.mark.parametrize(
    ("record", "calibration"),
    [
        (make_record(CPU), None),
        (make_record(CPU), make_calibration(["cuda"])),
        (make_record(CPU, profile_overhead=None), make_calibration(["cpu"])),
    ],
    ids=["nothing calibrated", "another device calibrated", "not profiled"],
)
def test_without_ceilings_or_counted_work_no_floor_is_reported(
    record: Record, calibration: Calibration | None
) -> None:
    row = row_of(record, calibration=calibration)

    assert math.isnan(row["floor_us"])
    assert math.isnan(row["times_floor"])
    assert row["pass_us"] > 0


def test_launches_are_those_of_one_call_shared_out_over_its_passes() -> None:
    trace = make_trace_tables(SEPARATE)
    kernels = [
        {**row, "calls": calls} for row, calls in zip(trace[KERNELS], (800, 3, 1), strict=True)
    ]

    two_calls = {**trace, KERNELS: kernels, STEPS: trace[STEPS][:2]}

    assert launches_of(SEPARATE, two_calls) == 402 / 200


def test_launches_are_reported_however_much_the_profiler_slowed_the_call() -> None:
    trace = make_trace_tables(SEPARATE)
    slowed = with_failed_check(trace, "idle", "launches", check="profiled as timed")
    uncounted = with_failed_check(trace, "kernels.calls", check="dropped events")

    assert launches_of(SEPARATE, slowed) == launches_of(SEPARATE, trace)
    assert math.isnan(launches_of(SEPARATE, uncounted))


@pytest.mark.parametrize("errors", [(3e-7, 8e-7, 1e-7), (8e-7, 3e-7, 2e-7), (2e-7, 1e-7, 8e-7)])
def test_the_error_is_the_largest_of_any_process(errors: tuple[float | None, ...]) -> None:
    assert row_of(with_errors(*errors))["reference_error"] == 8e-7


@pytest.mark.parametrize("errors", [(None, None), (8e-7, None, 1e-7)])
def test_where_a_process_was_not_compared_there_is_no_error(
    errors: tuple[float | None, ...],
) -> None:
    assert math.isnan(row_of(with_errors(*errors))["reference_error"])


def test_trainings_that_begin_anew_have_no_curves_and_their_times_are_kept() -> None:
    records = [make_record(CPU), make_record(OTHERS)]

    assert set(tabulate_convergence(records)["variant"]) == {OTHERS}
    assert set(tabulate_losses(records)["variant"]) == {OTHERS}
    assert set(tabulate_epochs(records)["variant"]) == {CPU, OTHERS}
