import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.environment import TEMPLATES
from gpu_report.writing.latex import compile_report
from tests.factories import make_record, make_records, make_study
from tests.report.conftest import Compiled
from tests.report.latex_log import problems_of
from tests.report.pdf_reading import pdf_information, pdf_metadata, said_by
from tests.report.synthetic import (
    DATED,
    TWO_MACHINES,
    render_devices,
    render_machines,
    results_of,
    results_on,
    write_report,
)

MOST_PAGES = 44
MOST_PAGES_ON_CPU = 10
"""Of a report on all variants of the default study with stand-ins for its figures."""
TITLE = r"Größe & 50% of <x> \ {y} #1 _z^ 中"
TYPED = re.compile(r"(?<![\w.-])\d[\d.,]*(?![\w-])")
"""A number that is no part of a name such as fp32 or SHA-256."""
UNSAID = (
    re.compile(r"%%.*"),
    re.compile(r"\\(?:VAR|BLOCK)\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"),
    re.compile(r"\\[\[(].*?\\[\])]", re.DOTALL),
    re.compile(r"\$[^$]*\$"),
    re.compile(r"\\gpurep\w*\{[^}]*\}"),
)
"""Of a template: comments, code, formulas, and numbers by their key."""
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
    ("shown", "least", "most"),
    [
        pytest.param(("cpu",), 8, MOST_PAGES_ON_CPU, marks=pytest.mark.slow),
        (("cpu", "cuda"), 12, MOST_PAGES),
        pytest.param((TWO_MACHINES,), 12, MOST_PAGES, marks=pytest.mark.slow),
    ],
)
def test_a_report_compiles_without_a_problem_and_stays_short_enough_to_be_read(
    compiled: Compiled, shown: tuple[str, ...], least: int, most: int
) -> None:
    report = compiled(*shown)

    assert problems_of(report) == []
    assert least <= pdf_pages(report) <= most
    assert "??" not in pdf_text(report)


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
    files = render_machines(study, [results], templates=[templates], title=TITLE)

    compiled = compile_report(write_report(tmp_path / "report", files, [results]), dated=DATED)

    assert problems_of(compiled) == []
    text = pdf_text(compiled)
    assert "has no numbers: out of memory" in text
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
def test_problems_of_the_log_are_reported_with_their_file(tmp_path: Path) -> None:
    folder = build(tmp_path, "cpu")
    section = folder / "sections" / "summary.tex"
    more = r"\par\ref{nowhere} \rule{300mm}{1mm}\par" + "\n"
    section.write_text(section.read_text("utf-8") + more, encoding="utf-8")

    problems = problems_of(compile_report(folder, dated=DATED))

    assert any("sections/summary.tex" in problem and "`nowhere'" in problem for problem in problems)
    assert any("sections/summary.tex" in problem and "too wide" in problem for problem in problems)


@pytest.mark.parametrize(
    "template", sorted((TEMPLATES / "sections").glob("*.j2")), ids=lambda path: path.name
)
def test_no_number_but_0_and_1_is_typed_into_a_sentence(template: Path) -> None:
    text = template.read_text("utf-8")
    for silent in UNSAID:
        text = silent.sub("", text)

    assert [number for number in TYPED.findall(text) if number.rstrip(".,") not in ("0", "1")] == []
