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


def watched(device: Device, *, samples: int = 5, uuid: str = UUID) -> Telemetry | None:
    watch = DeviceWatch({UUID: device}, period_s=0.002)
    began = time.monotonic()
    watch.begin(uuid)
    time.sleep(0.002 * samples)
    watch.end()
    return watch.telemetry([(began, time.monotonic())])


def test_each_list_has_a_value_for_each_moment() -> None:
    telemetry = watched(Steady())
    assert telemetry is not None
    assert telemetry.moments_s
    for name in VALUES:
        assert len(getattr(telemetry, name)) == len(telemetry.moments_s)
    assert telemetry.power_w[0] == 431.3
    assert telemetry.memory_used_before_mib == 2104.3
    assert telemetry.sample_cost_ms >= 0


def test_what_a_device_does_not_show_is_empty_and_not_zero() -> None:
    telemetry = watched(Steady(values={"utilisation_percent": 93.0}))
    assert telemetry is not None
    assert telemetry.utilisation_percent
    assert telemetry.power_w == []


@pytest.mark.parametrize(
    ("counts", "others"),
    [([0, 0], 0), ([0, 1], 0), ([0, 2], 1), ([1, 2], 1), ([1, 1], 1)],
    ids=[
        "no pids seen",
        "ours alone",
        "one came",
        "one was there",
        "one was there and ours is not seen",
    ],
)
def test_processes_beside_the_training_are_those_before_it_or_those_during_it_but_one(
    counts: list[int], others: int
) -> None:
    telemetry = watched(Steady(counts=counts))
    assert telemetry is not None
    assert telemetry.other_processes == others


def test_reasons_for_lower_clocks_are_shares_of_the_samples() -> None:
    telemetry = watched(Steady(reasons=("SwPowerCap",)))
    assert telemetry is not None
    assert telemetry.throttle_reasons == {"SwPowerCap": 1.0}


def test_a_record_holds_no_more_samples_than_a_figure_can_show() -> None:
    telemetry = watched(Steady(), samples=2 * MOST_SAMPLES)
    assert telemetry is not None
    assert len(telemetry.moments_s) <= MOST_SAMPLES
    assert telemetry.moments_s == sorted(telemetry.moments_s)


def test_samples_outside_the_timed_epochs_are_left_out() -> None:
    watch = DeviceWatch({UUID: Steady()}, period_s=0.002)
    watch.begin(UUID)
    time.sleep(0.01)
    watch.end()
    telemetry = watch.telemetry([(time.monotonic(), time.monotonic() + 1.0)])
    assert telemetry is not None
    assert (telemetry.moments_s, telemetry.power_w, telemetry.throttle_reasons) == ([], [], {})


def test_without_a_driver_or_for_another_device_there_is_no_telemetry() -> None:
    assert watched(Steady(), uuid="another") is None
    watch = DeviceWatch({})
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


def test_energy_is_power_over_the_windows_and_nothing_between_them() -> None:
    samples = counter([100.0, 400.0, 400.0, 50.0, 50.0, 400.0, 400.0, 100.0])
    energy_j = energy_within(samples, [(1.5, 2.5), (5.5, 6.5)])
    assert energy_j == pytest.approx(800.0, rel=0.05)


def test_energy_of_less_than_a_second_or_beyond_the_samples_is_unknown() -> None:
    samples = counter([100.0] * 4)
    assert energy_within(samples, [(1.0, 1.9)]) is None
    assert energy_within(samples, [(2.0, 4.5)]) is None
    assert energy_within([], [(0.0, 2.0)]) is None


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


def test_readings_are_in_the_units_of_a_record() -> None:
    reading = NvmlDevice(nvml=Library(), handle=None).read()
    assert (reading.values["power_w"], reading.values["memory_used_mib"], reading.energy_j) == (
        431.276,
        1024,
        5,
    )
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
    assert pynvml.nvmlMemory_v2 == telemetry_module._MEMORY_VERSION_2
    assert (telemetry_module._CLOCK_SM, telemetry_module._CLOCK_MEMORY) == (
        pynvml.NVML_CLOCK_SM,
        pynvml.NVML_CLOCK_MEM,
    )
    assert telemetry_module._SENSOR_CORE == pynvml.NVML_TEMPERATURE_GPU
    for bit, name in telemetry_module._REASONS.items():
        assert (
            getattr(
                pynvml,
                f"nvmlClocksThrottleReason{name}",
                getattr(pynvml, f"nvmlClocksEventReason{name}", 0),
            )
            == bit
        )
