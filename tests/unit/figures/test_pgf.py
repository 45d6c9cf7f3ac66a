import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from matplotlib.figure import Figure

from gpu_report.errors import ReportError
from gpu_report.figures import style
from gpu_report.figures.drawing import write_pgf
from gpu_report.writing.tex import escape

HOSTILE: Final = r"95 % aten::_copy_ <$x$> \frac{1} #&~^"
HOST: Final = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{mathpazo,pgf}
\begin{document}
\noindent\input{figure.pgf}
\end{document}
"""

needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


def as_tex(text: str) -> str:
    return escape(text).replace(r"\gpurepbreak{}", "")


def example() -> Figure:
    with style.report_style():
        figure = style.new_figure(height_in=2)
        axes = figure.add_subplot()
        axes.plot([0, 20_000], [0, 100], label="first_of & all")
        style.set_scale(axes, "x", [0.0, 20_000.0])
        axes.set_yticks([0, 100], ["none", "all_of_it"])
        axes.set_title(HOSTILE)
        figure.legend(loc="outside upper right")
        return figure


def output_of(*command: str, folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def built(folder: Path) -> str:
    """The text of a document with other fonts that reads the figure in."""
    (folder / "host.tex").write_text(HOST, "utf-8")
    output_of("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "host.tex", folder=folder)
    return output_of("pdftotext", "-layout", "host.pdf", "-", folder=folder)


@needs_tex
def test_a_document_sets_the_words_of_a_figure_in_its_own_fonts(tmp_path: Path) -> None:
    write_pgf(example(), tmp_path / "figure.pgf", escape=as_tex)

    text = built(tmp_path)

    assert "95 % aten::_copy_ <$x$>" in text
    for words in ("none", "all_of_it", "20,000", "first_of & all"):
        assert words in text
    fonts = output_of("pdffonts", "host.pdf", folder=tmp_path)
    assert "URWPalladioL" in fonts
    assert "STIX" not in fonts


@needs_tex
def test_what_tex_cannot_set_is_reported_with_its_complaint(tmp_path: Path) -> None:
    with pytest.raises(
        ReportError, match=r"figure.pgf: pdflatex cannot measure its texts: ! Undefined control"
    ):
        write_pgf(example(), tmp_path / "figure.pgf", escape=lambda _: r"\nosuchcommand")


def test_without_a_tex_engine_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        ReportError, match=r"none of pdflatex, lualatex, xelatex is on PATH; install TeX Live"
    ):
        write_pgf(example(), tmp_path / "figure.pgf", escape=as_tex)


@needs_tex
def test_a_hatched_area_is_a_picture_beside_the_figure_and_not_strokes_for_tex(
    tmp_path: Path,
) -> None:
    figure = example()
    figure.axes[0].bar([5_000], [50], width=2_000, hatch="/////")

    write_pgf(figure, tmp_path / "figure.pgf", escape=as_tex)

    assert (tmp_path / "figure-img0.png").exists()
    assert "figure-img0.png" in (tmp_path / "figure.pgf").read_text("utf-8")
    assert "all_of_it" in built(tmp_path)
