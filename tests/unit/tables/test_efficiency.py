"""How near a training comes to its device's ceilings keeps the promises of the roofline."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.records.calibration import Calibration
from gpu_report.records.record import Record
from tests.factories import make_calibration, make_record
from tests.tabulated import tabulate_efficiency, tabulate_peaks

CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "unet-128px-cuda-b16-w0-{}-e5"
POSITIVE = st.floats(min_value=1e3, max_value=1e15)


def record_with_work(slug: str, **changes: object) -> Record:
    record = make_record(slug, throughput_per_s=1000.0)
    assert record.profile is not None
    assert record.profile.work is not None
    work = record.profile.work.model_copy(update=changes)
    return record.model_copy(update={"profile": record.profile.model_copy(update={"work": work})})


def calibration_with(*, flops_per_s: float, bytes_per_s: float) -> Calibration:
    made = make_calibration(["cuda"])
    products = [
        one.model_copy(update={"flops_per_s": [flops_per_s] * 3})
        for one in made.ceilings[0].matrix_products
    ]
    ceilings = made.ceilings[0].model_copy(
        update={"matrix_products": products, "copy_bytes_per_s": [bytes_per_s] * 3}
    )
    return made.model_copy(update={"ceilings": [ceilings]})


@pytest.mark.parametrize(
    "record",
    [
        make_record(CPU, status="oom"),
        make_record(CPU, profile_overhead=None),
        make_record(CPU.replace("fp32", "fp16")),
        make_record(CPU.replace("cpu", "cuda1")),
        record_with_work(CPU, flops=0.0),
        record_with_work(CPU, bytes=0.0),
        make_record(f"{CPU}-ddp2"),
        make_record(f"{CUDA.format('bf16')}-ddp4-nocomm"),
        make_record(f"{CUDA.format('fp32')}-split2"),
        make_record(f"{CUDA.format('fp32')}-fsdp2"),
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


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_a_variant_is_held_against_the_peak_of_its_own_precision(precision: str) -> None:
    calibration = make_calibration(["cuda"])
    peaks = tabulate_peaks(calibration)

    row = tabulate_efficiency([make_record(CUDA.format(precision))], calibration).iloc[0]

    assert row["peak_flops_per_s"] == peaks.loc[peaks["precision"] == precision, "value"].item()


@given(flops=POSITIVE, moved=POSITIVE, peak=POSITIVE, copies=POSITIVE)
def test_the_roof_is_the_lower_of_peak_and_intensity_times_copies(
    flops: float, moved: float, peak: float, copies: float
) -> None:
    record = record_with_work(CUDA.format("fp32"), flops=flops, bytes=moved)

    row = tabulate_efficiency(
        [record], calibration_with(flops_per_s=peak, bytes_per_s=copies)
    ).iloc[0]

    ridge = peak / copies
    assert row["intensity"] == pytest.approx(flops / moved)
    assert row["roof_flops_per_s"] == pytest.approx(min(peak, flops / moved * copies))
    if not math.isclose(row["intensity"], ridge):
        assert row["roof"] == ("compute" if row["intensity"] > ridge else "memory")


def test_operators_that_were_not_counted_are_named() -> None:
    record = record_with_work(CPU, uncounted_operators={"aten::a": 2, "aten::b": 1})

    row = tabulate_efficiency([record], make_calibration()).iloc[0]

    assert row["uncounted"] == "aten::a;aten::b"
