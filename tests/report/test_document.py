import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.latex import compile_report
from gpu_report.writing.layout import report_layout
from tests.factories import make_record, make_records, make_study
from tests.report.conftest import Compiled
from tests.report.latex_log import problems_of
from tests.report.pdf_reading import pdf_information, pdf_metadata, said_by
from tests.report.synthetic import (
    DATED,
    TEMPLATES,
    TWO_MACHINES,
    render_devices,
    render_machines,
    results_of,
    results_on,
    write_report,
)

MOST_PAGES = 44
"""Of a report on all variants of the default study with stand-ins for its figures."""
MOST_PAGES_ON_SEVERAL_GPUS = 3.5
"""With stand-ins, which are higher than the figures, and the places that TeX leaves blank."""
A4_HEIGHT_PT = 842
TITLE = r"Größe & 50% of <x> \ {y} #1 _z^ 中"
OWN_SECTION = r"""\BLOCK{from "macros.tex.j2" import section, question, results}
\VAR{section("My loaders", experiment.name)}
\VAR{question(experiment)}
Said by me.
\VAR{results(experiment, ["throughput", "data_wait"])}
"""


def pdf_text(pdf: Path) -> str:
    """The words of a PDF, one blank between them wherever the lines end."""
    return " ".join(said_by("pdftotext", "-layout", pdf, "-").split())


def pdf_pages(pdf: Path) -> int:
    return int(pdf_information(pdf)["Pages"])


def build(folder: Path, *devices: str) -> Path:
    return write_report(folder, render_devices(*devices), [results_on(*devices)])


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(("cpu",), marks=pytest.mark.slow),
        ("cpu", "cuda"),
        pytest.param((TWO_MACHINES,), marks=pytest.mark.slow),
    ],
)
def test_a_report_compiles_without_a_problem_and_stays_short_enough_to_be_read(
    compiled: Compiled, shown: tuple[str, ...]
) -> None:
    report = compiled(*shown)

    assert problems_of(report) == []
    assert 12 <= pdf_pages(report) <= MOST_PAGES
    assert "??" not in pdf_text(report)


@pytest.mark.slow
def test_the_sections_about_several_gpus_are_short_enough_to_be_read(compiled: Compiled) -> None:
    devices = ("cpu", "cuda", "cuda:1")
    numbers = report_layout(
        [experiment.name for experiment in make_study(devices=devices).experiments]
    ).body

    pdf = compiled(*devices)

    first, after = (
        numbers.index(name) + 1 + later for name, later in (("scaling", 0), ("model_split", 1))
    )
    assert begin_of_section(pdf, after) - begin_of_section(pdf, first) < MOST_PAGES_ON_SEVERAL_GPUS


def begin_of_section(pdf: Path, number: int) -> float:
    """Where it begins, in pages from the first."""
    found = re.search(
        rf'(\d+) \[ XYZ +\d+ +(\d+) .*"section\.{number}"', said_by("pdfinfo", "-dests", pdf)
    )
    assert found
    return int(found[1]) - int(found[2]) / A4_HEIGHT_PT


@pytest.mark.slow
def test_lualatex_makes_the_report_too(compiled: Compiled) -> None:
    assert pdf_pages(compiled("cpu", engine="lualatex")) >= 12


@pytest.mark.slow
def test_experiments_without_templates_compile_alone_without_a_problem(tmp_path: Path) -> None:
    study = make_study()
    study = replace(
        study,
        experiments=tuple(replace(each, name=f"my_{each.name}") for each in study.experiments),
    )
    results = results_of(study)
    files = render_machines(study, [results], alone=True)

    compiled = compile_report(write_report(tmp_path, files, [results]), dated=DATED)

    assert problems_of(compiled) == []
    assert "??" not in pdf_text(compiled)


