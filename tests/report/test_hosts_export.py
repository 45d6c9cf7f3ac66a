"""What `gpu-report export` writes compiles wherever it is put: beside a thesis, in a folder below
it, at arXiv.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from gpu_report.cli import main
from gpu_report.figures.pgf import write_pgf
from gpu_report.writing.tex import escape
from tests.report.conftest import Compiled
from tests.report.hosts import build, need

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built_report(compiled: Compiled) -> Path:
    """A project with a built report in it."""
    return compiled("cpu").parents[1]


@pytest.fixture
def project(built_report: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, as the folder that commands run in."""
    monkeypatch.chdir(built_report)
    return built_report


def pasted(readme: str) -> tuple[str, str, str]:
    """The three lines of the README, as somebody would copy them."""
    first, second, third = readme.split("```latex\n")[1].split("```")[0].strip().splitlines()
    return first, second, third


def test_the_pasted_lines_compile_beside_the_folder_and_with_a_longer_path(
    project: Path, tmp_path: Path
) -> None:
    need("pdflatex")
    thesis = tmp_path / "thesis"
    assert main(["export", str(thesis / "measured")]) == 0
    package, sections, number = pasted((thesis / "measured" / "README.md").read_text("utf-8"))
    below = thesis / "parts"
    below.mkdir()

    beside = build(
        thesis,
        "\n".join(
            [
                r"\documentclass{article}",
                package,
                r"\begin{document}",
                number,
                sections,
                r"\end{document}",
            ]
        ),
    )
    further = build(
        below,
        "\n".join([
            r"\documentclass{article}", package.replace("measured/", "../measured/"),
            r"\begin{document}",
            number, sections.replace("measured/", "../measured/", 1), r"\end{document}",
        ]),
    )  # fmt: skip

    assert beside.complaints == further.complaints == []
    assert "DataLoader workers" in beside.text
    assert beside.text == further.text


def test_the_exported_document_compiles_in_its_own_folder(project: Path, tmp_path: Path) -> None:
    need("pdflatex", "siunitx.sty", "lmodern.sty")
    assert main(["export", str(tmp_path / "out")]) == 0

    built = build(tmp_path / "out", (tmp_path / "out" / "main.tex").read_text("utf-8"), name="main")

    assert built.complaints == []
    assert "??" not in built.text


def extract(archive: Path, folder: Path) -> None:
    """By tar, since what extractall asks for differs between versions of Python."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(folder)], check=True)


def test_the_archive_for_arxiv_compiles_alone_and_has_the_same_bytes_again(
    project: Path, tmp_path: Path
) -> None:
    need("pdflatex", "siunitx.sty", "lmodern.sty")
    for name in ("one", "two.tar.gz"):
        assert main(["export", "--arxiv", str(tmp_path / name)]) == 0
    alone = tmp_path / "alone"
    extract(tmp_path / "one.tar.gz", alone)

    built = build(alone, (alone / "main.tex").read_text("utf-8"), name="main")

    assert built.complaints == []
    assert "DataLoader workers" in built.text
    assert "Adam Paszke" in built.text
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


@pytest.mark.parametrize("option", ["", "--arxiv"])
def test_nothing_that_is_there_is_written_over(
    project: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", *filter(None, [option]), str(tmp_path / "out")]
    assert main(arguments) == 0
    before = sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())

    status = main(arguments)

    assert status == 2
    assert "remove it" in capsys.readouterr().err
    assert (
        sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())
        == before
    )


def test_an_empty_folder_is_taken_and_a_project_without_a_report_learns_how_to_make_one(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "elsewhere").mkdir()

    taken = main(["export", str(tmp_path / "empty")])
    monkeypatch.chdir(tmp_path / "elsewhere")
    refused = main(["export", str(tmp_path / "other")])

    assert (taken, refused) == (0, 2)
    assert (tmp_path / "empty" / "gpu_report.sty").exists()
    assert "make report" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def only_one_figure(report: Path) -> None:
    """Leave one section with one figure, drawn in PGF, of which a part is a picture."""
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


@pytest.mark.parametrize("option", ["", "--arxiv"])
def test_figures_in_pgf_have_words_of_the_document_and_find_the_pictures_beside_them(
    built_report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    need("pdflatex", "pgf.sty", "siunitx.sty", "lmodern.sty")
    project, out = tmp_path / "project", tmp_path / "out"
    shutil.copytree(built_report, project)
    only_one_figure(project / "report")
    monkeypatch.chdir(project)
    assert main(["export", "--figures", "pgf", *filter(None, [option]), str(out)]) == 0
    if option:
        extract(tmp_path / "out.tar.gz", out)

    built = build(out, (out / "main.tex").read_text("utf-8"), name="main")

    assert built.complaints == []
    assert "Zwölf_words of mine" in built.text
    assert "-img0.png" in built.log
