"""Peak memory on the CPU."""

import sys

import pytest
import torch

from gpu_report.measure.memory import ResidentMemory, memory_meter

SIZE_MIB = 64


def test_the_peak_holds_what_was_given_back_already() -> None:
    meter = memory_meter(torch.device("cpu"))
    meter.reset()
    before_mib = meter.peak_mib()
    torch.ones(SIZE_MIB * 2**20, dtype=torch.uint8)
    assert meter.peak_mib() >= before_mib + SIZE_MIB * 0.9


@pytest.mark.parametrize(("device", "kind"), [("cpu", "resident set"), ("mps", "resident set"), ("cuda", "allocator")])
def test_the_kind_of_memory_is_that_of_the_meter_and_not_of_an_accelerator_as_such(device: str, kind: str) -> None:
    assert memory_meter(torch.device(device)).kind == kind


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux resets the peak")
def test_a_reset_forgets_an_earlier_peak() -> None:
    meter = ResidentMemory()
    torch.ones(SIZE_MIB * 2**20, dtype=torch.uint8)
    earlier_mib = meter.peak_mib()
    meter.reset()
    assert meter.peak_mib() <= earlier_mib - SIZE_MIB * 0.5
