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
from gpu_report.records.record import Record
from gpu_report.study.study import Measurement
from gpu_report.traces.reading import read_trace
from gpu_report.workloads.protocol import WorkloadError
from tests.perfetto import complaints, partial_overlaps
from tests.unit.measure import trainings

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
    return trainings.measurement(
        class_name,
        repetitions=REPETITIONS,
        profile_steps=PROFILE_STEPS,
        settings=settings,
        device=device,
        workers=workers,
        epochs=EPOCHS,
        steps_per_epoch=STEPS,
    )


def measured(folder: Path, *arguments: Any, **fields: Any) -> Record:
    asked = measurement(*arguments, **fields)
    return measure_variant(asked, machine="here", trace_folder=folder / "trace")


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
        assert repetition.memory_peak_mib >= repetition.memory_baseline_mib > 0
        for epoch in repetition.epochs:
            times = epoch.step_times_ms, epoch.data_wait_ms, epoch.train_losses
            assert epoch.samples == STEPS * BATCH_SIZE
            assert [len(each) for each in times] == [STEPS] * 3
            assert sum(epoch.data_wait_ms) < sum(epoch.step_times_ms) <= epoch.wall_time_s * 1e3


def test_every_run_has_a_process_of_its_own_and_only_the_last_is_profiled(seen: list[str]) -> None:
    processes = {line for line in seen if line.startswith("process: ")}
    assert len(processes) == REPETITIONS + 1
    assert "accelerator touched: True" not in seen
    switch = [line.endswith("True") for line in seen if line.startswith("profiler on: ")]
    losses_per_repetition = EPOCHS * (STEPS + 2)
    assert not any(switch[: REPETITIONS * losses_per_repetition])
    assert switch[-PROFILE_STEPS:] == [True] * PROFILE_STEPS


def test_the_record_says_what_was_measured_and_with_what(record: Record, folder: Path) -> None:
    assert record.workload is not None
    assert record.workload.parameters == 4 * 8 + 8 + 8 * 2 + 2
    assert (record.workload.train_samples, record.workload.steps_per_full_epoch) == (20, 5)
    assert {"python", "torch", "os", "cpu_cores", "torch_threads"} <= record.environment.keys()
    settings: dict[str, Any] = record.measurement["workload"]["settings"]
    assert record.measurement == measurement("WritesWhatItSees", **settings).as_dict()
    assert record.profile is not None
    assert record.profile.work is not None
    assert record.profile.work.samples == BATCH_SIZE
    assert record.profile.work.flops == 2 * BATCH_SIZE * (2 * 4 * 8 + 3 * 8 * 2)
    # A CPU has no telemetry, no allocator and no snapshot.
    assert (record.profile.allocator, record.profile.memory_snapshot_file) == (None, "")
    assert list((folder / "memory").iterdir()) == []
    assert [repetition.telemetry for repetition in record.repetitions] == [None] * REPETITIONS


def test_the_one_trace_names_rank_and_run_and_shows_each_step_with_its_phases(
    record: Record, folder: Path
) -> None:
    assert record.profile is not None
    (path,) = (folder / "trace").iterdir()
    assert path.name == record.profile.trace_file
    text = gzip.decompress(path.read_bytes()).decode()
    assert '"rank": 0' in text
    trace = json.loads(text)
    assert trace["gpu_report_run"] == "here/tiny-cpu-b4-w0-fp32-e3x4"
    marks = [each for each in trace["traceEvents"] if each.get("cat") == "user_annotation"]
    names = [each["name"] for each in marks]
    assert len([name for name in names if name.startswith("ProfilerStep#")]) == PROFILE_STEPS
    assert {"data", "forward", "backward", "optimizer"} <= set(names)
    assert complaints(path) == []  # of Perfetto
    assert partial_overlaps(path, "cpu_op") == []


def test_the_rich_trace_has_stacks_memory_and_loading_and_the_light_one_none_of_them(
    record: Record, folder: Path
) -> None:
    assert record.profile is not None
    files = [next((folder / name).iterdir()) for name in ("trace", "rich_trace")]
    assert files[1].name == record.profile.rich_trace_file
    light, rich = (read_trace(path) for path in files)

    assert (len(light.functions), len(light.memory)) == (0, 0)
    assert len(rich.steps) == RICH_STEPS
    assert min(len(rich.functions), len(rich.memory)) > 1
    assert rich.run_id == light.run_id
    in_light, in_rich = map(operations_while_loading, files)
    assert in_light == [[]] * 2
    assert len(in_rich) == RICH_STEPS
    assert all("aten::stack" in names for names in in_rich)


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


