"""A trace or a folder of ranks: which files are read, how they are named, and whose ranks are
missing.
"""

from pathlib import Path

import pytest

from gpu_report.errors import TraceError
from gpu_report.printing.terminal import say
from gpu_report.traces.advice import ADVICE
from gpu_report.traces.analysis import analyse, analyse_all, csv_files, find_traces, labels
from gpu_report.traces.quality import QUALITY
from gpu_report.traces.tables import TRACE_TABLES
from tests.unit.traces.by_hand import kernel, launch, operation, step, write


def write_rank(path: Path, rank: int, world_size: int = 2) -> Path:
    events = [
        step(1, 0, 100),
        operation("aten::mm", 10, 10),
        launch(1, 12),
        kernel("gemm", 30, 20, correlation=1),
    ]
    return write(path, events, distributedInfo={"rank": rank, "world_size": world_size})


def test_of_a_folder_the_profilers_files_are_taken_and_others_left(tmp_path: Path) -> None:
    traces = [write_rank(tmp_path / f"worker_{rank}.pt.trace.json.gz", rank) for rank in range(2)]
    (tmp_path / "notes.json").write_text("{}")

    assert find_traces(tmp_path) == traces


@pytest.mark.parametrize(("name", "said"), [("", "holds no trace"), ("nowhere", "does not exist")])
def test_where_there_is_no_trace_one_line_says_what_to_name(
    tmp_path: Path, name: str, said: str
) -> None:
    with pytest.raises(TraceError, match=said) as caught:
        find_traces(tmp_path / name)

    assert "\n" not in str(caught.value)


def test_ranks_come_in_order_and_have_a_folder_each(tmp_path: Path) -> None:
    write_rank(tmp_path / "a.pt.trace.json", 1)
    write_rank(tmp_path / "b.pt.trace.json.gz", 0)

    analysed = analyse_all(tmp_path, say)

    assert labels(analysed) == ["rank0", "rank1"]
    files = csv_files(analysed)
    assert len(files) == 2 * len(TRACE_TABLES)
    assert Path("rank1/steps.csv") in files
    assert Path("rank0/advice.csv") in files


def test_a_folder_shows_which_ranks_it_lacks(tmp_path: Path) -> None:
    write_rank(tmp_path / "a.pt.trace.json", 2, 4)
    write_rank(tmp_path / "b.pt.trace.json", 0, 4)

    for analysed in analyse_all(tmp_path, say):
        row = analysed.rows[QUALITY][-1]
        assert not row["passed"]
        assert row["value"] == 2
        assert row["text"] == "of 4 ranks 2 have no trace here: 1, 3"


@pytest.mark.parametrize("info", [{"rank": "0", "world_size": True}, "none", None, []])
def test_odd_metadata_is_not_guessed_at(tmp_path: Path, info: object) -> None:
    path = write(
        tmp_path / "trace.json",
        [step(1, 0, 100), operation("aten::mm", 0, 100)],
        distributedInfo=info,
        deviceProperties=info,
    )

    analysed = analyse(path)

    assert (analysed.rank, analysed.exchange.ranks, analysed.device_name) == (None, None, "")
    assert analysed.rows[ADVICE] == []


@pytest.mark.parametrize("name", ["...json", "..json", ".json"])
def test_no_files_name_leads_out_of_the_folder_of_tables(name: str, tmp_path: Path) -> None:
    for each in (name, "other.json"):
        write(tmp_path / each, [step(1, 0, 100), operation("aten::mm", 10, 10)])

    folders = {path.parent for path in csv_files(analyse_all(tmp_path, say))}

    assert folders == {Path(name), Path("other.json")}


def test_a_file_that_cannot_be_read_costs_its_rank_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in (0, 1):
        write_rank(tmp_path / f"rank{rank}.pt.trace.json", rank, 3)
    cut = write_rank(tmp_path / "rank2.pt.trace.json", 2, 3)
    cut.write_bytes(cut.read_bytes()[:-20])

    analysed = analyse_all(tmp_path, say)

    assert labels(analysed) == ["rank0", "rank1"]
    assert analysed[0].rows[QUALITY][-1]["text"] == "of 3 ranks 1 have no trace here: 2"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"left out: trace {cut}: it is not whole JSON")
    assert line.endswith("record it again; the other files are shown")


def test_a_folder_without_any_readable_trace_is_refused(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.pt.trace.json").write_text("{")

    with pytest.raises(TraceError, match=r"rank0\.pt\.trace\.json: it is not whole JSON"):
        analyse_all(tmp_path, say)


def test_two_files_of_one_rank_are_said_to_prevent_comparing_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rank in (("first", 0), ("second", 0), ("third", 1)):
        write_rank(tmp_path / f"{name}.pt.trace.json", rank)

    assert len(analyse_all(tmp_path, say)) == 3

    assert capsys.readouterr().err == (
        f"ranks are not compared: {tmp_path} has several files of rank 0; keep one of each\n"
    )
