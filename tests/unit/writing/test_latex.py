from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpu_report.errors import FileWriteError, ReportError
from gpu_report.writing.latex import ENGINES, Engine, compile_report

DATED = datetime(2026, 5, 4, tzinfo=UTC)


def shell_engine(script: str) -> Engine:
    """An engine whose work is a line of shell; the options it gets are ignored."""
    return Engine(name="shell", programs=("sh",), arguments=("-c", script))


def test_the_engine_is_given_the_date_and_runs_where_the_text_lies(tmp_path: Path) -> None:
    script = 'echo "$SOURCE_DATE_EPOCH $FORCE_SOURCE_DATE" > build/gpu_report.pdf; pwd > where'

    compiled = compile_report(tmp_path, dated=DATED, engine=shell_engine(script))

    assert compiled.read_text() == f"{int(DATED.timestamp())} 1\n"
    assert Path((tmp_path / "where").read_text().strip()) == tmp_path


def test_a_pdf_put_elsewhere_leads_to_data_of_the_project_that_it_lies_in(tmp_path: Path) -> None:
    text, pdf = tmp_path / "report/experiments/mine", tmp_path / "report/mine.pdf"
    text.mkdir(parents=True)
    (tmp_path / "data.csv").touch()

    compiled = compile_report(
        text,
        dated=DATED,
        engine=shell_engine("ls build/project/data.csv > build/gpu_report.pdf"),
        pdf=pdf,
    )

    assert compiled == pdf
    assert pdf.read_text() == "build/project/data.csv\n"


def test_latex_runs_again_where_the_pages_of_its_contents_may_be_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "latexmk").write_text(
        "#!/bin/sh\n"
        'echo "$1" >> build/gpu_report.pdf\n'
        'case "$1" in\n'
        "-g) echo done > build/gpu_report.log ;;\n"
        "*) echo 'Warning: Rerun to get cross-references right.' > build/gpu_report.log ;;\n"
        "esac\n"
    )
    (programs / "latexmk").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")

    compiled = compile_report(tmp_path, dated=DATED, engine=ENGINES[0])

    assert compiled.read_text().splitlines() == ["-pdf", "-g"]


def test_an_engine_that_fails_without_a_log_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"gpu_report\.tex: sh ended with status 7 \(no memory\)"):
        compile_report(tmp_path, dated=DATED, engine=shell_engine("echo no memory; exit 7"))


def test_an_engine_that_writes_no_pdf_is_an_error_though_an_earlier_build_left_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "gpu_report.pdf").write_text("old")

    with pytest.raises(ReportError):
        compile_report(tmp_path, dated=DATED, engine=shell_engine("true"))


def test_a_build_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file in the way")

    with pytest.raises(FileWriteError, match=r"cannot empty .*build"):
        compile_report(tmp_path, dated=DATED, engine=shell_engine("true"))


@pytest.mark.parametrize("engine", ENGINES[:2], ids=lambda engine: engine.name)
def test_no_file_outside_of_the_report_is_read(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "secret.tex").write_text("a secret", "utf-8")
    report = tmp_path / "report"
    report.mkdir()
    (report / "part.tex").write_text("a part", "utf-8")
    whole = r"\documentclass{article}\begin{document}\input{part}\end{document}"
    (report / "gpu_report.tex").write_text(whole, "utf-8")

    assert compile_report(report, dated=DATED, engine=engine).exists()

    for outside in ("../secret", str(tmp_path / "secret")):
        (report / "gpu_report.tex").write_text(whole.replace("part", outside), "utf-8")
        with pytest.raises(ReportError):
            compile_report(report, dated=DATED, engine=engine)
