"""The ceilings of a machine are those that its calibration reached."""

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.records.calibration import Calibration, Operation, Transfer
from gpu_report.records.data_sheets import data_sheets
from gpu_report.tables.ceilings import bus_bandwidth_per_s
from tests.factories import make_calibration
from tests.tabulated import tabulate_links, tabulate_peaks, tabulate_transfers

H100 = make_calibration(["cuda"]).ceilings[0]


def calibration_of(**changes: Any) -> Calibration:
    """The calibration of one GPU, which is an H100 unless changed."""
    return make_calibration(["cuda"]).model_copy(
        update={"ceilings": [H100.model_copy(update=changes)]}
    )


def peaks_of(**changes: Any) -> pd.DataFrame:
    return tabulate_peaks(calibration_of(**changes))


def test_the_peak_of_a_precision_is_that_of_its_fastest_shape() -> None:
    slow = H100.matrix_products[-1]
    fast = slow.model_copy(update={"columns": 64, "inner": 32, "flops_per_s": [8e14] * 3})

    table = peaks_of(matrix_products=[*H100.matrix_products[:-1], fast, slow])

    products = table[table["ceiling"] == "matrix product"]
    assert [*products["precision"]] == ["fp32", "tf32", "fp16", "bf16"]
    assert (products["shape"].iloc[-1], products["value"].iloc[-1]) == ("8192 x 64 x 32", 8e14)


def test_a_device_without_pinned_memory_has_no_link() -> None:
    pageable = [each for each in H100.transfers if each.memory == "pageable"]

    assert set(peaks_of(transfers=pageable)["ceiling"]) == {"matrix product", "device copy"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", ""),
        ("NVIDIA A10G", ""),
        ("AMD Instinct MI300X", ""),
        ("Tesla T4", "not compared, because a ceiling is"),  # less than what was reached
    ],
)
def test_a_gpu_of_another_name_or_beyond_its_data_sheet_is_not_compared(
    name: str, source: str
) -> None:
    table = peaks_of(name=name)

    assert table[["data_sheet", "share_of_data_sheet"]].isna().all(axis=None)
    assert table["data_sheet_source"].str.startswith(source).all()
    assert bool(source) == table["data_sheet_source"].astype(bool).all()


def test_tensor_cores_are_no_slower_than_the_rest_and_a_name_is_in_one_data_sheet() -> None:
    sheets = data_sheets()

    assert all(sheet.tflops["fp32"] <= min(sheet.tflops.values()) for sheet in sheets.values())
    assert len(sheets) == sum(
        len(sheet.names) for sheet in {id(sheet): sheet for sheet in sheets.values()}.values()
    )


TIMES = st.lists(st.floats(min_value=1e-6, max_value=10.0), min_size=3, max_size=3)


def test_without_a_calibration_there_are_no_rows_and_on_a_cpu_no_transfers_or_links() -> None:
    assert tabulate_peaks(None).empty
    for tabulate in (tabulate_transfers, tabulate_links):
        assert tabulate(None).empty
        assert tabulate(make_calibration(["cpu"])).empty


@given(TIMES, st.sampled_from([2**12, 2**20, 2**30]))
def test_bandwidth_times_time_is_the_number_of_bytes(times_s: list[float], size: int) -> None:
    transfer = Transfer(direction="to host", memory="pinned", bytes=size, times_s=times_s)

    row = tabulate_transfers(calibration_of(transfers=[transfer])).iloc[0]

    assert row["bandwidth_gb_per_s"] * 1e9 * row["time_us"] / 1e6 == pytest.approx(size)
    assert (
        row["bandwidth_gb_per_s_low"] <= row["bandwidth_gb_per_s"] <= row["bandwidth_gb_per_s_high"]
    )
    assert row["time_us_low"] <= row["time_us"] <= row["time_us_high"]


def test_a_direction_is_held_against_its_own_peak() -> None:
    slow = Transfer(direction="to host", memory="pageable", bytes=2**20, times_s=[2e-3] * 3)
    fast = Transfer(direction="to device", memory="pageable", bytes=2**20, times_s=[1e-3] * 3)

    assert list(tabulate_transfers(calibration_of(transfers=[slow, fast]))["share_of_peak"]) == [
        1.0,
        1.0,
    ]


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


@pytest.mark.parametrize(
    ("connections", "name", "given"),
    [
        (["NV18"], "NVIDIA H200", 450.0),
        (["NV18"], "NVIDIA L4", math.nan),
        (["NODE"], "NVIDIA H200", math.nan),
        ([None], "NVIDIA H200", math.nan),
        ([], "NVIDIA H200", math.nan),
        # 25 GB/s each; of three devices, the last has one link to each of the others.
        (["NV2"], "Tesla V100-SXM2-16GB", 50.0),
        (["NV2", "NV1", "NV1"], "Tesla V100-SXM2-16GB", 50.0),
        (["NV2", "NV1", "SYS"], "Tesla V100-SXM2-16GB", math.nan),
        (["NV18", "NV18", "NV18"], "NVIDIA H200", 450.0),
    ],
)
def test_a_link_is_held_against_one_direction_of_the_nvlinks_that_connect_the_devices(
    connections: list[str | None], name: str, given: float
) -> None:
    devices = 3 if len(connections) == 3 else 2
    both = make_calibration(["cuda"], linked=devices)
    assert both.link
    pairs = [
        each.model_copy(update={"connection": connection})
        for each, connection in zip(both.link.pairs, connections, strict=False)
    ]
    calibration = both.model_copy(
        update={
            "ceilings": [each.model_copy(update={"name": name}) for each in both.ceilings],
            "link": both.link.model_copy(update={"pairs": pairs}),
        }
    )

    table = tabulate_links(calibration)
    assert set(table.loc[table["devices"] == devices, "data_sheet_gb_per_s"].fillna(-1)) == {
        -1 if math.isnan(given) else given
    }
