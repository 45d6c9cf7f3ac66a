"""Telemetry: the process that waits for a training polls NVIDIA's driver (NVML) many times a
second, without PyTorch.

watch_device -> DeviceWatch: begin (a thread samples) -> end -> telemetry(windows of the timed
epochs) https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

import statistics
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gpu_report.records.record import Telemetry

PERIOD_S: Final = 0.05
"""Half the update period of the energy counter; finer samples add no information."""

SHORTEST_ENERGY_S: Final = 1.0
"""The energy counter moves about every 0.1 s, which is too large a share of anything below a
second.
"""

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

_MIB: Final = 2**20
_MEMORY_VERSION_2: Final = 0x02000028
"""`nvmlMemory_v2`, which keeps what the driver has reserved for itself apart; in every driver since
510.
"""

_CLOCK_SM, _CLOCK_MEMORY, _SENSOR_CORE = 1, 2, 0

_READINGS: Final[Mapping[str, Callable[[Any, Any], float]]] = {
    "utilisation_percent": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "memory_used_mib": lambda nvml, handle: (
        nvml.nvmlDeviceGetMemoryInfo(handle, _MEMORY_VERSION_2).used / _MIB
    ),
    "power_w": lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
    "sm_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, _CLOCK_SM),
    "memory_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, _CLOCK_MEMORY),
    "temperature_c": lambda nvml, handle: nvml.nvmlDeviceGetTemperature(handle, _SENSOR_CORE),
    "energy_j": lambda nvml, handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3,
    "reasons": lambda nvml, handle: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
    "processes": lambda nvml, handle: len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)),
}

_REASONS: Final[Mapping[int, str]] = {
    0x002: "ApplicationsClocksSetting",
    0x004: "SwPowerCap",
    0x008: "HwSlowdown",
    0x010: "SyncBoost",
    0x020: "SwThermalSlowdown",
    0x040: "HwThermalSlowdown",
    0x080: "HwPowerBrakeSlowdown",
    0x100: "DisplayClockSetting",
}
"""Bits of nvmlClocksEventReasons; 0x001, an idle device, is left out, since no work runs then."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One sample: values by the names of Telemetry's lists; what the device does not support is
    left out, or None.
    """

    values: Mapping[str, float]
    reasons: tuple[str, ...]
    energy_j: float | None = None
    """Since the driver was loaded; updated about every 0.1 s."""


class Device(Protocol):
    """One GPU, as its driver reports it."""

    def read(self) -> Reading: ...

    def processes(self) -> int:
        """How many processes compute on it now; 0 if unknown. Costs more than all the rest of a
        sample.
        """


@dataclass(kw_only=True)
class NvmlDevice:
    """A device that is not polled again for what it does not support."""

    nvml: Any
    handle: Any
    unknown: set[str] = field(default_factory=set)

    def read(self) -> Reading:
        found = {name: self._ask(name) for name in _READINGS if name != "processes"}
        energy_j, reasons = found.pop("energy_j"), int(found.pop("reasons") or 0)
        return Reading(
            values={name: value for name, value in found.items() if value is not None},
            reasons=tuple(name for bit, name in _REASONS.items() if reasons & bit),
            energy_j=energy_j,
        )

    def processes(self) -> int:
        return int(self._ask("processes") or 0)

    def _ask(self, name: str) -> float | None:
        if name in self.unknown:
            return None
        try:
            return _READINGS[name](self.nvml, self.handle)
        except self.nvml.NVMLError:
            self.unknown.add(name)
            return None


def initialized_nvml() -> Any:
    """The library; None where it or nvidia-ml-py is missing."""
    with suppress(ImportError):
        import pynvml

        with suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            return pynvml
    return None


@contextmanager
def nvidia_devices() -> Iterator[dict[str, Device]]:
    """The devices by their UUID as PyTorch writes it; none without NVIDIA's driver."""
    nvml = initialized_nvml()
    found: dict[str, Device] = {}
    if nvml is None:
        yield found
        return
    with suppress(nvml.NVMLError):
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            found[str(nvml.nvmlDeviceGetUUID(handle)).removeprefix("GPU-")] = NvmlDevice(
                nvml=nvml, handle=handle
            )
    try:
        yield found
    finally:
        nvml.nvmlShutdown()


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A reading, when it was asked for on `time.monotonic`, and how long the answer took."""

    moment_s: float
    cost_s: float
    reading: Reading


class DeviceWatch:
    """Samples one of these devices from the moment its UUID is known; does nothing for any other
    device.
    """

    def __init__(self, devices: Mapping[str, Device], *, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._devices = devices
        self._before = {
            uuid: (device.processes(), device.read()) for uuid, device in self._devices.items()
        }
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
        self._thread = threading.Thread(
            target=self._sample, args=(device,), name="telemetry", daemon=True
        )
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
        inside = [
            sample
            for sample in self._samples
            if any(begin <= sample.moment_s < end for begin, end in timed)
        ]
        reasons = Counter(reason for sample in inside for reason in sample.reading.reasons)
        kept = _thinned(inside)
        series: dict[str, Any] = {name: _series(kept, name) for name in _DECIMALS}
        if not any(series["power_w"]):
            series["power_w"] = []  # no device draws nothing: the driver of a share of one says 0
        return Telemetry(
            period_s=self._period_s,
            sample_cost_ms=round(
                statistics.median(sample.cost_s for sample in self._samples) * 1e3, 3
            ),
            moments_s=[round(sample.moment_s - timed[0][0], 3) for sample in kept],
            **series,
            throttle_reasons={
                reason: round(count / len(inside), 4) for reason, count in sorted(reasons.items())
            },
            energy_j=energy_within(self._samples, timed),
            # Inside a container process numbers do not identify their owner, so one of them is
            # taken to be ours.
            other_processes=max(processes_before, *(count - 1 for count in self._processes), 0),
            memory_used_before_mib=round(reading_before.values.get("memory_used_mib", 0.0), 1),
        )

    def _sample(self, device: Device) -> None:
        while True:
            asked_s = time.monotonic()
            reading = device.read()
            self._samples.append(
                Sample(moment_s=asked_s, cost_s=time.monotonic() - asked_s, reading=reading)
            )
            if len(self._samples) % _SAMPLES_PER_COUNT == 1:
                self._processes.append(device.processes())
            if self._ended.wait(max(asked_s + self._period_s - time.monotonic(), 0.0)):
                return


@contextmanager
def watch_device(device_type: str) -> Iterator[DeviceWatch]:
    """A watch over the devices as they are now, before a training touches one; it has ended when
    this is left.
    """
    with ExitStack() as stack:
        watch = DeviceWatch(stack.enter_context(nvidia_devices()) if device_type == "cuda" else {})
        stack.callback(watch.end)
        yield watch


def energy_within(samples: Sequence[Sample], windows: Windows) -> float | None:
    """Joules used inside the windows, from the total-energy counter between the moments when it was
    seen to move.

    Each end of a window is known to about 0.1 s times the power's change there. None where the
    windows together are shorter than `SHORTEST_ENERGY_S`, reach beyond what was sampled, or the
    device has no counter.
    """
    if sum(end - begin for begin, end in windows) < SHORTEST_ENERGY_S:
        return None
    moved = _moves(samples)
    if len(moved) < 2 or windows[0][0] < moved[0][0] or windows[-1][1] > moved[-1][0]:
        return None
    return round(
        sum(_counter_at(end, moved) - _counter_at(begin, moved) for begin, end in windows), 1
    )


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
    return (
        [round(value, _DECIMALS[name]) for value in values] if len(values) == len(samples) else []
    )
