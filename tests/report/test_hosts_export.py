"""What `gpu-report export` writes compiles wherever it is put: beside a thesis, in a folder below
it, at arXiv.
"""

import subprocess
from pathlib import Path

import pytest

from gpu_report.cli import main
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
