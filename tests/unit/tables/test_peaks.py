"""The ceilings of a machine are those that its calibration reached."""

import pytest

from gpu_report.tables import tabulate_peaks, tabulate_transfers
from gpu_report.tables.statistics import summarise
from tests.factories import make_calibration


def test_without_a_calibration_there_are_no_ceilings() -> None:
    assert tabulate_peaks(None).empty


def test_every_device_has_its_products_and_its_copy_and_an_accelerator_its_link() -> None:
    table = tabulate_peaks(make_calibration(["cpu", "cuda"]))

    ceilings = {device: list(rows["ceiling"]) for device, rows in table.groupby("device")}
    assert set(ceilings["cpu"]) == {"matrix product", "device copy"}
    assert ceilings["cuda"] == ["matrix product"] * 4 + ["device copy", "to device", "to host"]


def test_only_matrix_products_have_a_precision_and_floating_point_operations() -> None:
    table = tabulate_peaks(make_calibration())

    is_product = table["ceiling"] == "matrix product"
    assert (table["precision"] != "").tolist() == is_product.tolist()
    assert (table["unit"] == "FLOP/s").tolist() == is_product.tolist()
    assert (table["unit"] == "B/s").tolist() == (~is_product).tolist()


def test_a_ceiling_is_the_mean_over_the_processes_with_their_interval() -> None:
    calibration = make_calibration(["cuda"])

    row = tabulate_peaks(calibration).iloc[0]

    rates = calibration.ceilings[0].matrix_products[0].flops_per_s
    found = summarise(rates)
    assert (row["value_low"], row["value"], row["value_high"]) == (found.low, found.value, found.high)


def test_the_link_is_as_fast_as_its_fastest_copy_from_pinned_memory() -> None:
    calibration = make_calibration(["cuda"])
    peaks, transfers = tabulate_peaks(calibration), tabulate_transfers(calibration)

    for direction in ("to device", "to host"):
        (link,) = peaks.loc[peaks["ceiling"] == direction, "value"]
        pinned = transfers[(transfers["direction"] == direction) & (transfers["memory"] == "pinned")]
        assert link == pytest.approx(1e9 * pinned["bandwidth_gb_per_s"].max())


def test_a_device_without_pinned_memory_has_no_link() -> None:
    calibration = make_calibration(["cuda"])
    pageable = [one for one in calibration.ceilings[0].transfers if one.memory == "pageable"]
    ceilings = [calibration.ceilings[0].model_copy(update={"transfers": pageable})]

    table = tabulate_peaks(calibration.model_copy(update={"ceilings": ceilings}))

    assert set(table["ceiling"]) == {"matrix product", "device copy"}
