"""The notebooks run from top to bottom, and their tables and figures are those of the report."""

import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.py"))
CELL_TIMEOUT_S = 150


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path) -> None:
    notebook = jupytext.read(path)

    NotebookClient(notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": str(path.parent)}}).execute()

    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [output.data for output in outputs if output.output_type == "execute_result"]
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    if "read_bundle" in path.read_text("utf-8"):
        assert sum("data:image/png" in each.get("text/html", "") for each in shown) >= 4
        assert any(re.search(r"\d× \(\d", each.get("text/plain", "")) for each in shown)
    else:
        assert outputs[0].text.startswith("limit ")


def test_a_notebook_opens_as_an_ipynb_file(tmp_path: Path) -> None:
    for path in NOTEBOOKS:
        jupytext.write(jupytext.read(path), tmp_path / f"{path.stem}.ipynb")
        nbformat.validate(nbformat.read(tmp_path / f"{path.stem}.ipynb", as_version=4))
