"""`gpu-report new-workload` writes an example that runs as it is, and never over something else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_report.cli import main
from gpu_report.records.record import RECORD_FILE
from gpu_report.study.study import Workload
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL
from gpu_report.workloads.protocol import load_workload
from tests.unit.measure.trainings import build, train_quietly

SOURCES = Path(__file__).parents[3] / "src"


def gpu_report(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            "from gpu_report.__main__ import main; raise SystemExit(main())",
            *arguments,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_example_trains_better_than_by_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["new-workload", "own_example"]) == 0
    asked = Workload(name="own", class_path="own_example:OwnExample", settings={"samples": 512})

    workload = load_workload(asked, size="default", seed=0)
    epochs = train_quietly(build(workload, batch_size=16))

    assert (epochs[-1].quality or 1) < (workload.chance() or 0)


@pytest.mark.slow
def test_the_example_runs_as_it_says(tmp_path: Path) -> None:
    said = gpu_report(tmp_path, "new-workload", "my_model")

    written, _, command = said.strip().partition("run: gpu-report ")
    assert "my_model.py and my_model.yaml" in written
    gpu_report(tmp_path, *command.split())
    for path in tmp_path.glob("results/machines/*/runs/*/record.json"):
        record = RECORD_FILE.read(path)
        assert record.status == "ok", record.reason
        assert len(record.repetitions) >= FEWEST_FOR_INTERVAL
        assert record.workload is not None
        assert (record.workload.title, record.workload.quality_better) == ("MyModel", "lower")
        assert record.workload.quality_chance is not None
        assert (record.repetitions[0].epochs[-1].quality or 1) < record.workload.quality_chance
    listed = gpu_report(tmp_path, "list", "--configfile", "my_model.yaml")
    assert listed.count(" measured") == 2


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("My Model", "letters"),
        ("class", "word of Python"),
        ("json", "a module 'json' already"),
        ("taken", "taken.yaml exists"),
    ],
)
def test_a_name_that_is_taken_or_no_module_s_is_refused(
    name: str,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.yaml").write_text("")

    assert main(["new-workload", name]) == 2

    assert named in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken.yaml"]