def test_progress_names_run_epoch_and_step_and_threads_are_those_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_REPORT_THREADS", "3")
    received: list[Progress] = []
    record = measure_variant(
        measurement("TakesItsTime", workers=2),
        machine="here",
        trace_folder=tmp_path / "trace",
        on_progress=received.append,
    )
    assert (record.status, record.environment["torch_threads"]) == ("ok", 3)
    assert record.profile is not None
    assert record.profile.rich_trace_file == ""
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]
    assert {progress.repetition for progress in received} == set(range(REPETITIONS + 1))
    assert any(progress.samples_per_s for progress in received)
    shares = [progress.share_done for progress in received]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1


@pytest.mark.parametrize(
    ("class_name", "fields", "status", "reason", "finished"),
    [
        (
            "FailsInSecondRepetition",
            {},
            "failed",
            "repetition 2: ArithmeticError: the second is wrong (tiny_workloads.py, line ",
            1,
        ),
        (
            "FailsInALoaderWorker",
            {"workers": 1},
            "failed",
            "repetition 1: LookupError: no such picture (tiny_workloads.py, line ",
            0,
        ),
        ("WantsTooMuchWhenProfiled", {}, "ok", "profiled run: ", REPETITIONS),
        ("Tiny", {"device": "xpu"}, "skipped", "xpu is not present: torch ", 0),
        (
            "KillsItself",
            {"note": "SIGABRT"},
            "failed",
            "repetition 1: the process was ended by SIGABRT",
            0,
        ),
        (
            "Leaves",
            {},
            "failed",
            "repetition 1: the process ended by itself with exit status 7",
            0,
        ),
    ],
)
def test_what_goes_wrong_is_a_result_and_what_was_finished_stays(
    class_name: str, fields: Any, status: str, reason: str, finished: int, tmp_path: Path
) -> None:
    record = measured(tmp_path, class_name, **fields)
    assert record.status == status
    assert record.reason.startswith(reason)
    assert len(record.repetitions) == finished
    assert (record.profile, record.out_of_memory) == (None, None)
    assert not [*tmp_path.glob("trace/*")]


def test_running_out_of_memory_is_a_result_that_says_what_was_asked_and_what_there_was(
    tmp_path: Path,
) -> None:
    record = measured(tmp_path, "WantsTooMuch")
    assert record.status == "oom"
    assert "1125899906842624 bytes" in record.reason
    assert "GiB were available" in record.reason
    assert record.out_of_memory is not None
    assert record.out_of_memory.asked_mib == 2**30
    assert record.workload is not None


def test_a_profiled_run_that_crashes_is_tried_once_more(tmp_path: Path) -> None:
    record = measured(tmp_path, "CrashesWhenFirstProfiled", note=str(tmp_path / "crashed"))
    assert (record.status, record.reason) == ("ok", "")
    assert record.profile is not None
    assert (tmp_path / "crashed").exists()


@pytest.mark.parametrize(
    ("class_name", "fields", "said"),
    [
        ("KillsItself", {"note": "SIGKILL"}, "repetition 1 .*SIGKILL.*run the same command again"),
        ("DiesInTheMiddleOfAMessage", {}, "SIGKILL"),
        ("LosesALoaderWorker", {"workers": 1}, ""),
        *(
            pytest.param("KillsItself", {"note": name}, name, marks=pytest.mark.slow)
            for name in ("SIGTERM", "SIGINT")
        ),
    ],
)
def test_a_training_or_its_loader_killed_from_outside_is_no_result(
    class_name: str, fields: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(MeasurementInterruptedError, match=said or None):
        measured(tmp_path, class_name, **fields)


@pytest.mark.parametrize(
    ("class_name", "settings"), [("Missing", {}), ("Tiny", {"sample_count": 3})]
)
def test_a_mistake_in_the_configuration_is_raised_and_no_result(
    tmp_path: Path, class_name: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(WorkloadError):
        measured(tmp_path, class_name, **settings)


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
