"""Measuring a variant, from the call to the record, with processes that really start, train and
die.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpu_report.measure.processes import MeasurementInterruptedError
from gpu_report.measure.run import RICH_STEPS, Progress
from gpu_report.measure.variant_run import measure_variant
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from gpu_report.traces.reading import read_trace
from gpu_report.workloads.protocol import WorkloadError
from tests.perfetto import complaints, partial_overlaps

WORKLOADS = "tests.unit.measure.tiny_workloads"
_MEASURE = """
import sys
from pydantic import TypeAdapter
from pathlib import Path
from gpu_report.study.study import Measurement
from gpu_report.measure.variant_run import measure_variant
asked = TypeAdapter(Measurement).validate_json(sys.argv[1])
measure_variant(asked, machine="here", trace_folder=Path(sys.argv[2]))
"""
EPOCHS, STEPS, BATCH_SIZE, REPETITIONS, PROFILE_STEPS = 3, 4, 4, 2, 2


def measurement(
    class_name: str = "Tiny", *, device: str = "cpu", workers: int = 0, **settings: Any
) -> Measurement:
    return Measurement(
        variant=Variant(
            workload="tiny",
            device=device,
            batch_size=BATCH_SIZE,
            workers=workers,
            epochs=EPOCHS,
            steps_per_epoch=STEPS,
        ),
        workload=Workload(name="tiny", class_path=f"{WORKLOADS}:{class_name}", settings=settings),
        protocol=Protocol(
            repetitions=REPETITIONS, profile_steps=PROFILE_STEPS, timed_epochs=1, timed_seconds=0
        ),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measured")


@pytest.fixture(scope="module")
def record(folder: Path) -> Record:
    for name in ("trace", "rich_trace", "memory"):
        (folder / name).mkdir()
        (folder / name / "left_over").touch()
    return measure_variant(
        measurement("WritesWhatItSees", note=str(folder / "seen")),
        machine="here",
        trace_folder=folder / "trace",
        rich_trace_folder=folder / "rich_trace",
        memory_folder=folder / "memory",
    )


@pytest.fixture(scope="module")
def seen(record: Record, folder: Path) -> list[str]:
    assert record.status == "ok"
    return (folder / "seen").read_text().splitlines()


def test_a_variant_is_trained_in_every_repetition_and_profiled_once(record: Record) -> None:
    assert (record.status, record.reason) == ("ok", "")
    assert record.provenance.measuring_s is not None
    assert record.provenance.measuring_s > sum(
        repetition.training_wall_s for repetition in record.repetitions
    )
    assert [repetition.seed for repetition in record.repetitions] == [0, 1]
    assert record.profile is not None
    assert len(record.profile.step_times_ms) == PROFILE_STEPS


def test_the_steps_of_an_epoch_add_up_to_its_wall_time(record: Record) -> None:
    for repetition in record.repetitions:
        for epoch in repetition.epochs:
            assert epoch.samples == STEPS * BATCH_SIZE
            assert (
                len(epoch.step_times_ms)
                == len(epoch.data_wait_ms)
                == len(epoch.train_losses)
                == STEPS
            )
            assert sum(epoch.data_wait_ms) < sum(epoch.step_times_ms) <= epoch.wall_time_s * 1e3


def test_every_run_has_a_process_of_its_own_that_touched_no_accelerator(seen: list[str]) -> None:
    processes = {line for line in seen if line.startswith("process: ")}
    assert len(processes) == REPETITIONS + 1
    assert "accelerator touched: True" not in seen


def test_the_profiler_is_on_in_the_profiled_run_only(seen: list[str]) -> None:
    switch = [line.endswith("True") for line in seen if line.startswith("profiler on: ")]
    losses_per_repetition = EPOCHS * (STEPS + 2)
    assert not any(switch[: REPETITIONS * losses_per_repetition])
    assert switch[-PROFILE_STEPS:] == [True] * PROFILE_STEPS


def test_memory_is_that_of_the_training_process(record: Record) -> None:
    for repetition in record.repetitions:
        assert repetition.memory_peak_mib >= repetition.memory_baseline_mib > 0


def test_the_record_says_what_was_measured_and_with_what(record: Record) -> None:
    assert record.workload is not None
    assert record.workload.parameters == 4 * 8 + 8 + 8 * 2 + 2
    assert (record.workload.train_samples, record.workload.steps_per_full_epoch) == (20, 5)
    assert {"python", "torch", "os", "cpu_cores", "torch_threads"} <= record.environment.keys()
    settings: dict[str, Any] = record.measurement["workload"]["settings"]
    assert record.measurement == measurement("WritesWhatItSees", **settings).as_dict()


def test_the_record_reads_as_it_was_written(record: Record, tmp_path: Path) -> None:
    RECORD_FILE.write(record, tmp_path / "record.json")
    assert RECORD_FILE.read(tmp_path / "record.json") == record


def test_the_trace_folder_holds_one_trace_that_names_rank_and_run(
    record: Record, folder: Path
) -> None:
    assert record.profile is not None
    assert [path.name for path in (folder / "trace").iterdir()] == [record.profile.trace_file]
    text = gzip.decompress((folder / "trace" / record.profile.trace_file).read_bytes()).decode()
    assert '"rank": 0' in text
    assert json.loads(text)["gpu_report_run"] == "here/tiny-cpu-b4-w0-fp32-e3x4"


def test_the_rich_trace_has_stacks_and_memory_and_the_light_one_none_of_them(
    record: Record, folder: Path
) -> None:
    assert record.profile is not None
    assert [path.name for path in (folder / "rich_trace").iterdir()] == [
        record.profile.rich_trace_file
    ]
    light, rich = (
        read_trace(path) for name in ("trace", "rich_trace") for path in (folder / name).iterdir()
    )

    assert (len(light.functions), len(light.memory)) == (0, 0)
    assert len(rich.steps) == RICH_STEPS
    assert min(len(rich.functions), len(rich.memory)) > 1
    assert rich.run_id == light.run_id


def test_what_the_loader_does_is_one_event_in_the_light_trace_and_many_in_the_rich_one(
    record: Record, folder: Path
) -> None:
    assert record.profile is not None
    inside = {
        name: operations_while_loading(next((folder / name).iterdir()))
        for name in ("trace", "rich_trace")
    }

    assert inside["trace"] == [[]] * 2
    assert len(inside["rich_trace"]) == RICH_STEPS
    assert all("aten::stack" in names for names in inside["rich_trace"])


def operations_while_loading(trace_file: Path) -> list[list[str]]:
    """For each batch that is loaded, the names of the operations in the meantime."""
    events = json.loads(gzip.decompress(trace_file.read_bytes()))["traceEvents"]
    return [
        [
            event["name"]
            for event in events
            if event.get("cat") == "cpu_op" and mark["ts"] <= event["ts"] < mark["ts"] + mark["dur"]
        ]
        for mark in events
        if mark.get("cat") == "user_annotation"
        and mark["name"].startswith("enumerate(DataLoader)#")
    ]


def test_the_trace_shows_each_step_with_its_phases(record: Record, folder: Path) -> None:
    assert record.profile is not None
    trace = json.loads(gzip.decompress((folder / "trace" / record.profile.trace_file).read_bytes()))
    names = [
        event["name"] for event in trace["traceEvents"] if event.get("cat") == "user_annotation"
    ]
    assert len([name for name in names if name.startswith("ProfilerStep#")]) == PROFILE_STEPS
    assert {"data", "forward", "backward", "optimizer"} <= set(names)


def test_perfetto_shows_every_event_of_the_trace(record: Record, folder: Path) -> None:
    assert record.profile is not None
    trace = folder / "trace" / record.profile.trace_file
    assert complaints(trace) == []
    assert partial_overlaps(trace, "cpu_op") == []


def test_the_profile_counts_the_work_of_a_full_batch(record: Record) -> None:
    assert record.profile is not None
    assert record.profile.work is not None
    assert record.profile.work.samples == BATCH_SIZE
    assert record.profile.work.flops == 2 * BATCH_SIZE * (2 * 4 * 8 + 3 * 8 * 2)


def test_a_cpu_has_no_telemetry_no_allocator_and_no_snapshot(record: Record, folder: Path) -> None:
    assert record.profile is not None
    assert (record.profile.allocator, record.profile.memory_snapshot_file) == (None, "")
    assert list((folder / "memory").iterdir()) == []
    assert [repetition.telemetry for repetition in record.repetitions] == [None] * REPETITIONS


def test_loader_workers_train_alike_and_leave_with_the_training(tmp_path: Path) -> None:
    record = measure_variant(
        measurement(workers=2), machine="here", trace_folder=tmp_path / "trace"
    )
    assert record.status == "ok"
    assert record.profile is not None
    assert (record.profile.rich_trace_file, [path.name for path in tmp_path.iterdir()]) == (
        "",
        ["trace"],
    )


def test_a_training_uses_the_threads_the_user_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_REPORT_THREADS", "3")
    record = measure_variant(measurement(), machine="here", trace_folder=tmp_path / "trace")
    assert record.environment["torch_threads"] == 3


def test_progress_names_run_epoch_and_step(tmp_path: Path) -> None:
    received: list[Progress] = []
    measure_variant(
        measurement("TakesItsTime"),
        machine="here",
        trace_folder=tmp_path / "trace",
        on_progress=received.append,
    )
    assert {progress.repetition for progress in received} == set(range(REPETITIONS + 1))
    assert any(progress.samples_per_s for progress in received)
    shares = [progress.share_done for progress in received]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1


def test_an_error_in_a_workload_is_a_result_and_what_was_finished_stays(tmp_path: Path) -> None:
    record = measure_variant(
        measurement("FailsInSecondRepetition"), machine="here", trace_folder=tmp_path / "trace"
    )
    assert record.status == "failed"
    assert record.reason.startswith(
        "repetition 2: ArithmeticError: the second is wrong (tiny_workloads.py, line "
    )
    assert len(record.repetitions) == 1
    assert record.profile is None
    assert list((tmp_path / "trace").iterdir()) == []


def test_an_error_in_a_loader_worker_keeps_the_worker_s_own_words(tmp_path: Path) -> None:
    record = measure_variant(
        measurement("FailsInALoaderWorker", workers=1),
        machine="here",
        trace_folder=tmp_path / "trace",
    )
    assert record.reason.startswith(
        "repetition 1: LookupError: no such picture (tiny_workloads.py, line "
    )


def test_running_out_of_memory_is_a_result_that_says_what_was_asked_and_what_there_was(
    tmp_path: Path,
) -> None:
    record = measure_variant(
        measurement("WantsTooMuch"), machine="here", trace_folder=tmp_path / "trace"
    )
    assert record.status == "oom"
    assert "1125899906842624 bytes" in record.reason
    assert "GiB were available" in record.reason
    assert record.out_of_memory is not None
    assert record.out_of_memory.asked_mib == 2**30
    assert record.workload is not None


def test_a_profiled_run_without_enough_memory_costs_the_profile_and_not_the_variant(
    tmp_path: Path,
) -> None:
    record = measure_variant(
        measurement("WantsTooMuchWhenProfiled"), machine="here", trace_folder=tmp_path / "trace"
    )
    assert record.status == "ok"
    assert record.reason.startswith("profiled run: ")
    assert len(record.repetitions) == REPETITIONS
    assert (record.profile, record.out_of_memory) == (None, None)
    assert list((tmp_path / "trace").iterdir()) == []


def test_a_profiled_run_that_crashes_is_tried_once_more(tmp_path: Path) -> None:
    record = measure_variant(
        measurement("CrashesWhenFirstProfiled", note=str(tmp_path / "crashed")),
        machine="here",
        trace_folder=tmp_path / "trace",
    )
    assert (record.status, record.reason) == ("ok", "")
    assert record.profile is not None
    assert (tmp_path / "crashed").exists()


def test_a_device_that_is_not_there_is_skipped_with_the_reason(tmp_path: Path) -> None:
    record = measure_variant(
        measurement(device="xpu"), machine="here", trace_folder=tmp_path / "trace"
    )
    assert record.status == "skipped"
    assert record.reason.startswith("xpu is not present: torch ")
    assert record.workload is None


def test_a_crash_is_a_result(tmp_path: Path) -> None:
    record = measure_variant(
        measurement("KillsItself", note="SIGABRT"), machine="here", trace_folder=tmp_path / "trace"
    )
    assert (record.status, record.reason) == (
        "failed",
        "repetition 1: the process was ended by SIGABRT",
    )


def test_a_process_that_leaves_without_a_word_is_a_result(tmp_path: Path) -> None:
    record = measure_variant(measurement("Leaves"), machine="here", trace_folder=tmp_path / "trace")
    assert record.reason == "repetition 1: the process ended by itself with exit status 7"


@pytest.mark.parametrize(
    "signal_name",
    ["SIGKILL", *(pytest.param(name, marks=pytest.mark.slow) for name in ("SIGTERM", "SIGINT"))],
)
def test_a_training_killed_from_outside_is_no_result(tmp_path: Path, signal_name: str) -> None:
    with pytest.raises(
        MeasurementInterruptedError,
        match=f"repetition 1 .*{signal_name}.*run the same command again",
    ):
        measure_variant(
            measurement("KillsItself", note=signal_name),
            machine="here",
            trace_folder=tmp_path / "trace",
        )


def test_a_training_killed_in_the_middle_of_a_message_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(MeasurementInterruptedError, match="SIGKILL"):
        measure_variant(
            measurement("DiesInTheMiddleOfAMessage"),
            machine="here",
            trace_folder=tmp_path / "trace",
        )


def test_a_loader_worker_killed_from_outside_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(MeasurementInterruptedError):
        measure_variant(
            measurement("LosesALoaderWorker", workers=1),
            machine="here",
            trace_folder=tmp_path / "trace",
        )


@pytest.mark.parametrize(
    ("class_name", "settings"), [("Missing", {}), ("Tiny", {"sample_count": 3})]
)
def test_a_mistake_in_the_configuration_is_raised_and_no_result(
    tmp_path: Path, class_name: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(WorkloadError):
        measure_variant(
            measurement(class_name, **settings), machine="here", trace_folder=tmp_path / "trace"
        )


@pytest.mark.slow
def test_the_process_that_measures_does_not_import_pytorch(tmp_path: Path) -> None:
    program = _MEASURE + "print('torch' in sys.modules)"
    asked = json.dumps(measurement().as_dict())
    command = [sys.executable, "-c", program, asked, str(tmp_path / "trace")]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )


def test_killing_the_process_that_measures_leaves_no_training_behind(tmp_path: Path) -> None:
    note = tmp_path / "processes"
    asked = json.dumps(measurement("NeverEnds", workers=1, note=str(note)).as_dict())
    measuring = subprocess.Popen([sys.executable, "-c", _MEASURE, asked, str(tmp_path / "trace")])
    family = _wait_for_family(psutil.Process(measuring.pid), note)

    os.kill(measuring.pid, signal.SIGKILL)
    measuring.wait()

    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


def _wait_for_family(measuring: psutil.Process, note: Path) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < deadline, "the training did not start"
        time.sleep(0.05)
    training = psutil.Process(int(note.read_text()))
    assert training.children(), "the loader worker did not start"
    return [*measuring.children(recursive=True)]
