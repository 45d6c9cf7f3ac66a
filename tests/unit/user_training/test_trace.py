"""A trace answers from Python what the command prints, and is written as a page."""

from pathlib import Path

import pandas as pd
import pytest

import gpu_report
from gpu_report.cli import main
from gpu_report.errors import FileWriteError, TraceError
from gpu_report.traces.operations import OPERATIONS
from gpu_report.traces.tables import TRACE_TABLES
from tests.unit.traces.by_hand import kernel, launch, mark, operation, span, step, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "trace.json")


def written(path: Path, **metadata: object) -> Path:
    events = [
        step(1, 0, 1000),
        mark("encode", 90, 100),
        operation("aten::mm", 100, 50),
        launch(1, 110),
        kernel("gemm", 200, 600, correlation=1),
    ]
    return write(path, events, **metadata)


def test_each_table_is_a_frame(file: Path) -> None:
    found = gpu_report.trace(str(file))

    assert all(isinstance(table, pd.DataFrame) for table in found.tables.values())
    assert list(found.tables) == [table.name for table in TRACE_TABLES]
    assert list(found.tables["operations"].columns) == OPERATIONS.column_names
    assert found.tables["kernels"]["total_ms"].tolist() == [0.6]
    assert found.tables["ranges"]["name"].tolist() == ["encode"]
    assert found.tables["operation_shapes"].empty


def test_it_prints_what_the_command_prints(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print(gpu_report.trace(file))
    printed = capsys.readouterr().out

    assert main(["trace", str(file)]) == 0

    assert printed.rstrip() == capsys.readouterr().out.rstrip()
    assert "encode" in printed


def test_of_a_folder_each_row_names_its_rank(tmp_path: Path) -> None:
    for rank in (1, 0):
        written(tmp_path / f"{rank}.json", distributedInfo={"rank": rank, "world_size": 2})

    found = gpu_report.trace(tmp_path)

    assert found.tables["steps"]["rank"].tolist() == [0, 1]
    assert "rank" in found.tables["operation_shapes"].columns


def test_of_a_folder_with_two_cycles_of_one_process_each_row_names_its_file(tmp_path: Path) -> None:
    for cycle in (1, 2):
        written(tmp_path / f"{cycle}.json")

    steps = gpu_report.trace(tmp_path).tables["steps"]

    assert steps["file"].tolist() == ["1.json", "2.json"]
    assert "rank" not in steps


def test_a_number_that_a_check_withholds_is_missing_and_the_check_says_so(tmp_path: Path) -> None:
    graph = span("cuda_runtime", "cudaGraphLaunch", 100, 50, on=(100, 100), correlation=1)
    file = write(
        tmp_path / "graph.json", [step(1, 0, 1000), graph, kernel("gemm", 200, 600, correlation=1)]
    )

    found = gpu_report.trace(file)

    kernels, operations = found.tables["kernels"], found.tables["operations"].set_index("device")
    assert kernels["total_ms"].tolist() == [0.6]
    assert kernels[["launch_delay_us", "operation"]].isna().all(axis=None)
    assert operations["self_ms"].isna().to_dict() == {"cpu": False, "cuda": True}
    quality = found.tables["quality"].set_index("check")
    assert not quality.loc["work outside of graphs", "passed"]


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"gone\.json does not exist; name a trace file"):
        gpu_report.trace(tmp_path / "gone.json")


def test_the_command_writes_a_page_and_replaces_its_own(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"

    assert main(["trace", str(file), "--html", str(page)]) == 0
    assert main(["trace", str(file), "--html", str(page)]) == 0

    text = page.read_text("utf-8")
    assert "busy 60.0 %" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert len(text) < 2_000_000
    assert all(part in text for part in ("aten::mm", "encode", "gemm"))


def test_a_file_that_is_no_page_of_ours_stays_as_it_is(file: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.html"
    notes.write_text("my notes")

    with pytest.raises(FileWriteError, match=r"notes\.html: gpu-report did not make"):
        gpu_report.trace(file).to_html(notes)

    assert notes.read_text() == "my notes"
