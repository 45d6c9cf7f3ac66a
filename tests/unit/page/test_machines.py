"""The page of machines has a row for each model, with prices where they are given, and says why a
bundle is not shown.
"""

import math
from pathlib import Path

import pytest

from gpu_report.page.machines import machine_rows, refused_row, render_machines
from gpu_report.study.study import Prices
from gpu_report.tables.bundle import rows_of
from tests.browser import browser, needs_chromium
from tests.report.synthetic import results_on
from tests.unit.page.test_page import data_of

ENERGY, HOUR = Prices(per_kwh=0.36), Prices(per_device_hour=3.6)
BOTH = Prices(per_kwh=0.36, per_device_hour=3.6)


def test_a_model_has_a_row_of_its_configurations_on_cpu_and_gpu() -> None:
    machine = results_on("cpu", "cuda")
    rates = {row["variant"]: row["throughput_per_s"] for row in rows_of(machine.tables.variants)}

    rows = machine_rows(machine, Prices())

    assert [row["model"] for row in rows] == [row["model"] for row in machine.chains]
    for row in rows:
        for name in ("cpu", "eager", "fastest", "on_all"):
            source = row["sources"].get(name)
            assert row[name] == rates[source] if source else math.isnan(row[name])
    assert {"GPT-2 124M"} == {row["model"] for row in rows if math.isfinite(row["tokens_per_s"])}


def test_the_fastest_configuration_of_a_model_with_nothing_faster_is_the_eager_one() -> None:
    only_eager = [
        row for row in machine_rows(results_on("cpu"), Prices()) if row["needs"] == "only eager"
    ]

    assert only_eager
    assert all(row["fastest"] == row["eager"] > 0 for row in only_eager)
    assert all(math.isnan(row["fastest_over_eager"]) for row in only_eager)


def test_a_million_samples_cost_what_their_energy_and_time_cost() -> None:
    energy, hour, both = (
        machine_rows(results_on("cpu", "cuda"), prices)[0] for prices in (ENERGY, HOUR, BOTH)
    )

    assert energy["price_per_million"] == pytest.approx(0.1 * energy["energy_per_sample_j"])
    assert hour["price_per_million"] == pytest.approx(1e3 / hour["fastest"])
    assert both["price_per_million"] == energy["price_per_million"] + hour["price_per_million"]


def test_there_is_no_price_of_a_cpu_whose_energy_has_one_nor_a_column_without_prices() -> None:
    on_cpu, machine = machine_rows(results_on("cpu"), BOTH), results_on("cpu", "cuda")
    without = data_of(render_machines(machine_rows(machine, Prices()), Prices()))["machines"]
    given = data_of(render_machines(machine_rows(machine, BOTH), BOTH))["machines"]

    assert all(math.isnan(row["price_per_million"]) for row in on_cpu)
    prices = [
        [column["unit"] for column in table["columns"] if column["csv"] == "price_per_million"]
        for table in (without, given)
    ]
    assert prices == [[], ["EUR"]]


def test_a_bundle_that_is_not_shown_has_a_row_with_the_reason_beside_those_that_are() -> None:
    rows = machine_rows(results_on("cpu"), Prices())

    text = render_machines([*rows, refused_row(Path("a/<b>.tar.xz"), "it is damaged")], Prices())

    table = data_of(text)["machines"]
    (refused,) = [row for row in table["rows"] if "it is damaged" in row]
    assert len(table["rows"]) == len(rows) + 1
    assert "<b>.tar.xz" in refused
    assert "<b>.tar" not in text
    assert not any(isinstance(cell, list) for cell in refused)


SORTED = """
const table = document.querySelector("#machines-table");
while (!table.querySelector("tbody tr")) await new Promise(requestAnimationFrame);
const heads = [...table.querySelectorAll("th button")];
const position = heads.findIndex((head) => head.textContent === "fastest over eager");
heads[position].click();
heads[position].click();
const cells = [...table.querySelectorAll("tbody tr")].map((row) => row.children[position]);
return [cells.map((cell) => cell.textContent), document.documentElement.scrollWidth];
"""


@needs_chromium
def test_a_heading_sorts_the_table_which_fits_a_narrow_screen(tmp_path: Path) -> None:
    rows = machine_rows(results_on("cpu", "cuda"), Prices())
    page = tmp_path / "machines.html"
    page.write_text(render_machines(rows, Prices()), "utf-8")

    with browser(tmp_path / "chromium") as tab:
        tab.become_a_phone()
        tab.open(page)
        cells, width = tab.run(SORTED)

    factors = [row["fastest_over_eager"] for row in rows if row["fastest_over_eager"] > 0]
    measured = [float(cell.split()[0]) for cell in cells[: len(factors)]]
    assert measured == pytest.approx(sorted(factors, reverse=True), rel=0.01)
    assert cells[len(factors) :] == ["–"] * (len(rows) - len(factors))
    assert width == 400
    assert tab.complaints == []
    assert [address for address in tab.requests if not address.startswith("file:")] == []
