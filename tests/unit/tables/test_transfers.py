"""A copy's bandwidth is its bytes over its time, and the best of a direction is its peak."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.calibration import Calibration, Transfer
from gpu_report.tables import tabulate_transfers
from tests.factories import make_calibration

TIMES = st.lists(st.floats(min_value=1e-6, max_value=10.0), min_size=3, max_size=3)


def calibration_of(*transfers: Transfer) -> Calibration:
    made = make_calibration(["cuda"])
    return made.model_copy(update={"ceilings": [made.ceilings[0].model_copy(update={"transfers": list(transfers)})]})


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
    assert row["bandwidth_gb_per_s_low"] <= row["bandwidth_gb_per_s"] <= row["bandwidth_gb_per_s_high"]
    assert row["time_us_low"] <= row["time_us"] <= row["time_us_high"]


def test_each_direction_reaches_its_peak_once_and_never_more() -> None:
    table = tabulate_transfers(make_calibration())

    assert dict(table.groupby("direction")["share_of_peak"].max()) == {"to device": 1.0, "to host": 1.0}
    assert (table["share_of_peak"] > 0).all()


def test_a_direction_is_held_against_its_own_peak() -> None:
    slow = Transfer(direction="to host", memory="pageable", bytes=2**20, times_s=[2e-3] * 3)
    fast = Transfer(direction="to device", memory="pageable", bytes=2**20, times_s=[1e-3] * 3)

    assert list(tabulate_transfers(calibration_of(slow, fast))["share_of_peak"]) == [1.0, 1.0]
