"""The commands about traces, as a person types them."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_report.cli import main
from gpu_report.traces.tables import TRACE_TABLES
from tests.unit.traces.by_hand import kernel, launch, operation, span, step, write

UNET = Path("tests/data/traces/unet_cuda.pt.trace.json.gz")


@pytest.fixture
def plain_trace(tmp_path: Path) -> Path:
    return write(
        tmp_path / "plain.json",
        [
            *(step(number, 1000 * number, 1000) for number in (1, 2)),
            *(operation("aten::mm", 1000 * number + 100, 200) for number in (1, 2)),
            *(launch(number, 1000 * number + 150, 10) for number in (1, 2)),
            *(
                kernel("void ns::gemm<float>", 1000 * number + 200, 600, correlation=number)
                for number in (1, 2)
            ),
        ],
    )


@pytest.fixture
def graph_trace(tmp_path: Path) -> Path:
    return write(
        tmp_path / "graph.json",
        [
            step(1, 0, 1000),
            operation("aten::copy_", 10, 20),
            span("cuda_runtime", "cudaGraphLaunch", 100, 50, on=(100, 100), correlation=1),
            kernel("gemm", 200, 600, correlation=1),
        ],
    )


def test_a_summary_shows_where_the_time_went(
    plain_trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", str(plain_trace)]) == 0

    shown = capsys.readouterr().out
    assert "2 steps, cuda" in shown
    assert "step time 1.00 ms, 1.00 ms to 1.00 ms; cuda busy 60.0 %, idle 40.0 %" in shown
    assert "kernels 600 µs 60.0 %" in " ".join(shown.split())
    assert "ns::gemm<float>" in shown
    assert "void" not in shown
    assert "checks passed" in shown


def write_ranks(folder: Path, *, wait_us: int) -> None:
    """The traces of two ranks, in a folder; in each of five steps rank 1 waits for rank 0."""
    for rank, duration_us in enumerate((100, 100 + wait_us)):
        events = [
            event
            for begin_us in range(0, 5000, 1000)
            for event in (
                step(begin_us // 1000, begin_us, 1000),
                kernel("gemm", begin_us, 500),
                kernel(
                    "ncclDevKernel_AllReduce_Sum",
                    begin_us + 600 - duration_us,
                    duration_us,
                    on=(0, 20),
                ),
            )
        ]
        write(
            folder / f"{rank}.pt.trace.json",
            events,
            distributedInfo={"rank": rank, "world_size": 2},
        )


@pytest.mark.parametrize(("wait_us", "named"), [(250, "Rank 0"), (20, "No rank")])
def test_a_folder_of_ranks_shows_which_of_them_is_slow(
    wait_us: int, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ranks(tmp_path, wait_us=wait_us)

    assert main(["trace", str(tmp_path)]) == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert f"{named} is slow" in shown
    assert f"rank1 1.00 ms 500 µs {100 + wait_us} µs" in shown
    assert "all-reduce" in shown
    assert "bus bandwidth" not in shown


@pytest.mark.parametrize("width", [80, 120])
def test_a_summary_keeps_to_the_width_of_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    main(["trace", str(UNET)])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 40
    assert max(len(line) for line in lines) <= width
    assert any("aten::convolution_backward" in line for line in lines)


def test_a_number_that_fails_the_gate_is_not_printed_as_one(
    graph_trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    main(["trace", str(graph_trace)])

    lines = capsys.readouterr().out.splitlines()
    title = next(
        index for index, line in enumerate(lines) if line.startswith("Operations by time on cuda")
    )
    assert lines[title + 1].startswith("not reliable: graphs launched 100.0% of the device time")
    assert any("cuda busy 60.0 %" in line for line in lines)


def test_the_device_is_not_reported_as_idle_where_its_events_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        tmp_path / "lost.json", [step(1, 0, 1000), operation("aten::mm", 100, 200), launch(1, 150)]
    )

    main(["trace", str(path)])

    shown = capsys.readouterr().out
    assert "idle" not in shown
    assert "not reliable: 0 kernels, copies and fills ran in step 1" in shown
    assert "none of the rules that the trace can answer applies" in shown


def test_every_table_is_written(plain_trace: Path, tmp_path: Path) -> None:
    assert main(["trace", str(plain_trace), "--out", str(tmp_path / "tables")]) == 0

    written = {path.stem for path in (tmp_path / "tables").iterdir()}
    assert written == {*(table.name for table in TRACE_TABLES), "advice"}


@pytest.mark.parametrize("content", ["", "no trace", "{}", '{"traceEvents": 5}'])
def test_a_file_that_is_no_trace_is_one_line_of_error(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)

    assert main(["trace", str(path)]) == 2

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "file.json" in error


def test_a_comparison_shows_what_changed_and_writes_it(
    plain_trace: Path, graph_trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["trace-diff", str(plain_trace), str(graph_trace), "--out", str(tmp_path / "changes")])
        == 0
    )

    shown = capsys.readouterr().out
    assert "aten::copy_" in shown
    assert "not reliable: graphs launched" in shown
    assert (
        (tmp_path / "changes" / "trace_changes.csv")
        .read_text()
        .startswith("level,name,device,category,a_ms")
    )


def test_a_trace_without_steps_is_not_compared_with_one_that_marks_them(
    plain_trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unmarked = write(tmp_path / "unmarked.json", [operation("aten::mm", 100, 200)])

    assert main(["trace-diff", str(plain_trace), str(unmarked)]) == 2

    said = capsys.readouterr().err
    assert "unmarked.json has no marked steps" in said
    assert said.count("\n") == 1


def test_columns_of_all_tables_name_those_of_traces_and_of_the_study(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["columns"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert {"steps", "advice", "trace_changes", "variants", "study.phases"} <= {
        line.strip() for line in lines
    }


def test_the_table_of_an_experiment_is_no_table_and_the_error_names_the_one_that_describes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["columns", "batch_size"]) == 2
    said = capsys.readouterr().err

    assert "there is no table 'batch_size'" in said
    assert said.rstrip().endswith("has the columns of experiment")
    assert main(["columns", "experiment"]) == 0


def test_looking_at_traces_of_ranks_imports_neither_pandas_nor_torch(tmp_path: Path) -> None:
    write_ranks(tmp_path, wait_us=250)
    program = (
        "import sys; from gpu_report.cli import main; "
        f"main(['trace', {str(tmp_path)!r}, '--out', {str(tmp_path / 'tables')!r}]); "
        "sys.exit(bool({'pandas', 'torch', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )

    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode
        == 0
    )


def test_a_folder_is_not_compared(plain_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace-diff", str(plain_trace.parent), str(plain_trace)]) == 2
    assert f"{plain_trace.parent} is a folder; name a trace in it" in capsys.readouterr().err
