"""Peak memory on the CPU."""

import mmap
import sys

import pytest
import torch

from gpu_report.measure.memory import MemoryMeter

SIZE_MIB = 64


def use_and_give_back() -> None:
    """Use pages of the system itself: an allocator may hand out what this process has held for
    long.
    """
    with mmap.mmap(-1, SIZE_MIB * 2**20) as pages:
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1


def test_the_peak_holds_what_was_given_back_already() -> None:
    meter = MemoryMeter(torch.device("cpu"))
    meter.reset()
    before_mib = meter.peak_mib()
    use_and_give_back()
    assert meter.peak_mib() >= before_mib + SIZE_MIB * 0.9


@pytest.mark.parametrize(
    ("device", "kind"), [("cpu", "resident set"), ("mps", "resident set"), ("cuda", "allocator")]
)
def test_the_kind_of_memory_is_that_of_the_meter_and_not_of_an_accelerator_as_such(
    device: str, kind: str
) -> None:
    assert MemoryMeter(torch.device(device)).kind == kind


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux resets the peak")
def test_a_reset_forgets_an_earlier_peak() -> None:
    meter = MemoryMeter(torch.device("cpu"))
    use_and_give_back()
    earlier_mib = meter.peak_mib()
    meter.reset()
    assert meter.peak_mib() <= earlier_mib - SIZE_MIB * 0.5
