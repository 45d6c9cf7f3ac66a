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
    (facts,) = folder.glob("floats/tab/*/facts.tex")

    assert re.findall(r"^\\gpurepsection\{(.+?)\}", sections_of(folder), re.MULTILINE) == [
        "Machine and method",
        "Workloads",
        "Batch size",
        "Networks and data",
    ]
    assert "Which batch size trains fastest" in text
    assert "configurations measured & 2 " in facts.read_text("utf-8").replace(r"\gpurepbreak{}", "")
    assert "??" not in text
    assert log_problems(log) == []
    # Its table says as much of two configurations.
    assert not [*folder.glob("figures/*/*.pdf")]


def sections_of(folder: Path) -> str:
    document = (folder / "gpu_report.tex").read_text("utf-8")
    named = re.findall(r"^\\input\{\\gpurepfolder (.+)\}", document, re.MULTILINE)
    return "".join((folder / f"{name}.tex").read_text("utf-8") for name in named)
