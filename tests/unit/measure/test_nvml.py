"""Readings of NVIDIA's library, from a stand-in for it, since there may be no device."""

from types import SimpleNamespace
from typing import Any

import pynvml

from gpu_report.measure.nvml import NvmlDevice


class Library(SimpleNamespace):
    """Answers each question as a device with nothing to do would, except for what it does not support."""

    NVMLError = pynvml.NVMLError

    def __init__(self, *, unsupported: str = "", reasons: int = 1) -> None:
        super().__init__(unsupported=unsupported, reasons=reasons, asked=[])

    def __getattr__(self, question: str) -> Any:
        def answer(*_: Any) -> Any:
            self.asked.append(question)
            if question == self.unsupported:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return _ANSWERS.get(question, self.reasons)

        return answer


_ANSWERS: dict[str, Any] = {
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=93),
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=2**30),
    "nvmlDeviceGetPowerUsage": 431_276,
    "nvmlDeviceGetClockInfo": 1755,
    "nvmlDeviceGetTemperature": 51,
    "nvmlDeviceGetTotalEnergyConsumption": 5_000,
    "nvmlDeviceGetComputeRunningProcesses": [object(), object()],
}


def test_readings_are_in_the_units_of_a_record() -> None:
    reading = NvmlDevice(nvml=Library(), handle=None).read()
    assert (reading.values["power_w"], reading.values["memory_used_mib"], reading.energy_j) == (431.276, 1024, 5)
    assert NvmlDevice(nvml=Library(), handle=None).processes() == 2


def test_reasons_are_named_and_an_idle_device_has_none() -> None:
    assert NvmlDevice(nvml=Library(reasons=0x1), handle=None).read().reasons == ()
    both = NvmlDevice(nvml=Library(reasons=0x1 | 0x4 | 0x20), handle=None).read()
    assert both.reasons == ("SwPowerCap", "SwThermalSlowdown")


def test_what_a_device_does_not_support_is_left_out_and_not_asked_again() -> None:
    library = Library(unsupported="nvmlDeviceGetPowerUsage")
    device = NvmlDevice(nvml=library, handle=None)
    readings = [device.read(), device.read()]
    assert all("power_w" not in reading.values for reading in readings)
    assert library.asked.count("nvmlDeviceGetPowerUsage") == 1
    assert library.asked.count("nvmlDeviceGetTemperature") == 2


def test_constants_are_those_of_the_library() -> None:
    from gpu_report.measure import nvml

    assert pynvml.nvmlMemory_v2 == nvml._MEMORY_VERSION_2
    assert (nvml._CLOCK_SM, nvml._CLOCK_MEMORY) == (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM)
    assert nvml._SENSOR_CORE == pynvml.NVML_TEMPERATURE_GPU
    for bit, name in nvml._REASONS.items():
        assert (
            getattr(pynvml, f"nvmlClocksThrottleReason{name}", getattr(pynvml, f"nvmlClocksEventReason{name}", 0))
            == bit
        )
