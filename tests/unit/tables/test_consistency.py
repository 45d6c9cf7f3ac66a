"""CPU and accelerator are compared process by process, from the same seeds."""

import pytest

from gpu_report.records.record import Record
from tests.factories import NOTHING_HELD_OUT, make_record
from tests.tabulated import tabulate_consistency

CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "cnn-medium-cuda-b64-w0-fp32-e3"


def last_test_loss(*records: Record) -> tuple[float, float, float]:
    table = tabulate_consistency(records)
    row = table[(table["metric"] == "test_loss") & (table["epoch"] == 2)].iloc[0]
    return tuple(row[["reference_value", "value", "difference_percent"]])


@pytest.mark.parametrize(
    ("on_cuda", "percent"), [(0.4, 0.0), (0.404, 1.0), (0.396, 1.0), (0.5, 25.0)]
)
def test_the_difference_is_relative_to_the_cpu_and_has_no_sign(
    on_cuda: float, percent: float
) -> None:
    found = last_test_loss(make_record(CPU, test_loss=0.4), make_record(CUDA, test_loss=on_cuda))

    assert found == pytest.approx((0.4, on_cuda, percent))


def test_devices_agree_in_what_is_measured_where_nothing_is_held_out() -> None:
    table = tabulate_consistency(
        [make_record(slug, facts=NOTHING_HELD_OUT) for slug in (CPU, CUDA)]
    )

    known = table.dropna(subset=["difference_percent"])
    assert set(known["metric"]) == {"train_loss"}


def test_only_processes_that_both_have_are_compared() -> None:
    reference, value, difference = last_test_loss(
        make_record(CPU, processes=3), make_record(CUDA, processes=1)
    )

    assert reference == pytest.approx(0.4 * 0.998)
    assert (value, difference) == pytest.approx((0.4, 100 * 0.002 / 0.998))


@pytest.mark.parametrize(
    "other",
    [
        CUDA.replace("b64", "b16"),
        CUDA.replace("b64", "b64a2"),
        CUDA.replace("fp32", "tf32"),
        CUDA.replace("e3", "e3x5"),
        f"{CUDA}-compile",
    ],
)
def test_variants_that_differ_in_more_than_the_device_are_no_twins(other: str) -> None:
    assert tabulate_consistency([make_record(CPU), make_record(other)]).empty


def test_a_training_that_diverged_has_no_difference() -> None:
    table = tabulate_consistency([make_record(CPU), make_record(CUDA, test_loss=float("nan"))])

    assert table.loc[table["metric"] == "test_loss", "difference_percent"].isna().all()
