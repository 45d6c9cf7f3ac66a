"""Timing steps without waiting for them: the host's clock on the CPU, events on an accelerator; and
rounding times.
"""

import math
import time
from collections.abc import Iterable
from itertools import pairwise

import torch


class HostClock:
    """Notes where one step ends and the next begins, by the host's monotonic clock.

    A boundary is marked once before the first step and once after each.
    """

    def __init__(self) -> None:
        self._marks_s: list[float] = []

    def mark(self) -> None:
        self._marks_s.append(time.perf_counter())

    def step_times_ms(self) -> list[float]:
        return [(end - start) * 1e3 for start, end in pairwise(self._marks_s)]


class DeviceClock:
    """The same by events in the device's stream, stamped when the device reaches them; to read the
    times waits for that.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events: list[torch.Event] = []

    def mark(self) -> None:
        event = torch.Event(self._device, enable_timing=True)
        event.record(torch.accelerator.current_stream(self._device))
        self._events.append(event)

    def step_times_ms(self) -> list[float]:
        for event in self._events:
            event.synchronize()
        return [start.elapsed_time(end) for start, end in pairwise(self._events)]


StepClock = HostClock | DeviceClock


def step_clock(device: torch.device) -> StepClock:
    """The clock that belongs to the device."""
    return HostClock() if device.type == "cpu" else DeviceClock(device)


def synchronize(*devices: torch.device) -> None:
    """Wait until the devices have finished everything that was launched; the CPU has nothing
    outstanding.
    """
    for device in devices:
        if device.type != "cpu":
            torch.accelerator.synchronize(device)


def times_in_ms(times_ms: Iterable[float]) -> list[float]:
    """Cut to 0.1 microseconds, what a clock resolves; not rounded, so that steps never exceed their
    epoch.
    """
    return [math.floor(time_ms * 1e4) / 1e4 for time_ms in times_ms]


def mean_time_in_ms(all_ms: float, steps: int) -> float:
    """Mean time of a step; cut to 0.1 nanoseconds, since it may be short."""
    return math.floor(all_ms / steps * 1e7) / 1e7


def float32_values(values: Iterable[float]) -> list[float]:
    """The 7 digits that a single-precision number holds, so that published records stay small."""
    return [float(f"{value:.7g}") for value in values]
