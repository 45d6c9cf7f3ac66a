"""The notebooks run from top to bottom, and their tables and figures are those of the report."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

PROJECT = Path(__file__).parents[2]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.py"))
CELL_TIMEOUT_S = 150


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path) -> None:
    notebook = jupytext.read(path)

    NotebookClient(
        notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": str(path.parent)}}
    ).execute()

    outputs = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    shown = [output.data for output in outputs if output.output_type == "execute_result"]
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    if "read_bundle" in path.read_text("utf-8"):
        assert sum("data:image/png" in each.get("text/html", "") for each in shown) >= 4
        assert any(re.search(r"\d× \(\d", each.get("text/plain", "")) for each in shown)
    else:
        assert outputs[0].text.startswith("limit ")


@pytest.mark.slow
def test_a_notebook_becomes_an_ipynb_file_as_the_documentation_says(tmp_path: Path) -> None:
    command = next(
        line
        for line in (PROJECT / "docs/study.md").read_text("utf-8").splitlines()
        if "jupytext --to" in line
    )
    shutil.copytree(
        PROJECT / "notebooks",
        tmp_path / "notebooks",
        ignore=shutil.ignore_patterns("*.ipynb", ".*"),
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    subprocess.run(
        command.removeprefix(".venv/bin/"), shell=True, cwd=tmp_path, env=environment, check=True
    )

    made = [
        json.loads(path.read_text("utf-8"))
        for path in sorted((tmp_path / "notebooks").glob("*.ipynb"))
    ]
    assert len(made) == len(NOTEBOOKS) == 3
    assert all(
        each["nbformat"] == 4 and each["cells"][0]["cell_type"] == "markdown" for each in made
    )
