"""The ceilings of a machine are those that its calibration reached."""

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.records.calibration import Calibration, Ceilings, Operation, Transfer
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.ceilings import bus_bandwidth_per_s, data_sheets
from gpu_report.tables.statistics import summarise
from tests.factories import make_calibration
from tests.tabulated import tabulate_links, tabulate_peaks, tabulate_transfers


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
    assert (row["value_low"], row["value"], row["value_high"]) == (
        found.low,
        found.value,
        found.high,
    )


def test_the_link_is_as_fast_as_its_fastest_copy_from_pinned_memory() -> None:
    calibration = make_calibration(["cuda"])
    peaks, transfers = tabulate_peaks(calibration), tabulate_transfers(calibration)

    for direction in ("to device", "to host"):
        (link,) = peaks.loc[peaks["ceiling"] == direction, "value"]
        pinned = transfers[
            (transfers["direction"] == direction) & (transfers["memory"] == "pinned")
        ]
        assert link == pytest.approx(1e9 * pinned["bandwidth_gb_per_s"].max())


def test_a_device_without_pinned_memory_has_no_link() -> None:
    calibration = make_calibration(["cuda"])
    pageable = [one for one in calibration.ceilings[0].transfers if one.memory == "pageable"]
    ceilings = [calibration.ceilings[0].model_copy(update={"transfers": pageable})]

    table = tabulate_peaks(calibration.model_copy(update={"ceilings": ceilings}))

    assert set(table["ceiling"]) == {"matrix product", "device copy"}


def peaks_of(**changes: Any) -> pd.DataFrame:
    """The ceilings of one GPU, which is an H100 unless changed."""
    calibration = make_calibration(["cuda"])
    ceilings: list[Ceilings] = [calibration.ceilings[0].model_copy(update=changes)]
    return tabulate_peaks(calibration.model_copy(update={"ceilings": ceilings}))


def test_a_known_gpu_has_the_rates_of_its_data_sheet_beside_the_measured_ones() -> None:
    rows = rows_of(peaks_of(name="NVIDIA H100 80GB HBM3"))

    given = {(row["ceiling"], row["precision"]): row["data_sheet"] for row in rows}
    assert given["matrix product", "bf16"] == 989.4e12
    assert given["device copy", ""] == 3.352e12
    assert math.isnan(given["to host", ""])
    for row in rows:
        assert row["share_of_data_sheet"] == pytest.approx(
            row["value"] / row["data_sheet"], nan_ok=True
        )
        assert "H100" in row["data_sheet_source"]


@pytest.mark.parametrize(
    "name", ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A10G", "AMD Instinct MI300X"]
)
def test_a_gpu_of_another_name_is_compared_with_no_data_sheet(name: str) -> None:
    table = peaks_of(name=name)

    assert table[["data_sheet", "share_of_data_sheet"]].isna().all(axis=None)
    assert (table["data_sheet_source"] == "").all()


def test_a_gpu_that_reaches_more_than_its_data_sheet_is_not_compared_and_says_why() -> None:
    table = peaks_of(name="Tesla T4")

    assert table[["data_sheet", "share_of_data_sheet"]].isna().all(axis=None)
    assert table["data_sheet_source"].str.startswith("not compared, because a ceiling is").all()


def test_a_precision_that_the_data_sheet_leaves_out_has_no_share() -> None:
    slow = [
        one.model_copy(update={"flops_per_s": [1e12]})
        for one in make_calibration(["cuda"]).ceilings[0].matrix_products
    ]

    table = peaks_of(name="Tesla T4", matrix_products=slow, copy_bytes_per_s=[3e11]).set_index(
        "precision"
    )

    assert table["share_of_data_sheet"].notna().to_dict()["fp16"]
    assert not table["share_of_data_sheet"].notna().to_dict()["bf16"]


def test_tensor_cores_are_no_slower_than_the_rest_and_a_name_is_in_one_data_sheet() -> None:
    sheets = data_sheets()

    assert all(sheet.tflops["fp32"] <= min(sheet.tflops.values()) for sheet in sheets.values())
    assert len(sheets) == sum(
        len(sheet.names) for sheet in {id(sheet): sheet for sheet in sheets.values()}.values()
    )


