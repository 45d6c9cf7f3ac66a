import math
from dataclasses import replace
from typing import Any

from gpu_report.tables.bundle import rows_of
from gpu_report.writing.hardware_view import HardwareView
from tests.report.synthetic import results_on


def hardware(*devices: str, **tables: Any) -> HardwareView:
    """The hardware of the machine that measured the default study on these devices, with some of its tables changed."""
    results = results_on(*devices)
    return HardwareView(
        machine="here",
        tables=replace(results.tables, **tables),
        records=results.records,
        measured=[row for row in rows_of(results.tables.variants) if row["status"] == "ok"],
        csv_path=lambda table: f"{table}.csv",
    )


def test_a_machine_without_accelerator_has_ceilings_and_no_energy() -> None:
    view = hardware("cpu")

    assert view.peaks_table()
    assert view.energy_table() is None
    assert view.watched == []
    assert view.sampling == ""


def test_a_machine_that_was_not_calibrated_has_no_table_of_ceilings() -> None:
    tables = results_on("cpu", "cuda").tables

    view = hardware("cpu", "cuda", peaks=tables.peaks.iloc[:0], transfers=tables.transfers.iloc[:0])

    assert view.peaks_table() is None


def test_tables_are_labelled_with_their_machine_and_name_their_csv_file() -> None:
    table = hardware("cpu", "cuda").peaks_table()

    assert table
    assert (table.name, table.source) == ("here/peaks", "peaks.csv")


def test_the_table_of_efficiency_has_the_best_of_each_workload_device_and_precision() -> None:
    view = hardware("cpu", "cuda")
    kinds = {(row["workload"], row["device"], row["precision"]) for row in view.efficiency}

    table = view.efficiency_table()

    assert table
    assert len(table.rows) == len(kinds) < len(view.efficiency)


def test_the_table_of_energy_has_one_variant_of_each_workload_size_and_precision() -> None:
    view = hardware("cpu", "cuda")
    kinds = {(row["workload"], row["size"], row["precision"]) for row in view.watched}

    table = view.energy_table()

    assert table
    assert len(table.rows) == len(kinds) < len(view.watched)
    assert all(row["device"] == "cuda" and math.isfinite(row["power_w"]) for row in view.watched)


def test_how_often_the_driver_was_asked_stands_beside_what_it_cost() -> None:
    told = hardware("cpu", "cuda").sampling

    assert told.startswith("every ")
    assert "; each query took " in told
