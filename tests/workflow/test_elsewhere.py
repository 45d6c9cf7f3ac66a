"""A study from a package, with its results, workload and templates in folders of their own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_report.cli import main

from .conftest import TINY

SECTION = "report/sections/batch_size.tex"


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def study(tmp_path: Path) -> Path:
    assert main(["new-study", str(tmp_path / "study")]) == 0
    shutil.copy(TINY / "tiny.yaml", tmp_path / "study/config/study.yaml")
    shutil.copy(TINY / "tiny_workload.py", tmp_path / "study")
    own = tmp_path / "study/templates/sections/batch_size.tex.j2"
    own.parent.mkdir(parents=True)
    own.write_text("beside the Snakefile", "utf-8")
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "study"


@pytest.mark.slow
def test_a_study_beside_the_snakefile_is_measured_and_written_in_another_folder(
    study: Path,
) -> None:
    made = snakemake(study, "--directory", "../elsewhere", "--", SECTION)

    assert made.returncode == 0, made.stdout + made.stderr
    text = (study.parent / "elsewhere" / SECTION).read_text("utf-8")
    assert "beside the Snakefile" in text
    assert not (study / "results").exists()


def test_a_study_in_the_other_folder_goes_first(study: Path) -> None:
    elsewhere = study.parent / "elsewhere"
    shutil.move(study / "config", elsewhere)
    shutil.move(study / "tiny_workload.py", elsewhere)

    planned = snakemake(study, "--dry-run", "--directory", "../elsewhere", "--", SECTION)

    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "tiny-cpu-b8" in planned.stdout + planned.stderr


def test_a_template_among_what_is_made_is_refused_with_its_place(study: Path) -> None:
    (study / "report").mkdir()
    shutil.move(study / "templates/sections", study / "report")

    planned = snakemake(study, "--dry-run")

    assert planned.returncode != 0
    assert "move it to templates/sections/batch_size.tex.j2" in planned.stdout + planned.stderr
