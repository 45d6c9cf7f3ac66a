"""Telemetry: the process that waits for a training polls the device's driver many times a second.

watch_device -> DeviceWatch: begin (a thread samples) -> end -> telemetry(windows of the timed epochs)
"""

import statistics
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from gpu_report.measure.nvml import Device, Reading, nvidia_devices
from gpu_report.records import Telemetry

PERIOD_S: Final = 0.05
"""Half the update period of the energy counter; finer samples add no information."""

SHORTEST_ENERGY_S: Final = 1.0
"""The energy counter moves about every 0.1 s, which is too large a share of anything below a second."""

MOST_SAMPLES: Final = 200
"""In a record; more make it large and a figure no clearer."""

_SAMPLES_PER_COUNT: Final = 20
_DECIMALS: Final = {
    "utilisation_percent": 0,
    "memory_used_mib": 0,
    "power_w": 1,
    "sm_clock_mhz": 0,
    "memory_clock_mhz": 0,
    "temperature_c": 0,
}
"""By list of a Telemetry: as many as the driver reports."""

Windows = Sequence[tuple[float, float]]
"""Begin and end of periods, on `time.monotonic`."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A reading, when it was asked for on `time.monotonic`, and how long the answer took."""

    moment_s: float
    cost_s: float
    reading: Reading


class DeviceWatch:
    """Samples one of these devices from the moment its UUID is known; does nothing for any other device."""

    def __init__(self, devices: Mapping[str, Device], *, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._devices = devices
        self._before = {uuid: (device.processes(), device.read()) for uuid, device in self._devices.items()}
        self._uuid = ""
        self._samples: list[Sample] = []
        self._processes: list[int] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, uuid: str) -> None:
        """Sample from now on, in a thread."""
        device = self._devices.get(uuid)
        if device is None or self._thread:
            return
        self._uuid = uuid
        self._thread = threading.Thread(target=self._sample, args=(device,), name="telemetry", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Sample no more; may be called again."""
        self._ended.set()
        if self._thread:
            self._thread.join()

    def telemetry(self, timed: Windows) -> Telemetry | None:
        """What was sampled inside these windows; None where nothing was sampled at all."""
        if not (self._samples and timed):
            return None
        processes_before, reading_before = self._before[self._uuid]
        inside = [sample for sample in self._samples if any(begin <= sample.moment_s < end for begin, end in timed)]
        kept = _thinned(inside)
        series: dict[str, Any] = {name: _series(kept, name) for name in _DECIMALS}
        return Telemetry(
            period_s=self._period_s,
            sample_cost_ms=round(statistics.median(sample.cost_s for sample in self._samples) * 1e3, 3),
            moments_s=[round(sample.moment_s - timed[0][0], 3) for sample in kept],
            **series,
            throttle_reasons=_shares_of_reasons(inside),
            energy_j=energy_within(self._samples, timed),
            # Inside a container process numbers do not identify their owner, so one of them is taken to be ours.
            other_processes=max(processes_before, *(count - 1 for count in self._processes), 0),
            memory_used_before_mib=round(reading_before.values.get("memory_used_mib", 0.0), 1),
        )

    def _sample(self, device: Device) -> None:
        while True:
            asked_s = time.monotonic()
            reading = device.read()
            self._samples.append(Sample(moment_s=asked_s, cost_s=time.monotonic() - asked_s, reading=reading))
            if len(self._samples) % _SAMPLES_PER_COUNT == 1:
                self._processes.append(device.processes())
            if self._ended.wait(max(asked_s + self._period_s - time.monotonic(), 0.0)):
                return


@contextmanager
def watch_device(device_type: str) -> Iterator[DeviceWatch]:
    """A watch over the devices as they are now, before a training touches one; it has ended when this is left."""
    with ExitStack() as stack:
        watch = DeviceWatch(stack.enter_context(nvidia_devices()) if device_type == "cuda" else {})
        stack.callback(watch.end)
        yield watch


def energy_within(samples: Sequence[Sample], windows: Windows) -> float | None:
    """Joules used inside the windows, from the total-energy counter between the moments when it was seen to move.

    Each end of a window is known to about 0.1 s times the power's change there. None where the windows together are
    shorter than `SHORTEST_ENERGY_S`, reach beyond what was sampled, or the device has no counter.
    """
    if sum(end - begin for begin, end in windows) < SHORTEST_ENERGY_S:
        return None
    moved = _moves(samples)
    if len(moved) < 2 or windows[0][0] < moved[0][0] or windows[-1][1] > moved[-1][0]:
        return None
    return round(sum(_counter_at(end, moved) - _counter_at(begin, moved) for begin, end in windows), 1)


def _moves(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Moment and value of the counter each time a sample was the first to see that value."""
    moved: list[tuple[float, float]] = []
    for sample in samples:
        energy_j = sample.reading.energy_j
        if energy_j is not None and (not moved or energy_j != moved[-1][1]):
            moved.append((sample.moment_s, energy_j))
    return moved


def _counter_at(moment_s: float, moved: Sequence[tuple[float, float]]) -> float:
    """Interpolated; the moment is between the first and the last move."""
    after = min(bisect_right(moved, moment_s, key=lambda move: move[0]), len(moved) - 1)
    (begin_s, begin_j), (end_s, end_j) = moved[after - 1], moved[after]
    return begin_j + (end_j - begin_j) * (moment_s - begin_s) / (end_s - begin_s)


def _thinned(samples: list[Sample]) -> list[Sample]:
    if len(samples) <= MOST_SAMPLES:
        return samples
    apart = (len(samples) - 1) / (MOST_SAMPLES - 1)
    return [samples[round(place * apart)] for place in range(MOST_SAMPLES)]


def _series(samples: Sequence[Sample], name: str) -> list[float]:
    """Empty where one of the samples lacks the value."""
    values = [sample.reading.values[name] for sample in samples if name in sample.reading.values]
    return [round(value, _DECIMALS[name]) for value in values] if len(values) == len(samples) else []


def _shares_of_reasons(samples: Sequence[Sample]) -> dict[str, float]:
    counts = Counter(reason for sample in samples for reason in sample.reading.reasons)
    return {reason: round(count / len(samples), 4) for reason, count in sorted(counts.items())}
