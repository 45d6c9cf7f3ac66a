"""Every variant has a row; what was not measured has no number, and says why."""

import math
import random
from typing import Any

import pytest

from gpu_report.errors import RecordError
from gpu_report.glossary import PER_PROCESS
from gpu_report.study.study import Prices
from gpu_report.tables.marks import Today
from gpu_report.tables.statistics import summarise
from gpu_report.tables.variants import VARIANTS
from tests.factories import (
    CODE_DIGEST,
    NOTHING_HELD_OUT,
    PROTOCOL,
    make_record,
    make_records,
    make_study,
)
from tests.tabulated import tabulate_variants

TODAY = Today(code_digest=CODE_DIGEST, protocol=PROTOCOL)
SLUG = "cnn-medium-cuda-b64-w0-fp32-e3"


def test_each_variant_has_one_row_whatever_the_order_of_the_records() -> None:
    records = make_records(make_study())
    mixed = random.Random(1).sample(records, len(records))

    table = tabulate_variants(records, today=TODAY)

    assert len(table) == len(records)
    assert table.equals(tabulate_variants(mixed, today=TODAY))


def test_variants_are_ordered_by_size_and_with_the_cpu_first() -> None:
    slugs = [
        "cnn-large-cpu-b64-w0-fp32-e3",
        "cnn-small-cuda-b64-w0-fp32-e3",
        "cnn-small-cpu-b64-w0-fp32-e3",
    ]

    table = tabulate_variants([make_record(slug) for slug in slugs], today=TODAY)

    assert list(table["variant"]) == slugs[::-1]


def test_what_is_not_held_out_has_no_number() -> None:
    (row,) = tabulate_variants([make_record(SLUG, facts=NOTHING_HELD_OUT)], today=TODAY).to_dict(
        "records"
    )

    assert (row["status"], row["quality_name"], row["quality_count"], row["test_loss_count"]) == (
        "ok",
        "",
        0,
        0,
    )
    assert all(math.isnan(row[column]) for column in ("quality", "quality_chance", "test_loss"))
    assert "diverged" not in row["marks"]


@pytest.mark.parametrize("status", ["oom", "failed", "skipped"])
def test_a_variant_not_measured_is_a_row_without_numbers(status: Any) -> None:
    row = tabulate_variants([make_record(SLUG, status=status, reason="because")], today=TODAY).iloc[
        0
    ]

    assert (row["status"], row["reason"], row["processes"]) == (status, "because", 0)
    assert (
        row[[column for name in PER_PROCESS for column in (name, f"{name}_low", f"{name}_high")]]
        .isna()
        .all()
    )
    assert row["workload_title"] == "image CNN"
    assert not row["epoch_time_projected"]


def test_a_variant_of_a_workload_of_ones_own_that_failed_keeps_its_configured_name() -> None:
    row = tabulate_variants(
        [make_record("mine-cpu-b8-w0-fp32-e2", status="failed")], today=TODAY
    ).iloc[0]

    assert row["workload_title"] == "mine"


def test_the_numbers_are_those_of_the_record() -> None:
    record = make_record(SLUG, throughput_per_s=500.0, noise=0.1)

    row = tabulate_variants([record], today=TODAY).iloc[0]

    found = summarise([repetition.throughput_per_s for repetition in record.repetitions])
    assert row["throughput_per_s"] == pytest.approx(500)
    assert (row["throughput_per_s_low"], row["throughput_per_s_high"]) == (found.low, found.high)
    assert row["throughput_per_s_count"] == 5
    assert row["epoch_time_s"] == pytest.approx(2048 / 500)


def test_memory_is_named_for_what_was_read() -> None:
    table = tabulate_variants(
        [make_record("lstm-cpu-b8-w0-fp32-e2"), make_record("lstm-cuda1-b8-w0-fp32-e2")],
        today=TODAY,
    )

    assert list(table["memory_kind"]) == ["resident set", "allocator"]


def test_marks_are_separated_by_semicolons() -> None:
    row = tabulate_variants(
        [make_record(SLUG, noise=0.3, code_digest="another")], today=TODAY
    ).iloc[0]

    assert row["marks"] == "high variance;earlier code"
    assert not row["same_code"]


def test_a_row_names_the_code_and_the_trace_behind_its_numbers() -> None:
    record = make_record(SLUG)
    states = [
        record.provenance.model_copy(update={"git_dirty": dirty}) for dirty in (False, True, None)
    ]
    records = [record.model_copy(update={"provenance": provenance}) for provenance in states]

    rows = [tabulate_variants([each], today=TODAY).iloc[0] for each in records]

    assert record.profile
    assert rows[0]["trace_sha256"] == record.profile.trace_sha256
    assert (rows[0]["commit"], rows[0]["code_digest"]) == (
        record.provenance.git_commit,
        record.provenance.code_digest,
    )
    assert [row["commit_state"] for row in rows] == ["clean", "with changes", ""]


def test_a_training_that_diverged_has_no_quality_and_a_mark() -> None:
    row = tabulate_variants([make_record(SLUG, test_loss=float("inf"))], today=TODAY).iloc[0]

    assert row["marks"] == "diverged"
    assert row[["test_loss", "test_loss_low"]].isna().all()
    assert row["throughput_per_s"] > 0