@pytest.mark.slow
def test_a_failed_variant_an_experiment_of_ones_own_and_a_title_of_any_characters_are_shown(
    tmp_path: Path,
) -> None:
    study = make_study(devices=("cpu", "cuda"))
    loaders = next(experiment for experiment in study.experiments if experiment.axis == "workers")
    added = replace(loaders, name="my_loaders", question="Does mine load faster?")
    study = replace(study, experiments=(*study.experiments, added))
    failed = next(
        variant.slug
        for variant in study.variants
        if variant.workload == "lstm" and variant.device == "cuda"
    )
    records = [
        record if record.variant != failed else make_record(failed, status="oom")
        for record in make_records(study)
    ]
    templates = tmp_path / "templates"
    shutil.copytree(
        TEMPLATES,
        templates,
        ignore=lambda _, names: [name for name in names if is_no_template(name)],
    )
    (templates / "sections" / "my_loaders.tex.j2").write_text(OWN_SECTION, encoding="utf-8")
    results = results_of(study, records=records)
    files = render_machines(study, [results], templates=templates, title=TITLE)

    compiled = compile_report(write_report(tmp_path / "report", files, [results]), dated=DATED)

    assert problems_of(compiled) == []
    text = pdf_text(compiled)
    assert "tried to allocate 2.00 GiB" in text
    assert "Does mine load faster?" in text
    assert "Said by me." in text
    assert pdf_information(compiled)["Title"] == TITLE
    assert pdf_metadata(compiled)["dc:title"] == TITLE


def is_no_template(name: str) -> bool:
    return "." in name and not name.endswith(".j2")


def test_a_latex_error_names_file_and_line_and_leaves_the_old_pdf(tmp_path: Path) -> None:
    folder = build(tmp_path, "cpu")
    (folder / "gpu_report.pdf").write_bytes(b"the old one")
    section = folder / "sections" / "batch_size.tex"
    section.write_text(section.read_text("utf-8") + "\n\\nosuchcommand\n", encoding="utf-8")
    line = len(section.read_text("utf-8").splitlines())

    for _ in range(2):
        with pytest.raises(
            ReportError, match=rf"sections/batch_size\.tex:{line}: Undefined control"
        ) as caught:
            compile_report(folder, dated=DATED)

    assert "\n" not in str(caught.value)
    assert (folder / "gpu_report.pdf").read_bytes() == b"the old one"


@pytest.mark.slow
def test_a_number_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = build(tmp_path, "cpu")
    section = folder / "sections" / "summary.tex"
    section.write_text(
        section.read_text("utf-8") + "\n\\gpurep{xeon-2c/cnn/cpu/nothing}\n", encoding="utf-8"
    )

    with pytest.raises(ReportError, match=r"there is no number `xeon-2c/cnn/cpu/nothing'"):
        compile_report(folder, dated=DATED)


@pytest.mark.slow
def test_problems_of_the_log_are_reported_with_their_file(tmp_path: Path) -> None:
    folder = build(tmp_path, "cpu")
    section = folder / "sections" / "summary.tex"
    more = r"\par\ref{nowhere} \rule{300mm}{1mm}\par" + "\n"
    section.write_text(section.read_text("utf-8") + more, encoding="utf-8")

    problems = problems_of(compile_report(folder, dated=DATED))

    assert any("sections/summary.tex" in problem and "`nowhere'" in problem for problem in problems)
    assert any("sections/summary.tex" in problem and "too wide" in problem for problem in problems)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document_class", "options"),
    [
        ("{book}", "level=subsection,prefix=mine:,figurewidth=0.5\\linewidth"),
        ("[twocolumn]{article}", ""),
    ],
)
def test_a_thesis_takes_the_sections_from_another_folder(
    tmp_path: Path, document_class: str, options: str
) -> None:
    build(tmp_path / "measured", "cpu")
    (tmp_path / "gpu_report.tex").write_text(
        rf"""\documentclass{document_class}
\makeatletter\def\input@path{{{{measured/}}}}\makeatother
\usepackage[folder=measured,{options}]{{gpu_report}}
\begin{{document}}
\tableofcontents
\section{{Mine with \gpurep{{xeon-2c/cnn/cpu/step_time}}}}
\input{{measured/gpu_analysis_sections}}
\end{{document}}
""",
        encoding="utf-8",
    )

    compiled = compile_report(tmp_path, dated=DATED)

    assert [
        problem
        for problem in problems_of(compiled)
        if "undefined" in problem or "multiply" in problem
    ] == []
    assert "DataLoader workers" in pdf_text(compiled)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cuda")])
def test_a_study_of_custom_training_loops_alone_compiles_and_shows_no_other_training(
    tmp_path: Path, devices: tuple[str, ...]
) -> None:
    study = make_study(devices=devices)
    of_loops = [each for each in study.experiments if each.name.startswith("linear_regression")]
    study = replace(study, experiments=tuple(of_loops))
    results = results_of(study)

    compiled = compile_report(
        write_report(tmp_path, render_machines(study, [results]), [results]), dated=DATED
    )

    assert problems_of(compiled) == []
    text = " ".join(pdf_text(compiled).split())
    assert "held-out quality step by step" not in text
