"""A copy of a built report compiles wherever it is put: beside a document, and seen from a folder
below it.
"""

import shutil
from pathlib import Path

import pytest

from tests.report.conftest import Compiled
from tests.report.hosts import build, need

pytestmark = pytest.mark.slow


def thesis(measured: str = "measured") -> str:
    """A document with the lines that docs/report.md says to put into it."""
    return "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[T1]{fontenc}",
            rf"\usepackage{{{measured}/gpu_report}}",
            r"\begin{document}",
            r"\gpurep{study/variants}",
            rf"\input{{{measured}/gpu_analysis_sections}}",
            r"\end{document}",
        ]
    )


def test_a_copy_compiles_beside_the_document_and_with_a_longer_path(
    compiled: Compiled, tmp_path: Path
) -> None:
    need("pdflatex")
    shutil.copytree(compiled("cpu").parent, tmp_path / "measured")
    (tmp_path / "parts").mkdir()

    beside = build(tmp_path, thesis())
    further = build(tmp_path / "parts", thesis("../measured"))

    assert beside.complaints == further.complaints == []
    assert "DataLoader workers" in beside.text
    assert beside.text == further.text
