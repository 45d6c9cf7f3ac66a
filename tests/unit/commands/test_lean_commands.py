"""A report of one machine waits for nothing that compares: its commands import neither pandas nor what draws."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_report.tables.comparison import COMPARISON

HEAVY = {"pandas", "scipy", "matplotlib", "torch"}


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    """The comparison where one machine is shown: no rows."""
    path = tmp_path / "comparison.csv"
    path.write_text(COMPARISON.rows_to_csv([]), "utf-8")
    return path


def imported_by(*arguments: str | Path) -> set[str]:
    """Which of the heavy packages are imported once a command has run to its end."""
    code = f"import sys; from gpu_report.cli import main; print(main(sys.argv[1:]), *{HEAVY} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True)
    code_of_command, *found = run.stdout.split()
    assert code_of_command == "0", run.stderr
    return set(found)


def test_one_machine_is_compared_with_none_without_reading_its_records(tmp_path: Path) -> None:
    table = tmp_path / "made.csv"

    heavy = imported_by("compare-machines", "--studies", tmp_path / "absent", "--comparison", table)

    assert heavy == set()
    assert COMPARISON.read_rows(table) == []


def test_findings_of_an_empty_comparison_are_none(comparison: Path) -> None:
    heavy = imported_by("derive-comparison", "--comparison", comparison)

    assert heavy == set()
    assert len(comparison.with_name("findings.csv").read_text("utf-8").splitlines()) == 1


def test_figures_of_an_empty_comparison_are_none(comparison: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures"

    heavy = imported_by("draw-comparison", "--comparison", comparison, "--figures", figures)

    assert heavy == set()
    assert list(figures.iterdir()) == []
