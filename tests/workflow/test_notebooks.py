"""The notebooks run from top to bottom, and their tables and figures are those of the report."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from gpu_report.bundles.shown_machines import PUBLISHED
from gpu_report.commands.published import tabulate
from gpu_report.commands.results_folder import ResolvedStudy
from tests.factories import make_study
from tests.machine_results import write_results

PROJECT = Path(__file__).parents[2]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))
CELL_TIMEOUT_S = 150


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which nothing was measured."""
    (tmp_path / PUBLISHED).parent.mkdir(parents=True)
    for folder in (PUBLISHED, "config"):
        (tmp_path / folder).symlink_to(PROJECT / folder)
    (tmp_path / "notebooks").mkdir()
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(checkout: Path, path: Path) -> None:
    outputs = outputs_of(path, checkout)

    shown = [output.data for output in outputs if "data" in output]
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    if "read_results" in path.read_text("utf-8"):
        assert "not measured" not in str(outputs)
        assert any("data:image/png" in each.get("text/html", "") for each in shown)
        assert any(re.search(r"\d× \(\d", each.get("text/plain", "")) for each in shown)
    else:
        assert outputs[0].text.startswith("limit ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm", "unet", "your_results"])
def test_a_notebook_shows_what_this_machine_measured(checkout: Path, name: str) -> None:
    asked = make_study(devices=("cpu", "cuda"))
    study = asked.restricted_to([variant.slug for variant in asked.variants])  # without searches
    folder = write_results(checkout / "results/machines", study, machine="xeon-2c")
    tabulate(folder, ResolvedStudy.of("xeon-2c", study))

    shown = str(outputs_of(PROJECT / f"notebooks/{name}.ipynb", checkout))

    assert "results/machines/xeon-2c" in shown
    assert re.search(r"\d× \(\d", shown)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["device", "optimization"])
@pytest.mark.parametrize("name", ["lstm", "unet", "your_results"])
def test_a_notebook_runs_to_its_end_on_a_study_with_one_experiment(
    checkout: Path, name: str, experiment: str
) -> None:
    study = make_study().alone(experiment)
    folder = write_results(checkout / "results/machines", study, machine="xeon-2c")
    tabulate(folder, ResolvedStudy.of("xeon-2c", study))

    outputs = outputs_of(PROJECT / f"notebooks/{name}.ipynb", checkout)

    assert "results/machines/xeon-2c" in str(outputs)
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert re.search(r"\d× \(\d", str(outputs))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]

    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def outputs_of(path: Path, checkout: Path) -> list[Any]:
    """What its code cells print and show, run in the folder of the checkout's notebooks."""
    notebook = read(path)
    folder = str(checkout / "notebooks")
    NotebookClient(
        notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": folder}}
    ).execute()
    return [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
