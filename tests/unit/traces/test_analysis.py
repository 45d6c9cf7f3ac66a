"""A trace or a folder of ranks: which files are read, how they are named, and whose ranks are
missing.
"""

from pathlib import Path

import pytest

from gpu_report.errors import TraceError
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


def test_a_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    path = write_rank(tmp_path / "odd", 0)

    assert find_traces(path) == [path]


def test_of_a_folder_the_profilers_files_are_taken_and_others_left(tmp_path: Path) -> None:
    traces = [write_rank(tmp_path / f"worker_{rank}.pt.trace.json.gz", rank) for rank in range(2)]
    (tmp_path / "notes.json").write_text("{}")

    assert find_traces(tmp_path) == traces


def test_a_folder_of_plain_json_is_taken_where_no_file_bears_the_profilers_name(
    tmp_path: Path,
) -> None:
    path = write_rank(tmp_path / "trace.json", 0)

    assert find_traces(tmp_path) == [path]


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

    analysed = analyse_all(tmp_path)

    assert labels(analysed) == ["rank0", "rank1"]
    files = csv_files(analysed)
    assert len(files) == 2 * len(TRACE_TABLES)
    assert Path("rank1/steps.csv") in files
    assert Path("rank0/advice.csv") in files


def test_two_files_of_one_rank_are_named_after_their_files(tmp_path: Path) -> None:
    write_rank(tmp_path / "first.pt.trace.json", 0, 1)
    write_rank(tmp_path / "second.pt.trace.json.gz", 0, 1)

    assert labels(analyse_all(tmp_path)) == ["first", "second"]


def test_the_tables_of_one_trace_need_no_folder_of_their_own(tmp_path: Path) -> None:
    analysed = analyse_all(write_rank(tmp_path / "trace.json", 0))

    assert Path("steps.csv") in csv_files(analysed)


def test_a_folder_shows_which_ranks_it_lacks(tmp_path: Path) -> None:
    write_rank(tmp_path / "a.pt.trace.json", 2, 4)
    write_rank(tmp_path / "b.pt.trace.json", 0, 4)

    for analysed in analyse_all(tmp_path):
        row = analysed.rows[QUALITY][-1]
        assert not row["passed"]
        assert row["value"] == 2
        assert row["text"] == "of 4 ranks 2 have no trace here: 1, 3"


def test_a_folder_with_every_rank_passes(tmp_path: Path) -> None:
    for rank in range(2):
        write_rank(tmp_path / f"{rank}.pt.trace.json", rank)

    assert all(analysed.rows[QUALITY][-1]["passed"] for analysed in analyse_all(tmp_path))


def test_one_file_named_by_hand_is_not_asked_for_the_other_ranks(tmp_path: Path) -> None:
    (analysed,) = analyse_all(write_rank(tmp_path / "trace.json", 1, 8))

    assert (analysed.rank, analysed.ranks) == (1, 8)
    assert all(row["passed"] for row in analysed.rows[QUALITY])


@pytest.mark.parametrize("info", [{"rank": "0", "world_size": True}, "none", None, []])
def test_odd_metadata_is_not_guessed_at(tmp_path: Path, info: object) -> None:
    path = write(
        tmp_path / "trace.json", [step(1, 0, 100)], distributedInfo=info, deviceProperties=info
    )

    analysed = analyse(path)

    assert (analysed.rank, analysed.ranks, analysed.device_name) == (None, None, "")
    assert analysed.rows[ADVICE] == []


def test_files_whose_names_differ_in_their_endings_alone_have_a_folder_each(tmp_path: Path) -> None:
    names = ["a.pt.trace.json", "a.pt.trace.json.gz", "b.pt.trace.json"]
    for name in names:
        write_rank(tmp_path / name, 0)

    folders = {path.parent.name for path in csv_files(analyse_all(tmp_path))}

    assert folders == {"a.pt.trace.json", "a.pt.trace.json.gz", "b"}


def test_a_whole_name_that_is_anothers_short_one_is_distinguished_too(tmp_path: Path) -> None:
    names = ["a.json", "a.json.gz", "a.json.json"]
    for name in names:
        write_rank(tmp_path / name, 0)

    assert labels(analyse_all(tmp_path)) == names


@pytest.mark.parametrize("world_size", [10**15, 10**400, 0, -1, True, "2"])
def test_a_number_of_ranks_beyond_belief_is_none(world_size: object, tmp_path: Path) -> None:
    write(
        tmp_path / "trace.json",
        [step(1, 0, 100)],
        distributedInfo={"rank": 0, "world_size": world_size},
    )

    (trace,) = analyse_all(tmp_path)

    assert trace.ranks is None
    assert trace.rows[QUALITY][-1]["passed"]


@pytest.mark.parametrize("rank", [-1, 10**15, 10**400])
def test_a_rank_beyond_belief_is_none(rank: int, tmp_path: Path) -> None:
    path = write(
        tmp_path / "trace.json", [step(1, 0, 100)], distributedInfo={"rank": rank, "world_size": 2}
    )

    assert analyse(path).rank is None


def test_of_many_missing_ranks_the_first_are_named(tmp_path: Path) -> None:
    write_rank(tmp_path / "trace.json", 0, world_size=1000)

    (trace,) = analyse_all(tmp_path)

    assert trace.rows[QUALITY][-1]["text"].endswith(
        "999 have no trace here: " + ", ".join(map(str, range(1, 21))) + " and 979 more"
    )


@pytest.mark.parametrize("name", ["...json", "..json", ".json"])
def test_no_files_name_leads_out_of_the_folder_of_tables(name: str, tmp_path: Path) -> None:
    for each in (name, "other.json"):
        write(tmp_path / each, [step(1, 0, 100), operation("aten::mm", 10, 10)])

    folders = {path.parent for path in csv_files(analyse_all(tmp_path))}

    assert folders == {Path(name), Path("other")}
