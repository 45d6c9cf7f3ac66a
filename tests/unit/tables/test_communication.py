"""Exposed communication: a step without that of the twin without communication, process by
process.
"""

import math
from statistics import fmean, stdev
from typing import Any

import pandas as pd
import pytest

from gpu_report.records.record import Record
from gpu_report.tables.sessions import Sessions
from gpu_report.tables.statistics import Spread
from tests.factories import make_record
from tests.tabulated import tabulate_communication

DDP = "unet-128px-cuda-b32-w0-bf16-e3-ddp2"
BOUND = f"{DDP}-nocomm"


def taking(slug: str, *steps_ms: float, **options: Any) -> Record:
    """A record whose processes take these times for a step."""
    record = make_record(slug, processes=len(steps_ms), throughput_per_s=1.0, noise=0.0, **options)
    samples = record.as_variant().batch_size
    for repetition, step_ms in zip(record.repetitions, steps_ms, strict=True):
        for epoch in repetition.all_epochs:
            object.__setattr__(epoch, "wall_time_s", epoch.samples / samples * step_ms / 1e3)
    return record


def tabulated(*records: Record) -> pd.DataFrame:
    return tabulate_communication(records, {})


def test_a_step_without_that_of_its_own_seed_without_communication_is_exposed() -> None:
    (row,) = tabulated(
        taking(DDP, 10.0, 12.0, 11.0, 16.0), taking(BOUND, 9.0, 9.0, 11.0, 12.0)
    ).to_dict("records")

    # The logarithms of what is left of a step: their mean, their deviation, and Student's t of 3
    # degrees, 3.182.
    logs = [math.log(left) for left in (9 / 10, 9 / 12, 11 / 11, 12 / 16)]
    half = 3.1824 * stdev(logs) / 2
    assert row["exposed_share"] == pytest.approx(1 - math.exp(fmean(logs)))
    assert row["exposed_share_low"] == pytest.approx(1 - math.exp(fmean(logs) + half), rel=1e-4)
    assert row["exposed_share_high"] == pytest.approx(1 - math.exp(fmean(logs) - half), rel=1e-4)
    step_ms = (10 * 12 * 11 * 16) ** 0.25
    assert row["step_wall_ms"] == pytest.approx(step_ms)
    assert row["exposed_ms_high"] == pytest.approx(step_ms * row["exposed_share_high"])


def test_the_spread_between_the_sessions_of_both_sides_widens_what_is_exposed() -> None:
    evening = "2026-05-04T20:00:00Z"
    sides = (
        taking(DDP, 10.0, 10.1, 10.0),
        taking(BOUND, 9.0, 9.1, 9.0, measured_at=evening),
    )
    numbers = {each.provenance.measured_at: number for number, each in enumerate(sides)}

    one, two = (
        tabulate_communication(sides, {}, Sessions(numbers=of, spreads=[Spread(0.02, 4)]))
        for of in (dict.fromkeys(numbers, 1), numbers)
    )

    assert one["exposed_share"][0] == two["exposed_share"][0]
    assert two["exposed_share_low"][0] < one["exposed_share_low"][0] - 0.01
    assert two["exposed_ms_high"][0] > one["exposed_ms_high"][0] + 0.1


def test_only_what_was_measured_on_both_sides_by_the_same_seeds_is_compared() -> None:
    failed = make_record(BOUND, status="failed")

    assert tabulated(taking(DDP, 5.0)).empty
    assert tabulated(taking(DDP, 5.0), failed).empty
    assert tabulated(taking(BOUND, 5.0), taking("unet-128px-cuda-b32-w0-bf16-e3", 5.0)).empty
    (row,) = tabulated(taking(DDP, 10.0, 12.0), taking(BOUND, 9.0)).to_dict("records")
    assert row["exposed_ms_count"] == row["exposed_share_count"] == 1
    assert row["exposed_ms"] == pytest.approx(1.0)
