"""How near a training comes to its device's ceilings keeps the promises of the roofline."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.records.record import Record
from tests.factories import make_calibration, make_record
from tests.tabulated import tabulate_efficiency
from tests.unit.tables.changed import calibrated, with_work

CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "unet-128px-cuda-b16-w0-{}-e5"
POSITIVE = st.floats(min_value=1e3, max_value=1e15)


@pytest.mark.parametrize(
    "record",
    [
        make_record(CPU, status="oom"),
        make_record(CPU, profile_overhead=None),
        make_record(CPU.replace("fp32", "fp16")),
        make_record(CPU.replace("cpu", "cuda1")),
        with_work(CPU, flops=0.0),
        with_work(CPU, bytes=0.0),
        make_record(f"{CPU}-ddp2"),
        make_record(f"{CUDA.format('bf16')}-ddp4-nocomm"),
        make_record(f"{CUDA.format('fp32')}-split2"),
        make_record(f"{CUDA.format('fp32')}-fsdp2"),
        make_record(f"{CUDA.format('bf16')}-fp8"),
    ],
    ids=[
        "not measured",
        "not profiled",
        "no such precision",
        "no such device",
        "no operations",
        "no bytes",
        "ranks on one CPU",
        "a bound",
        "stages in turn",
        "shares of weights",
        "layers in two precisions",
    ],
)
def test_what_cannot_be_held_against_a_ceiling_is_left_out(record: Record) -> None:
    assert tabulate_efficiency([record], make_calibration(["cpu", "cuda"])).empty


def test_each_of_several_devices_achieves_its_part() -> None:
    alone, shared = (
        tabulate_efficiency([make_record(slug, throughput_per_s=1000.0)], make_calibration()).iloc[
            0
        ]
        for slug in (CUDA.format("fp32"), f"{CUDA.format('fp32')}-ddp4")
    )

    assert alone["achieved_flops_per_s"] == pytest.approx(alone["flops_per_sample"] * 1000)
    assert shared["achieved_flops_per_s"] == pytest.approx(shared["flops_per_sample"] * 1000 / 4)
    assert shared["peak_flops_per_s"] == alone["peak_flops_per_s"]


@given(flops=POSITIVE, moved=POSITIVE, peak=POSITIVE, copies=POSITIVE)
def test_the_roof_is_the_lower_of_peak_and_intensity_times_copies(
    flops: float, moved: float, peak: float, copies: float
) -> None:
    record = with_work(CUDA.format("fp32"), flops=flops, bytes=moved)

    row = tabulate_efficiency([record], calibrated(flops_per_s=peak, bytes_per_s=copies)).iloc[0]

    ridge = peak / copies
    assert row["intensity"] == pytest.approx(flops / moved)
    assert row["roof_flops_per_s"] == pytest.approx(min(peak, flops / moved * copies))
    if not math.isclose(row["intensity"], ridge):
        assert row["roof"] == ("compute" if row["intensity"] > ridge else "memory")


def test_fused_code_has_a_share_of_the_peak_and_no_roof() -> None:
    records = [make_record(CUDA.format("fp32")), make_record(f"{CUDA.format('fp32')}-compile")]

    eager, compiled = tabulate_efficiency(records, make_calibration()).to_dict("records")

    assert (eager["roof"], eager["roof_flops_per_s"] > 0) == ("compute", True)
    assert compiled["share_of_peak"] > 0
    assert compiled["roof"] == ""
    assert math.isnan(compiled["roof_flops_per_s"])
    assert math.isnan(compiled["share_of_roof"])
