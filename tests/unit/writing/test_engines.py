from pathlib import Path

import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.latex import DEBIAN_PACKAGES, find_engine


def put_on_path(folder: Path, *programs: str) -> None:
    for program in programs:
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)


@pytest.mark.parametrize(
    ("programs", "engine"),
    [
        (("latexmk", "pdflatex", "lualatex", "tectonic"), "pdflatex"),
        (("latexmk", "lualatex", "tectonic"), "lualatex"),
        (("pdflatex", "tectonic"), "tectonic"),
    ],
)
def test_the_first_engine_whose_programs_are_all_there_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: tuple[str, ...], engine: str
) -> None:
    put_on_path(tmp_path, *programs)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_engine().name == engine


def test_without_an_engine_the_error_is_one_line_with_a_command_for_each_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ReportError) as caught:
        find_engine()

    message = str(caught.value)
    assert "\n" not in message
    for command in (
        f"apt-get install {' '.join(DEBIAN_PACKAGES)}",
        "dnf install",
        "brew install",
        "conda install",
    ):
        assert command in message
