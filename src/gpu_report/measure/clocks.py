"""Clocks for single steps: the host's on the CPU, the device's own events on an accelerator, so that no step waits."""

import time
from typing import Protocol

import torch


class StepClock(Protocol):
    """Notes where one step ends and the next begins."""

    def mark(self) -> None:
        """Note a boundary: once before the first step and once after each."""

    def step_times_ms(self) -> list[float]:
        """The times between boundaries; the device must have been synchronised since the last of them."""


class HostClock:
    """Boundaries read off the host's monotonic clock."""

    def __init__(self) -> None:
        self._marks_s: list[float] = []

    def mark(self) -> None:
        self._marks_s.append(time.perf_counter())

    def step_times_ms(self) -> list[float]:
        return [(end - start) * 1e3 for start, end in zip(self._marks_s, self._marks_s[1:], strict=False)]


class DeviceClock:
    """Boundaries as events in the device's stream, stamped when the device gets there and not when it is told to."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events: list[torch.Event] = []

    def mark(self) -> None:
        event = torch.Event(self._device, enable_timing=True)
        event.record()
        self._events.append(event)

    def step_times_ms(self) -> list[float]:
        return [start.elapsed_time(end) for start, end in zip(self._events, self._events[1:], strict=False)]


def step_clock(device: torch.device) -> StepClock:
    """The clock that belongs to the device."""
    return HostClock() if device.type == "cpu" else DeviceClock(device)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all it was told; the CPU has nothing outstanding."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
