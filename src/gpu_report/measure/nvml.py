"""Readings from NVIDIA's management library (NVML): what the driver measures of a GPU, without PyTorch.

nvidia_devices -> devices by UUID -> Device.read(), processes()
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

_MIB: Final = 2**20
_MEMORY_VERSION_2: Final = 0x02000028
"""`nvmlMemory_v2`, which keeps what the driver has reserved for itself apart; in every driver since 510."""

_CLOCK_SM, _CLOCK_MEMORY, _SENSOR_CORE = 1, 2, 0

_READINGS: Final[Mapping[str, Callable[[Any, Any], float]]] = {
    "utilisation_percent": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "memory_used_mib": lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle, _MEMORY_VERSION_2).used / _MIB,
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
    """One sample: values by the names of Telemetry's lists; what the device does not support is left out, or None."""

    values: Mapping[str, float]
    reasons: tuple[str, ...]
    energy_j: float | None = None
    """Since the driver was loaded; updated about every 0.1 s."""


class Device(Protocol):
    """One GPU, as its driver reports it."""

    def read(self) -> Reading: ...

    def processes(self) -> int:
        """How many processes compute on it now; 0 if unknown. Costs more than all the rest of a sample."""


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


def _initialized_nvml() -> Any:
    """The library; None where it or nvidia-ml-py is missing."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


@contextmanager
def nvidia_devices() -> Iterator[dict[str, Device]]:
    """The devices by their UUID as PyTorch writes it; none without NVIDIA's driver."""
    nvml = _initialized_nvml()
    found: dict[str, Device] = {}
    if nvml is None:
        yield found
        return
    with suppress(nvml.NVMLError):
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            found[str(nvml.nvmlDeviceGetUUID(handle)).removeprefix("GPU-")] = NvmlDevice(nvml=nvml, handle=handle)
    try:
        yield found
    finally:
        nvml.nvmlShutdown()
