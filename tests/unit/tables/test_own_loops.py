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
from tests.tabulated import tabulate_own_loops
from tests.trace_frames import make_trace_tables
from tests.unit.tables.changed import calibrated, with_repetitions, with_work

CPU, CUDA = (
    "linear_regression-cpu-b8000-w0-fp32-e3x200",
    "linear_regression-cuda-b4000000-w0-fp32-e3x200",
)
SEPARATE, BOUND = f"{CUDA}-separate", f"{CUDA}-statistics"
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


def with_errors(*errors: float | None) -> Record:
    record = make_record(SEPARATE, processes=len(errors))
    return with_repetitions(record, [{"reference_error": error} for error in errors])


@given(flops=POSITIVE, moved=POSITIVE, peak=POSITIVE, copies=POSITIVE)
def test_the_floor_is_the_longer_of_bytes_and_arithmetic(
    flops: float, moved: float, peak: float, copies: float
) -> None:
    record = with_work(SEPARATE, flops=flops, bytes=moved)

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


@pytest.mark.parametrize("errors", [(3e-7, 8e-7, 1e-7), (8e-7, 3e-7, 2e-7), (2e-7, 1e-7, 8e-7)])
def test_the_error_is_the_largest_of_any_process(errors: tuple[float | None, ...]) -> None:
    assert row_of(with_errors(*errors))["reference_error"] == 8e-7


@pytest.mark.parametrize("errors", [(None, None), (8e-7, None, 1e-7)])
def test_where_a_process_was_not_compared_there_is_no_error(
    errors: tuple[float | None, ...],
) -> None:
    assert math.isnan(row_of(with_errors(*errors))["reference_error"])
