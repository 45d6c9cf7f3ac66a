"""A study in a folder of its own has all that Snakemake needs there."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpu_report import __version__
from gpu_report.cli import main


@pytest.mark.parametrize("options", [[], ["--directory", "elsewhere"]])
def test_a_new_study_is_planned_there_and_for_another_folder(
    options: list[str], tmp_path: Path
) -> None:
    assert main(["new-study", str(tmp_path / "mine")]) == 0

    planned = subprocess.run(
        [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "2", *options],
        cwd=tmp_path / "mine",
        capture_output=True,
        text=True,
        check=False,
    )
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "measure_variant" in planned.stdout + planned.stderr
    pages = "".join(page.read_text("utf-8") for page in (tmp_path / "mine").rglob("*.md"))
    assert "](../" not in pages
    environment = yaml.safe_load((tmp_path / "mine/environment.yml").read_text("utf-8"))
    assert environment["dependencies"][-1]["pip"][0].endswith(f"=={__version__}")


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine", "utf-8")

    assert main(["new-study", str(tmp_path)]) == 2

    assert str(tmp_path) in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
