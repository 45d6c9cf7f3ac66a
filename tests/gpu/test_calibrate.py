"""Calibrating an accelerator: every precision it has, its own copy, and both directions of the link
to the host.
"""

import pytest
import torch

from gpu_report.measure.calibrate import calibrate
from gpu_report.measure.calibration_plan import LINK, plan_for
from gpu_report.measure.calibration_process import precisions_of
from gpu_report.records.calibration import Calibration
from tests.tabulated import tabulate_links, tabulate_peaks, tabulate_transfers


def accelerator() -> torch.device:
    found = torch.accelerator.current_accelerator()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate([accelerator().type], machine="here", processes=2)


def test_every_precision_of_the_device_is_measured_by_every_process(
    calibration: Calibration,
) -> None:
    products = calibration.ceilings[0].matrix_products

    shapes = plan_for(accelerator().type).product_shapes
    assert [(one.precision, one.shape) for one in products] == [
        (precision, shape) for precision in precisions_of(accelerator()) for shape in shapes
    ]
    assert all(len(one.flops_per_s) == 2 and min(one.flops_per_s) > 0 for one in products)


def test_tensor_cores_are_among_the_precisions_of_a_device_that_has_them() -> None:
    device = accelerator()
    if device.type != "cuda" or torch.version.hip or torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("needs a CUDA device of compute capability 8.0 or later")

    of_8_bits = ["fp8"] if torch.cuda.get_device_capability() >= (8, 9) else []
    assert precisions_of(device) == ["fp32", "tf32", "fp16", "bf16", *of_8_bits]


def test_copies_go_both_ways_from_both_kinds_of_memory_in_every_size(
    calibration: Calibration,
) -> None:
    if accelerator().type != "cuda":
        pytest.skip("only CUDA devices have pinned memory here")
    table = tabulate_transfers(calibration)

    for _, rows in table.groupby(["direction", "memory"]):
        assert tuple(rows["bytes"]) == plan_for("cuda").transfer_bytes
    assert table.groupby(["direction", "memory"]).ngroups == 4
    assert (table["time_us"] > 0).all()


def test_the_ceilings_name_the_hardware(calibration: Calibration) -> None:
    assert calibration.ceilings[0].name
    assert calibration.environment["accelerator"] == calibration.ceilings[0].name
    assert not tabulate_peaks(calibration).empty


def test_the_link_between_two_devices_is_measured_with_every_payload() -> None:
    if accelerator().type != "cuda" or torch.accelerator.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    found = calibrate([], linked=["cuda", "cuda:1"], machine="here", processes=2)

    assert found.link is not None
    assert (found.link.backend, len(found.link.pairs)) == ("nccl", 1)
    table = tabulate_links(found)
    for _, rows in table.groupby("operation"):
        assert tuple(rows["bytes"]) == LINK.payload_bytes
        assert rows["bus_bandwidth_gb_per_s"].iloc[-1] > rows["bus_bandwidth_gb_per_s"].iloc[0] > 0
    assert set(table["backend"]) == {f"nccl {found.link.backend_version}"}
