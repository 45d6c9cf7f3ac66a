"""A copy of a built report compiles wherever it is put: beside a document, and seen from a folder
below it.
"""

import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from gpu_report.figures.drawing import write_pgf
from gpu_report.writing.tex import escape
from tests.report.conftest import Compiled
from tests.report.hosts import build, need

pytestmark = pytest.mark.slow


def thesis(options: str = "", measured: str = "measured") -> str:
    """A document with the lines that docs/guide.md says to put into it."""
    return "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[T1]{fontenc}",
            rf"\usepackage{options}{{{measured}/gpu_report}}",
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
    further = build(tmp_path / "parts", thesis(measured="../measured"))

    assert beside.complaints == further.complaints == []
    assert "DataLoader workers" in beside.text
    assert beside.text == further.text


def test_figures_in_pgf_have_words_of_the_document_and_find_the_pictures_beside_them(
    compiled: Compiled, tmp_path: Path
) -> None:
    need("pdflatex", "pgf.sty")
    report = tmp_path / "measured"
    shutil.copytree(compiled("cpu").parent, report)
    (report / "gpu_analysis_sections.tex").write_text("\\gpurepsections{one}\n", encoding="utf-8")
    section = (
        "\\begin{gpureptext}\\gpurepsection{One}{sec:one}\\gpureppicture{xeon-2c/drawn}"
        "\\end{gpureptext}\n"
    )
    (report / "sections" / "one.tex").write_text(section, encoding="utf-8")
    figure = Figure(figsize=(6.3, 2.0))
    axes = figure.subplots()
    axes.plot([0, 1], rasterized=True)
    axes.set_xlabel("Zwölf_words of mine")
    write_pgf(figure, report / "figures" / "xeon-2c" / "drawn.pgf", escape=escape)

    built = build(tmp_path, thesis("[figureformat=pgf]"))

    assert built.complaints == []
    assert "Zwölf_words of mine" in built.text
    assert "-img0.png" in built.log
