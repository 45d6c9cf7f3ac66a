"""Exposed communication: a step less that of the twin without communication, process by process."""

import math

import pandas as pd
import pytest

from gpu_report.records.record import Record
from tests.factories import make_record
from tests.tabulated import tabulate_communication

DDP = "unet-128px-cuda-b32-w0-bf16-e3-ddp2"
BOUND = f"{DDP}-nocomm"


def taking(slug: str, *steps_ms: float) -> Record:
    """A record whose processes take these times for a step."""
    record = make_record(slug, processes=len(steps_ms), throughput_per_s=1.0, noise=0.0)
    samples = record.as_variant().batch_size
    for repetition, step_ms in zip(record.repetitions, steps_ms, strict=True):
        for epoch in repetition.all_epochs:
            object.__setattr__(epoch, "wall_time_s", epoch.samples / samples * step_ms / 1e3)
    return record


def tabulated(*records: Record) -> pd.DataFrame:
    return tabulate_communication(records, {})


def test_a_step_less_that_of_its_own_seed_without_communication_is_exposed() -> None:
    (row,) = tabulated(
        taking(DDP, 10.0, 12.0, 11.0, 16.0), taking(BOUND, 9.0, 9.0, 11.0, 12.0)
    ).to_dict("records")

    # 1, 3, 0 and 4 ms: their mean is 2, their deviation the root of 10 / 3, and Student's t of 3
    # degrees 3.182.
    half = 3.1824 * math.sqrt(10 / 3) / 2
    assert row["exposed_ms"] == pytest.approx(2.0)
    assert row["exposed_ms_low"] == pytest.approx(2 - half, rel=1e-4)
    assert row["exposed_ms_high"] == pytest.approx(2 + half, rel=1e-4)
    assert row["exposed_share"] == pytest.approx((1 / 10 + 3 / 12 + 0 + 4 / 16) / 4)
    assert row["step_wall_ms"] == pytest.approx((10 * 12 * 11 * 16) ** 0.25)


def test_only_what_was_measured_on_both_sides_by_the_same_seeds_is_compared() -> None:
    failed = make_record(BOUND, status="failed")

    assert tabulated(taking(DDP, 5.0)).empty
    assert tabulated(taking(DDP, 5.0), failed).empty
    assert tabulated(taking(BOUND, 5.0), taking("unet-128px-cuda-b32-w0-bf16-e3", 5.0)).empty
    (row,) = tabulated(taking(DDP, 10.0, 12.0), taking(BOUND, 9.0)).to_dict("records")
    assert row["exposed_ms_count"] == row["exposed_share_count"] == 1
    assert row["exposed_ms"] == pytest.approx(1.0)
