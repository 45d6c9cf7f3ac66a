from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpu_report.errors import ReportError
from gpu_report.tables.bundle import rows_of
from gpu_report.writing.engines import Engine, find_engine
from gpu_report.writing.latex import compile_report, newest_measurement
from tests.factories import make_record, make_records, make_study, make_tables
from tests.report.pdf_reading import pdf_information, said_by
from tests.report.synthetic import (
    TEMPLATES,
    render_devices,
    render_machines,
    render_two_machines,
    results_of,
    results_on,
    two_machines,
    write_report,
)

pytestmark = pytest.mark.slow
DATED = datetime(2026, 5, 4, 10, tzinfo=UTC)
MOST_PAGES = 44
"""Of a report on all variants of the default study with stand-ins for its figures."""
HOSTILE = r"a_b#c&d%e$f~g^h\i{j}k<l>|`'\"[m]*--é中🙂 \input{/etc/passwd} \VAR{x} {{x}} $(rm) " + "kernel" * 40


def pdf_text(pdf: Path) -> str:
    """The words of a PDF, one blank between them wherever the lines end."""
    return " ".join(said_by("pdftotext", "-layout", pdf, "-").split())


def pdf_pages(pdf: Path) -> int:
    return int(pdf_information(pdf)["Pages"])


def build(folder: Path, *devices: str) -> Path:
    return write_report(folder, render_devices(*devices), [results_on(*devices)])


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cuda")])
def test_a_report_compiles_without_a_problem_on_at_least_twelve_pages(tmp_path: Path, devices: tuple[str, ...]) -> None:
    compiled = compile_report(build(tmp_path, *devices), dated=DATED)

    assert compiled.problems == ()
    assert pdf_pages(compiled.pdf) >= 12
    assert "??" not in pdf_text(compiled.pdf)


def test_experiments_without_templates_compile_alone_without_a_problem(tmp_path: Path) -> None:
    study = make_study()
    study = replace(study, experiments=tuple(replace(each, name=f"my_{each.name}") for each in study.experiments))
    results = results_of(study)
    files = render_machines(study, [results], alone=True)

    compiled = compile_report(write_report(tmp_path, files, [results]), dated=DATED)

    assert compiled.problems == ()
    assert "??" not in pdf_text(compiled.pdf)


def test_the_full_study_of_one_machine_stays_short_enough_to_be_read(tmp_path: Path) -> None:
    compiled = compile_report(build(tmp_path, "cpu", "cuda"), dated=DATED)

    assert pdf_pages(compiled.pdf) <= MOST_PAGES


def test_a_report_on_a_laptop_and_a_server_compiles_without_a_problem_and_to_the_same_bytes(tmp_path: Path) -> None:
    folders = [write_report(tmp_path / name, render_two_machines(), two_machines()) for name in ("one", "an other")]

    first, second = (compile_report(folder, dated=DATED) for folder in folders)

    assert first.problems == ()
    assert "??" not in pdf_text(first.pdf)
    assert 20 <= pdf_pages(first.pdf) <= MOST_PAGES
    assert first.pdf.read_bytes() == second.pdf.read_bytes()


def test_the_same_records_give_the_same_bytes_in_two_folders_dated_by_the_measuring(tmp_path: Path) -> None:
    first, second = (compile_report(build(tmp_path / name, "cpu"), dated=DATED).pdf for name in ("one", "an other"))

    assert first.read_bytes() == second.read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()
    information = said_by("pdfinfo", "-isodates", first)
    assert "2026-05-04T10:00:00" in information


def test_hostile_names_are_shown_as_they_are(tmp_path: Path) -> None:
    study = make_study(devices=("cpu",))
    facts = {"title": HOSTILE, "data_description": HOSTILE, "sample_description": HOSTILE, "quality_name": HOSTILE}
    records = [
        make_record(slug, facts=facts, environment={"os": HOSTILE, "cpu_model": HOSTILE})
        for slug in (variant.slug for variant in study.variants[:-1])
    ]
    records.append(make_record(study.variants[-1].slug, status="failed", reason=HOSTILE))
    tables = make_tables(study, records, operations={HOSTILE: HOSTILE, "aten::mm": "matrix product"})
    results = results_of(study, records=records, tables=tables)
    files = render_machines(study, [results], title=HOSTILE)

    compiled = compile_report(
        write_report(tmp_path, files, [results]), dated=newest_measurement(rows_of(tables.variants))
    )

    text = pdf_text(compiled.pdf)
    assert compiled.problems == ()
    assert r"\input{/etc/passwd}" in text
    assert "root:" not in text
    assert "U+4E2D" in text


