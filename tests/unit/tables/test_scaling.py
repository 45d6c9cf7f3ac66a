"""What devices gain that share a training is what a hand computes from the records."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from gpu_report.records.record import Record, TimedEpoch
from tests.factories import make_record
from tests.tabulated import tabulate_scaling
from tests.unit.tables.changed import with_repetitions

SHARED, PLAIN = "lstm-cuda-b32-w0-fp32-e3x10-{}", "lstm-cuda-b{}-w0-fp32-e3x10"


def record_of(slug: str, speeds: Sequence[float], base: Sequence[float | None] = ()) -> Record:
    """A record of processes with these speeds; each has a base measured in turn with the speed
    given, if any.
    """
    record = make_record(slug, processes=len(speeds))
    changes = []
    for each, speed, alone in zip(
        record.repetitions, speeds, base or [None] * len(speeds), strict=True
    ):
        epochs = [at_speed(epoch, speed) for epoch in each.epochs]
        of_base = each.base and alone and [at_speed(one, alone) for one in each.base.epochs]
        beside = each.base and of_base and each.base.model_copy(update={"epochs": of_base})
        changes.append({"epochs": epochs, "extra_epochs": [], "base": beside or None})
    return with_repetitions(record, changes)


def at_speed(epoch: TimedEpoch, speed: float) -> Any:
    return epoch.model_copy(update={"wall_time_s": epoch.samples / speed})


def row_of(*records: Record) -> "pd.Series[Any]":
    """The first record's row."""
    rows = tabulate_scaling(records)
    return rows[rows["variant"] == records[0].variant].iloc[0]


def test_efficiency_is_the_throughput_over_that_of_as_many_bases() -> None:
    row = row_of(record_of(SHARED.format("ddp2"), [180.0] * 5, [100.0] * 5))

    assert row["throughput_per_device_per_s"] == pytest.approx(90)
    assert row["base_throughput_per_s"] == pytest.approx(100)
    assert row["base_speedup"] == pytest.approx(1.8)
    assert row["weak_efficiency"] == pytest.approx(0.9)
    assert (row["batch_size"], row["batch_per_device"]) == (32, 16)


def test_each_repetition_is_compared_with_the_base_beside_it() -> None:
    speeds = [100.0, 150.0, 120.0, 90.0, 130.0]
    paired = row_of(record_of(SHARED.format("ddp2"), [1.9 * speed for speed in speeds], speeds))

    assert paired["weak_efficiency_low"] == pytest.approx(0.95), "what both have in common cancels"
    assert paired["weak_efficiency_high"] == pytest.approx(0.95)
    assert paired["throughput_per_s_low"] < 0.9 * paired["throughput_per_s"]


def test_the_same_batch_on_more_devices_is_compared_with_the_process_that_has_all_of_it() -> None:
    row = row_of(
        record_of(SHARED.format("ddp2"), [150.0] * 5, [100.0] * 5),
        record_of(PLAIN.format(32), [125.0] * 5),
    )

    assert row["strong_speedup"] == pytest.approx(1.2)
    assert row["strong_efficiency"] == pytest.approx(0.6)
    assert row["is_strong"]
    assert not row["is_weak"]


def test_a_comparison_with_what_was_not_measured_is_missing() -> None:
    failed = make_record(PLAIN.format(16), status="failed")

    row = row_of(record_of(SHARED.format("ddp2"), [180.0] * 5), failed)

    columns = (
        "weak_efficiency",
        "weak_efficiency_plain",
        "strong_speedup",
        "threads",
    )
    assert all(math.isnan(row[column]) for column in columns)
    assert row["plain_variant"] == ""
    assert row["throughput_per_s"] == pytest.approx(180)


def test_a_base_that_failed_once_takes_its_repetition_out_of_the_comparison() -> None:
    row = row_of(record_of(SHARED.format("ddp2"), [180.0] * 4 + [90.0], [100.0] * 4 + [None]))

    assert row["weak_efficiency"] == pytest.approx(0.9)
    assert row["weak_efficiency_count"] == 4
