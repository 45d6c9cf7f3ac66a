import math
from typing import Any

import pytest

from gpu_report.tables.bundle import rows_of
from gpu_report.writing.device_tables import (
    best_of_each,
    efficiency_table,
    energy_table,
    peaks_table,
)
from gpu_report.writing.table_block import TableBlock
from tests.report.synthetic import results_on


def printed(block: TableBlock) -> str:
    return " ".join(str(cell) for row in block.rows for cell in row.cells).replace(r"\gpurepbreak{}", "")


def test_every_ceiling_is_a_row_in_its_own_unit() -> None:
    peaks = rows_of(results_on("cpu", "cuda").tables.peaks)

    block = peaks_table(peaks, source="peaks.csv")

    assert len(block.rows) == len(peaks)
    assert "TFLOP/s" in printed(block)
    assert "GB/s" in printed(block)


def test_ceilings_have_the_data_sheet_beside_them_where_one_is_known() -> None:
    peaks = rows_of(results_on("cpu", "cuda").tables.peaks)

    both, alone = (
        peaks_table(rows, source="peaks.csv") for rows in (peaks, [row for row in peaks if row["device"] == "cpu"])
    )

    assert r"989\,TFLOP/s" in printed(both)
    assert "white paper" in " ".join(both.notes)
    assert len(alone.header) == len(both.header) - 2
    assert alone.notes == ()


def test_of_rows_that_agree_the_best_is_kept() -> None:
    rows = [{"name": "a", "rate": 1.0}, {"name": "b", "rate": 9.0}, {"name": "a", "rate": 3.0}]

    assert best_of_each(rows, "rate", "name") == [rows[2], rows[1]]


def test_a_column_of_rates_has_one_unit_for_all_rows() -> None:
    efficiency = rows_of(results_on("cpu", "cuda").tables.efficiency)

    block = efficiency_table(efficiency, source="efficiency.csv")

    assert sum(str(unit).endswith("FLOP/s") for unit in block.units) == 1
    assert len(block.rows) == len(efficiency)


def energies(**changes: Any) -> TableBlock:
    watched = [row for row in rows_of(results_on("cpu", "cuda").tables.variants) if math.isfinite(row["power_w"])]
    return energy_table([{**row, **changes} for row in watched], source="variants.csv")


def test_a_cost_is_in_the_currency_of_the_prices() -> None:
    assert "EUR" in [str(unit) for unit in energies().units]


@pytest.mark.parametrize(
    ("per_kwh", "per_device_hour", "missing"),
    [
        (0.25, 2.5, []),
        (0.25, math.nan, ["prices.per_device_hour"]),
        (math.nan, 2.5, ["prices.per_kwh"]),
        (math.nan, math.nan, ["prices.per_kwh", "prices.per_device_hour"]),
    ],
)
def test_the_note_of_the_costs_names_each_price_and_where_one_is_missing(
    per_kwh: float, per_device_hour: float, missing: list[str]
) -> None:
    block = energies(price_per_kwh=per_kwh, price_per_device_hour=per_device_hour)

    note = " ".join(block.notes).replace("\\", "")
    assert [name for name in ("prices.per_kwh", "prices.per_device_hour") if name in note] == missing
    assert ("0.25 EUR per kWh" in note) == math.isfinite(per_kwh)
    assert ("2.5 EUR per hour" in note) == math.isfinite(per_device_hour)
    assert note.count("config/study.yaml") == len(missing)


def test_without_a_price_there_is_no_column_of_costs() -> None:
    headers = [str(header) for header in energies(cost_per_epoch=math.nan, currency="").header]

    assert "cost of an epoch" not in headers
    assert "power" in headers