def test_a_failed_variant_is_shown_with_its_reason(tmp_path: Path) -> None:
    study = make_study(devices=("cpu", "cuda"))
    failed = next(variant.slug for variant in study.variants if variant.workload == "lstm" and variant.device == "cuda")
    records = [
        record if record.variant != failed else make_record(failed, status="oom") for record in make_records(study)
    ]
    results = results_of(study, records=records)

    compiled = compile_report(write_report(tmp_path, render_machines(study, [results]), [results]), dated=DATED)

    assert compiled.problems == ()
    assert "tried to allocate 2.00 GiB" in pdf_text(compiled.pdf)


def test_a_latex_error_names_file_and_line_and_leaves_the_old_pdf(tmp_path: Path) -> None:
    folder = build(tmp_path, "cpu")
    (folder / "gpu_report.pdf").write_bytes(b"the old one")
    section = folder / "sections" / "batch_size.tex"
    section.write_text(section.read_text("utf-8") + "\n\\nosuchcommand\n", encoding="utf-8")
    line = len(section.read_text("utf-8").splitlines())

    for _ in range(3):
        with pytest.raises(ReportError, match=rf"sections/batch_size\.tex:{line}: Undefined control") as caught:
            compile_report(folder, dated=DATED)

    assert "\n" not in str(caught.value)
    assert (folder / "gpu_report.pdf").read_bytes() == b"the old one"


def test_a_number_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = build(tmp_path, "cpu")
    section = folder / "sections" / "summary.tex"
    section.write_text(section.read_text("utf-8") + "\n\\gpurep{xeon-2c/cnn/cpu/nothing}\n", encoding="utf-8")

    with pytest.raises(ReportError, match=r"there is no number `xeon-2c/cnn/cpu/nothing'"):
        compile_report(folder, dated=DATED)


def test_problems_of_the_log_are_reported_with_their_file(tmp_path: Path) -> None:
    folder = build(tmp_path, "cpu")
    section = folder / "sections" / "summary.tex"
    more = r"\par\ref{nowhere} \rule{300mm}{1mm}\par" + "\n"
    section.write_text(section.read_text("utf-8") + more, encoding="utf-8")

    problems = compile_report(folder, dated=DATED).problems

    assert any("sections/summary.tex" in problem and "`nowhere'" in problem for problem in problems)
    assert any("sections/summary.tex" in problem and "too wide" in problem for problem in problems)


@pytest.mark.parametrize(
    ("document_class", "options"),
    [
        ("{article}", ""),
        ("{report}", "level=chapter,prefix=mine:"),
        ("{book}", "level=section,figurewidth=0.5\\linewidth"),
        ("{article}", "level=subsection"),
        ("[twocolumn]{article}", ""),
    ],
)
def test_a_thesis_takes_the_sections_from_another_folder(tmp_path: Path, document_class: str, options: str) -> None:
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

    assert [problem for problem in compiled.problems if "undefined" in problem or "multiply" in problem] == []
    assert "DataLoader workers" in pdf_text(compiled.pdf)


def test_lualatex_makes_the_report_too(tmp_path: Path) -> None:
    engine: Engine = find_engine("lualatex")

    compiled = compile_report(build(tmp_path, "cpu"), dated=DATED, engine=engine)

    assert pdf_pages(compiled.pdf) >= 12


def test_an_experiment_of_ones_own_is_reported_with_a_section_of_its_own(tmp_path: Path) -> None:
    study = make_study(devices=("cpu",))
    loaders = next(experiment for experiment in study.experiments if experiment.axis == "workers")
    added = replace(loaders, name="my_loaders", question="Does mine load faster?")
    study = replace(study, experiments=(*study.experiments, added))
    templates = tmp_path / "templates"
    templates.mkdir()
    for template in TEMPLATES.rglob("*.j2"):
        path = templates / template.relative_to(TEMPLATES)
        path.parent.mkdir(exist_ok=True)
        path.write_text(template.read_text("utf-8"), encoding="utf-8")
    (templates / "sections" / "my_loaders.tex.j2").write_text(
        r"""\BLOCK{from "macros.tex.j2" import section, question, results}
\VAR{section("My loaders", experiment.name)}
\VAR{question(experiment)}
Said by me.
\VAR{results(experiment, ["throughput", "data_wait"])}
""",
        encoding="utf-8",
    )
    results = results_of(study)
    folder = write_report(tmp_path / "report", render_machines(study, [results], templates=templates), [results])

    compiled = compile_report(folder, dated=DATED)

    assert compiled.problems == ()
    assert "Does mine load faster?" in pdf_text(compiled.pdf)


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cuda")])
def test_a_study_of_own_loops_alone_compiles_and_tells_no_other_training(
    tmp_path: Path, devices: tuple[str, ...]
) -> None:
    study = make_study(devices=devices)
    of_loops = [each for each in study.experiments if each.name.startswith("linear_regression")]
    study = replace(study, experiments=tuple(of_loops))
    results = results_of(study)

    compiled = compile_report(write_report(tmp_path, render_machines(study, [results]), [results]), dated=DATED)

    assert compiled.problems == ()
    text = " ".join(pdf_text(compiled.pdf).split())
    assert "held-out quality step by step" not in text
