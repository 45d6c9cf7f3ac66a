"""What several devices gain and save against one, and what a model in parts keeps them
waiting for.
"""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_report.records.record import Record
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import rows_of as rows_of_table
from gpu_report.tables.scaling import bubble_share
from tests.factories import make_record
from tests.tabulated import tabulate_model_splits
from tests.unit.tables.changed import with_repetitions

PLAIN, IN_PARTS = "unet-cuda-b64-w0-fp32-e3", "unet-cuda-b64a4-w0-fp32-e3"
PIPELINE, SPLIT, FSDP = f"{IN_PARTS}-pipeline2", f"{PLAIN}-split2", f"{PLAIN}-fsdp2"


def record(slug: str, per_s: float, memory_mib: float = 1000.0) -> Record:
    return make_record(slug, throughput_per_s=per_s, noise=0.0, memory_peak_mib=memory_mib)


def rows_of(*records: Record) -> dict[str, Mapping[str, Any]]:
    return {row["variant"]: row for row in rows_of_table(tabulate_model_splits(records))}


def test_a_bubble_shrinks_with_the_micro_batches_of_a_pipeline_alone() -> None:
    def of(slug: str) -> float | None:
        return bubble_share(Variant.from_slug(slug))

    assert of(PIPELINE) == pytest.approx(1 / 5)
    assert of(f"{PLAIN}-pipeline2") == of(SPLIT) == of(f"{IN_PARTS}-split2") == pytest.approx(1 / 2)
    assert of(FSDP) is of(f"{PLAIN}-ddp2") is None


def over_base_of(slug: str, per_s: float, base_per_s: float | None) -> Record:
    """With a base of this throughput measured in turn; None for one that failed."""
    made = record(slug, per_s)
    changes: list[dict[str, Any]] = []
    for each in made.repetitions:
        assert each.base is not None
        epochs = [
            one.model_copy(update={"wall_time_s": one.samples / (base_per_s or 1)})
            for one in each.base.epochs
        ]
        base = each.base.model_copy(update={"epochs": epochs}) if base_per_s else None
        changes.append({"base": base})
    return with_repetitions(made, changes)


def test_time_is_lost_against_devices_that_take_micro_batches_of_the_same_size() -> None:
    shared = [
        over_base_of(PIPELINE, 120.0, 80.0),
        over_base_of(FSDP, 150.0, 90.0),
        over_base_of(SPLIT, 90.0, None),
    ]

    found = rows_of(record(PLAIN, 100.0), *shared)

    assert found[PIPELINE]["lost_share"] == pytest.approx(1 - 120 / (2 * 80))
    assert found[FSDP]["lost_share"] == pytest.approx(1 - 150 / (2 * 90))
    assert math.isnan(found[SPLIT]["lost_share"])


def test_what_has_no_plain_process_of_its_batch_has_no_row() -> None:
    failed = make_record(PLAIN, status="failed")

    assert (
        rows_of(
            record(PIPELINE, 120.0),
            record(IN_PARTS, 80.0),
            record("unet-cuda-b32-w0-fp32-e3", 100.0),
        )
        == {}
    )
    assert rows_of(record(PIPELINE, 120.0), failed) == {}
    assert rows_of(record(PLAIN, 120.0), make_record(f"{PLAIN}-ddp2-nocomm")) == {}
