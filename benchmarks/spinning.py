"""Slowdowns of known length, and built-in workloads with one planted in every step, for
`benchmarks/coverage.py` and `benchmarks/guard_power.py`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from torch import Tensor

from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.lstm import LSTMClassification
from gpu_report.workloads.unet import UNetSegmentation

_TRIAL_CYCLES: Final = 2_000_000
_TRIALS: Final = 40
"""Together they take some 40 ms, after which the clocks of an idle GPU have risen."""


def spin(device: torch.device, length_us: float) -> None:
    """Keep the device's stream, or this thread on the CPU, busy for that long."""
    if device.type == "cuda":
        torch.cuda._sleep(round(length_us * _cycles_per_us(device.index or 0)))  # type: ignore[no-untyped-call]
        return
    end_ns = time.perf_counter_ns() + round(1000 * length_us)
    while time.perf_counter_ns() < end_ns:
        pass


def time_spins(device: torch.device, length_us: float, *, spins: int = 200) -> float:
    """Mean microseconds of a spin, by the device's own clock on a GPU."""
    spin(device, length_us)
    if device.type != "cuda":
        started_s = time.perf_counter()
        for _ in range(spins):
            spin(device, length_us)
        return 1e6 * (time.perf_counter() - started_s) / spins
    return _on_device_us(lambda: spin(device, length_us), spins)


@cache
def _cycles_per_us(_index: int) -> float:
    def trial() -> None:
        torch.cuda._sleep(_TRIAL_CYCLES)  # type: ignore[no-untyped-call]

    _on_device_us(trial, _TRIALS)
    return _TRIAL_CYCLES / _on_device_us(trial, _TRIALS)


def _on_device_us(work: Callable[[], None], times: int) -> float:
    begin, end = (torch.Event("cuda", enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return 1000 * float(begin.elapsed_time(end)) / times


class _Spinning:
    """Spins before each loss; what the model learns is the same."""

    spin_us: float

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        if self.spin_us:
            spin(output.device, self.spin_us)
        return super().loss(output, target)  # type: ignore[misc,no-any-return]


@dataclass(frozen=True, kw_only=True)
class SpinningLSTM(_Spinning, LSTMClassification):
    spin_us: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SpinningCNN(_Spinning, CNNClassification):
    spin_us: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SpinningUNet(_Spinning, UNetSegmentation):
    spin_us: float = 0.0
