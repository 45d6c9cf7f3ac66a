"""Telemetry from the readings of stand-ins for the driver and for its library, since there may be
no device.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gpu_report.measure import telemetry as telemetry_module
from gpu_report.measure.telemetry import (
    MOST_SAMPLES,
    Device,
    DeviceWatch,
    NvmlDevice,
    Reading,
    Sample,
    energy_within,
    nvidia_devices,
)
from gpu_report.records.record import Telemetry

UUID = "4a4b0c39-f00d-4b5c-9d1e-0123456789ab"
VALUES = {
    "utilisation_percent": 93.0,
    "memory_used_mib": 2104.31,
    "power_w": 431.276,
    "sm_clock_mhz": 1755.0,
    "memory_clock_mhz": 2619.0,
    "temperature_c": 51.0,
}


@dataclass(kw_only=True)
class Steady(Device):
    """Tells the same each time; its processes one after the other."""

    values: Mapping[str, float] = field(default_factory=lambda: VALUES)
    reasons: tuple[str, ...] = ()
    counts: list[int] = field(default_factory=lambda: [0, 1])

    def read(self) -> Reading:
        return Reading(values=self.values, reasons=self.reasons, energy_j=1000.0)

    def processes(self) -> int:
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]


def watched(device: Device, *, samples: int = 5) -> Telemetry:
    watch = DeviceWatch({UUID: device}, period_s=0.002)
    began = time.monotonic()
    watch.begin(UUID)
    time.sleep(0.002 * samples)
    watch.end()
    found = watch.telemetry([(began, time.monotonic())])
    assert found is not None
    return found


def test_each_list_has_a_value_for_each_moment_and_what_a_device_does_not_show_is_empty() -> None:
    telemetry = watched(Steady(reasons=("SwPowerCap",)))
    assert telemetry.moments_s
    for name in VALUES:
        assert len(getattr(telemetry, name)) == len(telemetry.moments_s)
    assert telemetry.power_w[0] == 431.3
    assert telemetry.memory_used_before_mib == 2104.3
    assert telemetry.sample_cost_ms >= 0
    assert telemetry.throttle_reasons == {"SwPowerCap": 1.0}

    few = watched(Steady(values={"utilisation_percent": 93.0}))
    assert few.utilisation_percent
    assert few.power_w == []


def test_a_power_of_nothing_is_not_reported() -> None:
    telemetry = watched(Steady(values={"power_w": 0.0, "temperature_c": 40.0}))

    assert telemetry.power_w == []
    assert telemetry.temperature_c


@pytest.mark.parametrize(
    ("counts", "others"), [([0, 0], 0), ([0, 1], 0), ([0, 2], 1), ([1, 2], 1), ([1, 1], 1)]
)
def test_processes_beside_the_training_are_those_before_it_or_those_during_it_but_one(
    counts: list[int], others: int
) -> None:
    assert watched(Steady(counts=counts)).other_processes == others


def test_a_record_holds_no_more_samples_than_a_figure_can_show() -> None:
    moments_s = watched(Steady(), samples=2 * MOST_SAMPLES).moments_s
    assert len(moments_s) <= MOST_SAMPLES
    assert moments_s == sorted(moments_s)


def test_samples_outside_the_timed_epochs_are_left_out() -> None:
    watch = DeviceWatch({UUID: Steady()}, period_s=0.002)
    watch.begin(UUID)
    time.sleep(0.01)
    watch.end()
    telemetry = watch.telemetry([(time.monotonic(), time.monotonic() + 1.0)])
    assert telemetry is not None
    assert (telemetry.moments_s, telemetry.power_w, telemetry.throttle_reasons) == ([], [], {})


@pytest.mark.parametrize("devices", [{}, {"another": Steady()}])
def test_without_a_driver_or_for_another_device_there_is_no_telemetry(
    devices: dict[str, Device],
) -> None:
    watch = DeviceWatch(devices)
    watch.begin(UUID)
    watch.end()
    assert watch.telemetry([(0.0, 1.0)]) is None


def test_a_machine_without_nvidia_s_driver_has_no_devices_and_no_error() -> None:
    with nvidia_devices() as devices:
        assert all(device.read().values for device in devices.values())


def counter(
    power_w: Sequence[float], *, update_s: float = 0.1, period_s: float = 0.03
) -> list[Sample]:
    """Samples of a device that drew one of these powers each second, and counts its energy ten
    times a second.
    """
    samples = []
    for number in range(int(len(power_w) / period_s)):
        moment_s = number * period_s
        updates = int(moment_s / update_s + 1e-9)
        energy_j = sum(
            power_w[int(update * update_s + 1e-9)] * update_s for update in range(updates)
        )
        reading = Reading(values={}, reasons=(), energy_j=round(energy_j, 6))
        samples.append(Sample(moment_s=moment_s, cost_s=0.001, reading=reading))
    return samples


@pytest.mark.parametrize(
    ("windows", "energy_j"),
    [
        ([(1.5, 2.5), (5.5, 6.5)], pytest.approx(800.0, rel=0.05)),
        ([(1.0, 1.9)], None),
        ([(6.0, 8.5)], None),
    ],
    ids=["nothing between the windows", "less than a second", "beyond the samples"],
)
def test_energy_is_power_over_the_windows(
    windows: list[tuple[float, float]], energy_j: float | None
) -> None:
    samples = counter([100.0, 400.0, 400.0, 50.0, 50.0, 400.0, 400.0, 100.0])
    assert energy_within(samples, windows) == energy_j
    assert energy_within([], windows) is None


class Library(SimpleNamespace):
    """Answers each question as a device with nothing to do would, except for what it does not
    support.
    """

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


def test_readings_are_in_the_units_of_a_record_and_reasons_are_named() -> None:
    device = NvmlDevice(nvml=Library(), handle=None)
    reading = device.read()
    assert (reading.values["power_w"], reading.values["memory_used_mib"]) == (431.276, 1024)
    assert (reading.energy_j, reading.reasons, device.processes()) == (5, (), 2)
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
    ours = telemetry_module
    assert pynvml.nvmlMemory_v2 == ours._MEMORY_VERSION_2
    assert pynvml.NVML_CLOCK_SM == ours._CLOCK_SM
    assert pynvml.NVML_CLOCK_MEM == ours._CLOCK_MEMORY
    assert pynvml.NVML_TEMPERATURE_GPU == ours._SENSOR_CORE
    for bit, name in ours._REASONS.items():
        older = getattr(pynvml, f"nvmlClocksEventReason{name}", 0)
        assert getattr(pynvml, f"nvmlClocksThrottleReason{name}", older) == bit
