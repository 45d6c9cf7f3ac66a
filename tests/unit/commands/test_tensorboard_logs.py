"""TensorBoard reads back what was written, for every variant, and the same records give the same
bytes.
"""

import hashlib
import statistics
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gpu_report.commands.tensorboard_logs import EVENT_FILE, write_tensorboard_logs
from gpu_report.errors import FileWriteError
from gpu_report.glossary import PER_PROCESS
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import summarise
from tests.factories import make_record

TRACE = Path(__file__).parents[2] / "data" / "traces" / "unet_cuda.pt.trace.json.gz"
CPU, CUDA, FAILED = (
    "cnn-small-cpu-b64-w0-fp32-e3x4",
    "cnn-small-cuda-b64-w0-fp32-e3x4",
    "unet-64px-cuda-b512-w0-fp32-e3",
)
RECORDS = [
    make_record(CPU),
    make_record(CUDA),
    make_record(FAILED, status="oom", reason="out of memory: tried to allocate 9 GiB"),
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "tensorboard"
    write_tensorboard_logs(
        RECORDS, {CUDA: {TRACE.name: TRACE, f"rich_{TRACE.name}": TRACE}}, folder
    )
    return folder


def run(folder: Path) -> Any:
    return EventAccumulator(str(folder)).Reload()


def scalars(folder: Path, tag: str) -> list[float]:
    return [event.value for event in run(folder).Scalars(tag)]


def test_every_variant_is_a_run(logs: Path) -> None:
    assert sorted(path.name for path in logs.iterdir()) == sorted([CPU, CUDA, FAILED])


def test_a_variant_has_its_traces_by_the_names_that_they_get(logs: Path) -> None:
    traces = [path for path in (logs / CUDA).iterdir() if path.suffix == ".gz"]

    assert names_in(logs / CPU) == [EVENT_FILE]
    assert {path.name for path in traces} == {TRACE.name, f"rich_{TRACE.name}"}
    assert {path.read_bytes() for path in traces} == {TRACE.read_bytes()}


def test_losses_are_read_back_per_step_as_means_over_processes(logs: Path) -> None:
    expected = [
        statistics.fmean(values)
        for epochs in zip(
            *(repetition.epochs for repetition in RECORDS[0].repetitions), strict=True
        )
        for values in zip(*(epoch.train_losses for epoch in epochs), strict=True)
    ]

    assert scalars(logs / CPU, "training/train_loss") == pytest.approx(expected)
    assert [event.step for event in run(logs / CPU).Scalars("training/train_loss")] == list(
        range(len(expected))
    )


@pytest.mark.parametrize(
    ("tag", "value_of"),
    [
        ("training/test_loss", lambda epoch: epoch.test_loss),
        ("training/quality", lambda epoch: epoch.quality),
        ("speed/epoch_wall_time_s", lambda epoch: epoch.wall_time_s),
        ("speed/throughput_per_s", lambda epoch: epoch.samples / epoch.wall_time_s),
    ],
)
def test_every_epoch_has_its_figures_the_first_one_too(logs: Path, tag: str, value_of: Any) -> None:
    processes = [
        [value_of(epoch) for epoch in repetition.epochs] for repetition in RECORDS[1].repetitions
    ]

    assert scalars(logs / CUDA, tag) == pytest.approx(
        [statistics.fmean(epoch) for epoch in zip(*processes, strict=True)]
    )


def test_results_are_the_means_of_the_tables(logs: Path) -> None:
    measured = {name: values for name, values in process_values(RECORDS[0]).items() if values}

    assert "throughput_per_s" in measured
    for name, values in measured.items():
        assert scalars(logs / CPU, f"result/{name}") == pytest.approx(
            [summarise(values, scale=PER_PROCESS[name].scale).value]
        )


def test_a_variant_that_failed_is_shown_without_scalars(logs: Path) -> None:
    assert run(logs / FAILED).Tags()["scalars"] == []


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_tensorboard_logs(
            RECORDS, {CUDA: {TRACE.name: TRACE, f"rich_{TRACE.name}": TRACE}}, tmp_path / name
        )

    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_what_was_there_before_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    write_tensorboard_logs(
        RECORDS, {CUDA: {TRACE.name: TRACE, f"rich_{TRACE.name}": TRACE}}, folder
    )

    write_tensorboard_logs([RECORDS[0]], {}, folder)

    assert names_in(folder) == [CPU]
    assert names_in(tmp_path) == [".logs.content", "logs"]
    assert TRACE.is_file()


def test_what_was_there_before_stays_where_a_trace_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    write_tensorboard_logs(RECORDS, {}, folder)
    before = digests(folder)

    with pytest.raises(FileWriteError, match=r"absent\.json\.gz"):
        write_tensorboard_logs(
            [RECORDS[0]], {CPU: {"rank0.pt.trace.json.gz": tmp_path / "absent.json.gz"}}, folder
        )

    assert digests(folder) == before
    assert names_in(tmp_path) == [".logs.content", "logs"]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