TIMES = st.lists(st.floats(min_value=1e-6, max_value=10.0), min_size=3, max_size=3)


def calibration_of(*transfers: Transfer) -> Calibration:
    made = make_calibration(["cuda"])
    return made.model_copy(
        update={"ceilings": [made.ceilings[0].model_copy(update={"transfers": list(transfers)})]}
    )


def test_without_a_calibration_there_are_no_transfers_and_the_cpu_has_none() -> None:
    assert tabulate_transfers(None).empty
    assert tabulate_transfers(make_calibration(["cpu"])).empty


def test_every_copy_of_the_calibration_has_a_row_in_its_order() -> None:
    calibration = make_calibration(["cpu", "cuda"])

    table = tabulate_transfers(calibration)

    transfers = calibration.ceilings[1].transfers
    assert list(table["bytes"]) == [one.bytes for one in transfers]
    assert set(table["device"]) == {"cuda"}


@given(TIMES, st.sampled_from([2**12, 2**20, 2**30]))
def test_bandwidth_times_time_is_the_number_of_bytes(times_s: list[float], size: int) -> None:
    transfer = Transfer(direction="to host", memory="pinned", bytes=size, times_s=times_s)

    row = tabulate_transfers(calibration_of(transfer)).iloc[0]

    assert row["bandwidth_gb_per_s"] * 1e9 * row["time_us"] / 1e6 == pytest.approx(size)
    assert (
        row["bandwidth_gb_per_s_low"] <= row["bandwidth_gb_per_s"] <= row["bandwidth_gb_per_s_high"]
    )
    assert row["time_us_low"] <= row["time_us"] <= row["time_us_high"]


def test_each_direction_reaches_its_peak_once_and_never_more() -> None:
    table = tabulate_transfers(make_calibration())

    assert dict(table.groupby("direction")["share_of_peak"].max()) == {
        "to device": 1.0,
        "to host": 1.0,
    }
    assert (table["share_of_peak"] > 0).all()


def test_a_direction_is_held_against_its_own_peak() -> None:
    slow = Transfer(direction="to host", memory="pageable", bytes=2**20, times_s=[2e-3] * 3)
    fast = Transfer(direction="to device", memory="pageable", bytes=2**20, times_s=[1e-3] * 3)

    assert list(tabulate_transfers(calibration_of(slow, fast))["share_of_peak"]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("operation", "devices", "expected"),
    [
        # Of 8 GB in 2 s: what nccl-tests prints as busbw.
        ("all-reduce", 2, 4e9),
        ("all-reduce", 8, 7e9),
        ("all-gather", 2, 2e9),
        ("reduce-scatter", 4, 3e9),
        ("point-to-point", 2, 4e9),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(
    operation: Operation, devices: int, expected: float
) -> None:
    assert (
        bus_bandwidth_per_s(operation, devices=devices, payload_bytes=8 * 10**9, time_s=2.0)
        == expected
    )


def test_every_operation_on_linked_devices_has_a_row_and_what_is_not_linked_none() -> None:
    calibration = make_calibration(linked=4)
    assert calibration.link is not None

    table = tabulate_links(calibration)

    assert list(table["bytes"]) == [one.bytes for one in calibration.link.operations]
    assert set(table["devices"]) == {2, 4}
    assert table["bus_bandwidth_gb_per_s"].between(0, 350).all()
    assert (table["bus_bandwidth_gb_per_s_low"] < table["bus_bandwidth_gb_per_s_high"]).all()
    assert tabulate_links(make_calibration()).empty
    assert tabulate_links(None).empty


def test_a_row_says_how_the_devices_that_took_part_are_connected() -> None:
    calibration = make_calibration(linked=3)
    assert calibration.link is not None
    first, *others = calibration.link.pairs
    apart = [
        pair.model_copy(update={"connection": "SYS", "has_peer_access": False}) for pair in others
    ]
    link = calibration.link.model_copy(update={"pairs": [first, *apart]})

    table = tabulate_links(calibration.model_copy(update={"link": link}))

    by_devices = table.drop_duplicates("devices").set_index("devices")
    assert dict(by_devices["connections"]) == {2: "NV18", 3: "NV18, SYS"}
    assert dict(by_devices["peer_access"]) == {2: "all", 3: "some"}
