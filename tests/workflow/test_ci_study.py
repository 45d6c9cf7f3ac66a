"""The CPU-only subset, built from nothing by the user's command: every stage, every experiment, and
the whole PDF.
"""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from gpu_report.records.record import RECORD_FILE
from tests.made_once import made_once
from tests.report.latex_log import log_problems

from .conftest import PDF, Project, copy_of_the_project

pytestmark = pytest.mark.slow

ALONE = "report/batch_size.pdf"
SHOWN = {
    "device": ["step_time_ms", "throughput_per_s", "epoch_time_s"],
    "batch_size": ["step_time_ms", "throughput_per_s", "quality"],
    "complexity": ["step_time_ms", "throughput_per_s", "quality"],
    "workers": ["step_time_ms", "throughput_per_s", "quality"],
    "models": ["step_time_ms", "throughput_per_s"],
    "precision": ["throughput_per_s", "quality"],
    "optimization": ["step_time_ms", "quality"],
    "memory": ["throughput_per_s"],
}


def with_fewer_steps(config: dict[str, Any]) -> None:
    """No more than 2 an epoch, but for the loops of the linear regression, which take
    microseconds.
    """
    for experiment in config["experiments"].values():
        for row in experiment["grid"]:
            if row["workload"] != "linear_regression" and "search" not in experiment:
                row["steps_per_epoch"] = min(2, row.get("steps_per_epoch", 2))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    def build(folder: Path) -> None:
        project = copy_of_the_project(folder, "config/ci.yaml")
        project.change_config(with_fewer_steps)
        run = project.snakemake(PDF, "results/tensorboard", ALONE)
        assert run.returncode == 0, run.stdout + run.stderr

    return Project(
        folder=made_once(tmp_path_factory, "built_ci", build), configfile="config/ci.yaml"
    )


def table(project: Project, name: str) -> list[dict[str, str]]:
    (path,) = project.folder.glob(f"results/machines/*/tables/{name}.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers_in(printed: Path) -> list[str]:
    """Every number with two digits or more in a table's text, uncertainties among them."""
    text = printed.read_text("utf-8")
    return re.findall(r"\d+\.\d+|\d{2,}", text)


def is_shown(value: float, numbers: list[str]) -> bool:
    """Whether one of the numbers is the value, rounded to the digits it is written with; seconds
    for milliseconds.
    """
    return any(
        is_rounded(candidate, number) for number in numbers for candidate in (value, value / 1e3)
    )


def is_rounded(value: float, number: str) -> bool:
    """Zeros at the end of a whole number may stand for digits that its uncertainty leaves away."""
    whole, _, decimals = number.partition(".")
    zeros = 0 if decimals else len(whole) - len(whole.rstrip("0"))
    return any(
        round(value, len(decimals) - left_away) == float(number) for left_away in range(zeros + 1)
    )


def test_every_variant_is_measured(built: Project) -> None:
    statuses = {path.parent.name: RECORD_FILE.read(path).status for path in built.records()}

    assert set(statuses.values()) == {"ok"}
    assert set(statuses) == {row["variant"] for row in table(built, "variants")}


def test_compiled_and_custom_loops_learn_what_float64_learns(built: Project) -> None:
    for loop in ("compile", "openmp"):
        records = [
            RECORD_FILE.read(path)
            for path in built.records()
            if re.match(f"linear.*-{loop}$", path.parent.name)
        ]
        errors = [
            repetition.reference_error for record in records for repetition in record.repetitions
        ]
        assert errors
        assert all(error is not None and error < 1e-5 for error in errors)


def test_the_report_has_its_pages_and_no_loose_end(built: Project) -> None:
    facts = built.run("pdfinfo", PDF).stdout
    text = built.run("pdftotext", PDF, "-").stdout
    log = (built.folder / "report/build/gpu_report.log").read_text("utf-8", errors="replace")

    assert int(re.findall(r"Pages:\s+(\d+)", facts)[0]) >= 12
    assert "??" not in text
    assert log_problems(log) == []


def test_the_report_of_one_experiment_has_the_machine_and_its_section_alone_and_no_loose_end(
    built: Project,
) -> None:
    text = " ".join(built.run("pdftotext", ALONE, "-").stdout.split())
    folder = built.folder / "report/experiments/batch_size"
    log = (folder / "build/gpu_report.log").read_text("utf-8", errors="replace")
    (figure,) = folder.glob("figures/*/*.pdf")

    assert re.findall(r"^\\gpurepsection\{(.+?)\}", sections_of(folder), re.MULTILINE) == [
        "Machine and method",
        "Workloads",
        "Batch size",
    ]
    assert "Which batch size trains fastest" in text
    assert "2 of 2 configurations" in text
    assert "??" not in text
    assert log_problems(log) == []
    assert figure.stem == "batch_size_throughput"


def sections_of(folder: Path) -> str:
    document = (folder / "gpu_report.tex").read_text("utf-8")
    named = re.findall(r"^\\input\{\\gpurepfolder (.+)\}", document, re.MULTILINE)
    return "".join((folder / f"{name}.tex").read_text("utf-8") for name in named)


@pytest.mark.parametrize("experiment", SHOWN)
def test_each_experiments_table_holds_the_numbers_of_its_csv(
    built: Project, experiment: str
) -> None:
    (printed,) = built.folder.glob(f"report/floats/tab/*/{experiment}.tex")
    numbers = numbers_in(printed)

    for row in table(built, experiment):
        for column in SHOWN[experiment]:
            assert is_shown(float(row[column]), numbers), (
                f"{column} of {row['variant']}: {row[column]}"
            )


def test_the_answers_of_the_batch_size_search_are_tabulated_and_in_its_section(
    built: Project,
) -> None:
    tried = table(built, "batch_sizes")
    (printed,) = built.folder.glob("report/floats/tab/*/batch_search.tex")
    numbers = numbers_in(printed)

    assert {row["status"] for row in tried} >= {"ok", "oom"}
    for answer in ("is_largest", "is_fastest", "is_smallest_near_fastest"):
        (row,) = [row for row in tried if row[answer] == "true"]
        assert row["status"] == "ok"
        assert is_shown(float(row["samples"]), numbers)


def test_a_cpu_only_report_claims_nothing_of_an_accelerator(built: Project) -> None:
    text = built.run("pdftotext", PDF, "-").stdout

    assert "No GPU was measured" in " ".join(text.split())
    assert not re.search(r"\bCUDA\b.{0,80}\d+(?:\.\d+)?\s*(?:×|times)", text, re.DOTALL)


def test_tensorboard_shows_every_variant_with_its_trace(built: Project) -> None:
    logs = built.folder / "results/tensorboard"

    folders = [folder for folder in logs.iterdir() if folder.is_dir()]
    assert {folder.name for folder in folders} == {path.parent.name for path in built.records()}
    for folder in folders:
        assert {path.name for path in folder.iterdir()} >= {"rank0.pt.trace.json.gz"}
        assert list(folder.glob("events.out.tfevents.*"))


def test_each_trace_holds_our_run_and_its_rank(built: Project) -> None:
    from gpu_report.traces.reading import read_trace

    for record in built.records():
        trace = read_trace(record.parent / "trace/rank0.pt.trace.json.gz")
        assert trace.rank == 0
        assert trace.run_id is not None
        assert trace.run_id.endswith(record.parent.name)
