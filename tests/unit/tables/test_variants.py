"""Every variant has a row; what was not measured has no number, and says why."""

import math
from typing import Any

import pytest

from gpu_report.errors import RecordError
from gpu_report.glossary import PER_PROCESS
from gpu_report.study.study import Prices
from gpu_report.tables.marks import Today
from tests.factories import CODE_DIGEST, make_record
from tests.tabulated import tabulate_variants

TODAY = Today(code_digest=CODE_DIGEST)
SLUG = "cnn-medium-cuda-b64-w0-fp32-e3"


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


def row_of(slug: str = SLUG, *, prices: Prices | None = None, **options: Any) -> dict[str, Any]:
    table = tabulate_variants(
        [make_record(slug, **options)], today=TODAY, prices=prices or Prices()
    )
    return {str(key): value for key, value in table.iloc[0].items()}


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
