"""Measuring on an accelerator: the same names and records as on the CPU, with the device's own
clock and memory.
"""

import gzip
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_report.measure.probe import probe
from gpu_report.measure.variant_run import measure_variant
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.memory import ALLOCATIONS
from gpu_report.traces.steps import STEPS as STEPS_TABLE
from gpu_report.traces.tables import tabulate_trace_of

CNN = "gpu_report.workloads.cnn:CNNClassification"
CNN_SETTINGS = {"data": "synthetic", "train_samples": 256, "test_samples": 64}
TINY = "tests.unit.measure.tiny_workloads"
EPOCHS, STEPS, BATCH_SIZE, PROFILE_STEPS = 3, 4, 16, 3


def backend() -> str:
    accelerator = torch.accelerator.current_accelerator()
    assert accelerator is not None
    return accelerator.type


def measurement(
    *, device: str, class_path: str = CNN, workers: int = 0, **settings: Any
) -> Measurement:
    is_cnn = class_path == CNN
    return Measurement(
        variant=Variant(
            workload="cnn" if is_cnn else "tiny",
            size="small" if is_cnn else "default",
            device=device,
            batch_size=BATCH_SIZE,
            workers=workers,
            epochs=EPOCHS,
            steps_per_epoch=STEPS,
        ),
        workload=Workload(
            name="cnn", class_path=class_path, settings=settings or (CNN_SETTINGS if is_cnn else {})
        ),
        protocol=Protocol(
            repetitions=2, profile_steps=PROFILE_STEPS, timed_epochs=1, timed_seconds=0
        ),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measured")


@pytest.fixture(scope="module")
def record(folder: Path) -> Record:
    return measure_variant(
        measurement(device=backend()),
        machine="here",
        trace_folder=folder / "trace",
        rich_trace_folder=folder / "rich_trace",
    )


@pytest.fixture(scope="module")
def cpu_record(folder: Path) -> Record:
    return measure_variant(
        measurement(device="cpu"), machine="here", trace_folder=folder / "cpu_trace"
    )


def test_the_probe_names_every_accelerator() -> None:
    found = probe()
    assert len(found["accelerators"]) == torch.accelerator.device_count()
    assert found["reason"] == ""
    for accelerator in found["accelerators"]:
        assert accelerator["backend"] == backend()
        assert accelerator["name"]
        assert accelerator["memory_gib"] > 0


def test_the_record_has_the_form_of_one_from_the_cpu(
    record: Record, cpu_record: Record, tmp_path: Path
) -> None:
    assert (record.status, cpu_record.status) == ("ok", "ok")
    assert record.variant == cpu_record.variant.replace("-cpu-", f"-{backend()}-")
    assert record.workload == cpu_record.workload
    RECORD_FILE.write(record, tmp_path / "record.json")
    assert RECORD_FILE.read(tmp_path / "record.json") == record


def test_training_begins_from_the_same_weights_and_data_as_on_the_cpu(
    record: Record, cpu_record: Record
) -> None:
    for here, on_cpu in zip(record.repetitions, cpu_record.repetitions, strict=True):
        first, first_on_cpu = here.epochs[0].train_losses[0], on_cpu.epochs[0].train_losses[0]
        assert math.isclose(first, first_on_cpu, rel_tol=1e-4)


def test_steps_are_timed_by_the_device_and_add_up_to_the_epoch(record: Record) -> None:
    for repetition in record.repetitions:
        for epoch in repetition.epochs:
            assert len(epoch.step_times_ms) == STEPS
            assert all(step_ms > 0 for step_ms in epoch.step_times_ms)
            assert sum(epoch.step_times_ms) <= epoch.wall_time_s * 1e3 * 1.01


def test_memory_is_that_of_the_allocator(record: Record) -> None:
    for repetition in record.repetitions:
        assert repetition.memory_baseline_mib == 0
        assert 0 < repetition.memory_peak_mib < 1024


def test_the_environment_names_the_accelerator(record: Record) -> None:
    assert record.environment["accelerator"] == probe()["accelerators"][0]["name"]
    if backend() == "cuda":
        assert record.environment["cuda"]
        assert record.environment["driver"]


def test_the_trace_holds_kernels_and_steps(record: Record, folder: Path) -> None:
    assert record.profile is not None
    text = gzip.decompress((folder / "trace" / record.profile.trace_file).read_bytes()).decode()
    assert '"rank": 0' in text
    categories = Counter(event.get("cat") for event in json.loads(text)["traceEvents"])
    assert categories["kernel"] > 0
    steps = [name for name in _names(text) if name.startswith("ProfilerStep#")]
    assert len(set(steps)) == PROFILE_STEPS


def test_times_come_from_the_light_trace_and_modules_and_memory_from_the_rich_one(
    record: Record, folder: Path
) -> None:
    rows = tabulate_trace_of(record, folder / "trace", folder / "rich_trace")
    convolutions = [row for row in rows[KERNELS] if row["category"] == "convolution"]

    assert len(rows[STEPS_TABLE]) == PROFILE_STEPS
    assert {row["module"].partition("_")[0] for row in convolutions} == {"Conv2d"}
    assert any(
        "conv" in row["operation"] for row in rows[ALLOCATIONS] if row["device"] == backend()
    )


def _names(text: str) -> list[str]:
    return [
        event["name"]
        for event in json.loads(text)["traceEvents"]
        if event.get("cat") == "user_annotation"
    ]


def test_no_process_begins_with_an_accelerator_touched(tmp_path: Path) -> None:
    note = tmp_path / "seen"
    asked = measurement(device="cpu", class_path=f"{TINY}:WritesWhatItSees", note=str(note))
    assert measure_variant(asked, machine="here", trace_folder=tmp_path / "trace").status == "ok"
    assert "accelerator touched: True" not in note.read_text().splitlines()


def test_running_out_of_memory_is_survived_and_says_what_was_asked(tmp_path: Path) -> None:
    asked = measurement(device=backend(), class_path=f"{TINY}:WantsTooMuch")
    record = measure_variant(asked, machine="here", trace_folder=tmp_path / "trace")
    assert record.status == "oom"
    assert "GiB" in record.reason
    again = measure_variant(
        measurement(device=backend()), machine="here", trace_folder=tmp_path / "trace"
    )
    assert again.status == "ok"


def test_loader_workers_feed_an_accelerator(tmp_path: Path) -> None:
    record = measure_variant(
        measurement(device=backend(), workers=2), machine="here", trace_folder=tmp_path / "trace"
    )
    assert record.status == "ok"


def test_an_accelerator_beyond_the_last_is_skipped(tmp_path: Path) -> None:
    beyond = f"{backend()}:{torch.accelerator.device_count()}"
    record = measure_variant(
        measurement(device=beyond), machine="here", trace_folder=tmp_path / "trace"
    )
    assert record.status == "skipped"
    assert "counts" in record.reason


def test_fp32_is_ieee_on_the_device(tmp_path: Path) -> None:
    asked = measurement(device=backend(), class_path=f"{TINY}:MultipliesBigMatrices")
    record = measure_variant(asked, machine="here", trace_folder=tmp_path / "trace")
    assert (record.status, record.reason) == ("ok", "")