def test_records_of_two_machines_are_refused() -> None:
    records = [make_record(SLUG, machine="xeon-2c"), make_record(SLUG, machine="epyc-64c")]

    with pytest.raises(
        RecordError, match=r"two records, of machines xeon-2c and epyc-64c; give the records of one"
    ):
        tabulate_variants(records, today=TODAY)


def test_no_records_make_an_empty_table() -> None:
    assert list(tabulate_variants([], today=TODAY).columns) == VARIANTS.column_names


def row_of(slug: str = SLUG, *, prices: Prices | None = None, **options: Any) -> dict[str, Any]:
    table = tabulate_variants(
        [make_record(slug, **options)], today=TODAY, prices=prices or Prices()
    )
    return {str(key): value for key, value in table.iloc[0].items()}


def test_variants_are_ordered_from_the_eager_baseline_in_fp32_on() -> None:
    lstm = "lstm-cuda-b64-w0-{}-e3".format
    slugs = [
        lstm("fp32"),
        "lstm-cuda-b64-w0-fp32-e3-pinned",
        "lstm-cuda-b64-w0-fp32-e3-pinned+fused",
        "lstm-cuda-b64-w0-fp32-e3-compile",
        "lstm-cuda-b64a2-w0-fp32-e3",
        "lstm-cuda-b64-w4-fp32-e3",
        lstm("tf32"),
        lstm("fp16"),
        lstm("bf16"),
    ]

    table = tabulate_variants([make_record(slug) for slug in sorted(slugs)], today=TODAY)

    assert list(table["variant"]) == slugs


def test_what_is_switched_on_is_reported_part_by_part_and_in_one_name() -> None:
    row = row_of("lstm-cuda-b64a2-w4-fp32-e3-pinned+fused")

    assert [row[name] for name in ("workers", "accumulation", "options")] == [4, 2, "pinned+fused"]
    assert row["optimization"] == "workers4+accumulate2+pinned+fused"


def test_an_epochs_energy_is_that_of_its_samples() -> None:
    row = row_of(throughput_per_s=500.0, noise=0.0)

    assert row["energy_per_sample_j"] == pytest.approx(430 / 500)
    assert row["energy_per_epoch_j"] == pytest.approx(2048 * 430 / 500)


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (Prices(per_kwh=0.36), 2048 * 430 / 500 * 1e-7),
        (Prices(per_device_hour=3.6), 2048 / 500 * 1e-3),
        (Prices(per_kwh=0.36, per_device_hour=3.6), 2048 * 430 / 500 * 1e-7 + 2048 / 500 * 1e-3),
        (Prices(), math.nan),
    ],
)
def test_an_epoch_costs_its_energy_and_its_time_at_the_prices_given(
    prices: Prices, cost: float
) -> None:
    row = row_of(prices=prices, throughput_per_s=500.0, noise=0.0)

    assert row["cost_per_epoch"] == pytest.approx(cost, nan_ok=True)
    assert row["currency"] == ("" if math.isnan(cost) else "EUR")
    assert row["price_per_kwh"] == pytest.approx(prices.per_kwh or math.nan, nan_ok=True)
    assert row["price_per_device_hour"] == pytest.approx(
        prices.per_device_hour or math.nan, nan_ok=True
    )


def test_energy_that_has_a_price_and_was_not_measured_leaves_the_cost_unknown() -> None:
    both = Prices(per_kwh=0.3, per_device_hour=2.0)

    assert math.isnan(row_of(prices=both, telemetry=None)["cost_per_epoch"])
    assert row_of(prices=Prices(per_device_hour=2.0), telemetry=None)["cost_per_epoch"] > 0


def test_out_of_memory_is_a_row_with_what_was_asked_for_and_what_there_is() -> None:
    row = row_of(status="oom", memory_peak_mib=160_000.0)

    assert (row["memory_asked_mib"], row["device_memory_mib"]) == (20_000.0, 81_100.8)
    assert row["memory_free_mib"] == 812.5
    assert math.isnan(row["memory_peak_mib"])


def test_memory_of_the_device_is_reported_only_where_the_device_has_its_own() -> None:
    on_cpu, on_gpu = row_of(SLUG.replace("cuda", "cpu")), row_of(memory_peak_mib=1000.0)

    assert math.isnan(on_cpu["device_memory_mib"])
    assert on_gpu["device_memory_mib"] == pytest.approx(79.2 * 1024)
    assert on_gpu["memory_reserved_mib"] == pytest.approx(1150)
    assert math.isnan(on_gpu["memory_asked_mib"])


def test_the_allocator_shows_its_fragmentation_and_retries_on_an_accelerator_alone() -> None:
    record = make_record(SLUG)
    assert record.profile is not None
    assert record.profile.allocator is not None

    row, on_cpu = row_of(), row_of(SLUG.replace("cuda", "cpu"))

    assert row["memory_fragmented_mib"] == record.profile.allocator.inactive_split_peak_mib
    assert row["allocator_retries"] == record.profile.allocator.retries
    assert math.isnan(on_cpu["memory_fragmented_mib"])
    assert math.isnan(on_cpu["allocator_retries"])
