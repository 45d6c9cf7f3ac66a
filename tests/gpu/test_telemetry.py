"""What is known of an NVIDIA device beside the times: telemetry, work, the allocator, and memory
that ran out.
"""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_report.measure.operation_counts import count_work
from gpu_report.measure.telemetry import nvidia_devices
from gpu_report.measure.training import build_training
from gpu_report.measure.variant_run import measure_variant
from gpu_report.records.record import Record, Telemetry
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from gpu_report.workloads.lstm import LSTMClassification

TINY = "tests.unit.measure.tiny_workloads"
CNN = "gpu_report.workloads.cnn:CNNClassification"
CNN_SETTINGS: dict[str, Any] = {"data": "synthetic", "train_samples": 256, "test_samples": 64}
STEPS, BATCH_SIZE = 10, 16
TIMED_S = 2 * STEPS * 0.07
"""Of the two timed epochs of the workload that sleeps in every step, at least."""


pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="PyTorch finds no CUDA device here"
)


def measurement(
    class_name: str, *, workload: str = "tiny", options: str = "none", **settings: Any
) -> Measurement:
    is_cnn = class_name == CNN
    return Measurement(
        variant=Variant(
            workload=workload,
            size="small" if is_cnn else "default",
            device="cuda",
            batch_size=BATCH_SIZE,
            epochs=3,
            steps_per_epoch=STEPS,
            options=options,
        ),
        workload=Workload(name=workload, class_path=class_name, settings=settings),
        protocol=Protocol(repetitions=1, profile_steps=2, timed_epochs=1, timed_seconds=0),
    )


def measured(folder: Path, asked: Measurement) -> Record:
    return measure_variant(
        asked, machine="here", trace_folder=folder / "trace", memory_folder=folder / "memory"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measured")


@pytest.fixture(scope="module")
def slow_record(folder: Path) -> Record:
    return measured(folder / "slow", measurement(f"{TINY}:TakesItsTime"))


@pytest.fixture
def telemetry(slow_record: Record) -> Telemetry:
    with nvidia_devices() as devices:
        if not devices:
            pytest.skip("NVIDIA's driver cannot be asked here")
    assert (slow_record.status, slow_record.reason) == ("ok", "")
    found = slow_record.repetitions[0].telemetry
    assert found is not None
    return found


def test_telemetry_covers_the_timed_epochs(telemetry: Telemetry) -> None:
    assert len(telemetry.moments_s) >= TIMED_S / telemetry.period_s / 4
    assert telemetry.moments_s == sorted(telemetry.moments_s)
    assert telemetry.moments_s[0] >= 0
    for values in (
        telemetry.power_w,
        telemetry.sm_clock_mhz,
        telemetry.memory_clock_mhz,
        telemetry.temperature_c,
    ):
        assert len(values) == len(telemetry.moments_s)
        assert min(values) > 0
    assert max(telemetry.memory_used_mib) > telemetry.memory_used_before_mib


def test_energy_is_about_the_power_over_the_time(slow_record: Record, telemetry: Telemetry) -> None:
    timed_s = sum(epoch.wall_time_s for epoch in slow_record.repetitions[0].epochs[1:])
    mean_w = sum(telemetry.power_w) / len(telemetry.power_w)
    assert telemetry.energy_j is not None
    assert 0.5 < telemetry.energy_j / (mean_w * timed_s) < 2


def test_a_training_is_no_process_beside_itself(telemetry: Telemetry) -> None:
    """The process of the tests is one, once a test has trained in it."""
    assert telemetry.other_processes == int(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def cnn_record(folder: Path) -> Record:
    return measured(folder / "cnn", measurement(CNN, workload="cnn", **CNN_SETTINGS))


def test_the_allocator_hands_out_no_more_than_it_took(cnn_record: Record) -> None:
    assert cnn_record.profile is not None
    allocator = cnn_record.profile.allocator
    assert allocator is not None
    assert (
        0 < allocator.allocated_peak_mib <= allocator.active_peak_mib <= allocator.reserved_peak_mib
    )
    assert allocator.allocations > 0
    assert allocator.retries == 0


@pytest.mark.parametrize("options", ["none", "graphs", "resident"])
def test_the_snapshot_shows_which_line_asked_for_memory(tmp_path: Path, options: str) -> None:
    record = measured(tmp_path, measurement(CNN, workload="cnn", options=options, **CNN_SETTINGS))
    assert (record.status, record.reason) == ("ok", "")
    assert record.profile is not None
    path = tmp_path / "memory" / record.profile.memory_snapshot_file
    snapshot = pickle.loads(path.read_bytes())
    events = [event for trace in snapshot["device_traces"] for event in trace]
    assert "alloc" in {event["action"] for event in events}
    files = {Path(frame["filename"]).name for event in events for frame in event.get("frames", [])}
    assert "training.py" in files
    assert path.stat().st_size < 32 * 2**20


def test_a_convolution_is_counted_on_the_device(cnn_record: Record) -> None:
    assert cnn_record.profile is not None
    work = cnn_record.profile.work
    assert work is not None
    assert {"aten::convolution", "aten::convolution_backward"} <= work.flops_by_operator.keys()
    assert work.flops > 0
    assert work.bytes > 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_cudnn_s_recurrent_layers_take_the_operations_of_the_cpu_s(precision: str) -> None:
    flops = []
    for device in ("cpu", "cuda"):
        variant = Variant(
            workload="lstm", device=device, batch_size=BATCH_SIZE, epochs=2, precision=precision
        )
        workload = LSTMClassification(size="default", seed=0)
        training = build_training(
            workload, variant, device=torch.device(device), seed=0, steps_per_epoch=2
        )
        work = count_work(training)
        assert work is not None
        flops.append(work.flops)
    assert flops[0] == pytest.approx(flops[1], rel=0.01)


def test_a_device_that_is_full_is_out_of_memory_and_is_empty_again_for_the_next(
    tmp_path: Path,
) -> None:
    full = measured(tmp_path, measurement(f"{TINY}:FillsTheDevice"))
    assert full.status == "oom"
    assert full.out_of_memory is not None
    assert full.out_of_memory.asked_mib == 1024
    assert full.out_of_memory.free_mib is not None
    assert full.out_of_memory.free_mib < 1024 < full.out_of_memory.total_mib
    assert list((tmp_path / "memory").iterdir()) == []

    after = measured(tmp_path, measurement(f"{TINY}:Tiny"))
    assert (after.status, after.reason) == ("ok", "")


def test_memory_that_runs_out_while_a_step_is_captured_is_named_as_such(tmp_path: Path) -> None:
    captured = measured(tmp_path, measurement(f"{TINY}:WantsTooMuchWhenCaptured", options="graphs"))
    assert captured.status == "oom"
    assert captured.out_of_memory is not None
    assert captured.out_of_memory.asked_mib == 2**30


def test_memory_that_runs_out_in_the_profiled_run_costs_the_profile_alone(tmp_path: Path) -> None:
    record = measured(tmp_path, measurement(f"{TINY}:WantsTooMuchWhenProfiled"))
    assert (record.status, record.profile, len(record.repetitions)) == ("ok", None, 1)
    assert list((tmp_path / "memory").iterdir()) == []
