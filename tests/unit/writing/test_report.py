import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_report.errors import ReportError
from gpu_report.findings.finding import Finding
from gpu_report.glossary import machine_words
from gpu_report.study.machine import hardware_words
from gpu_report.study.study import Study
from gpu_report.writing.layout import FLOATS_FOLDER, experiment_layout, report_layout
from gpu_report.writing.tex import escape
from tests.factories import make_record, make_study
from tests.report.synthetic import (
    LAPTOP,
    SERVER,
    TEMPLATES,
    render_devices,
    render_machines,
    render_study,
    render_two_machines,
    results_on,
    section_with_floats,
    tables_of,
    two_machines,
)

EXPERIMENTS = [experiment.name for experiment in make_study().experiments]


def whole(files: dict[str, str]) -> str:
    text = "\n".join(
        text for name, text in files.items() if name.startswith(("sections/", "floats/"))
    )
    return re.sub(r"\s+", " ", text)


def copied_templates(folder: Path) -> Path:
    for template in TEMPLATES.rglob("*.j2"):
        path = folder / template.relative_to(TEMPLATES)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.read_text("utf-8"), encoding="utf-8")
    return folder


def test_the_files_are_those_that_were_announced() -> None:
    files = render_devices("cpu")

    assert sorted(name for name in files if not name.startswith(FLOATS_FOLDER)) == sorted(
        report_layout(EXPERIMENTS).files
    )


def test_every_table_and_figure_is_a_file_that_one_section_takes_in() -> None:
    files = render_devices("cpu", "cuda")
    sections = "".join(text for name, text in files.items() if name.startswith("sections/"))

    taken = re.findall(r"\\gpurepfloat\{([^}]+)\}", sections)
    assert sorted(f"{FLOATS_FOLDER}/{key}.tex" for key in taken) == sorted(
        name for name in files if name.startswith(FLOATS_FOLDER)
    )
    assert r"\begin{gpureptable}" not in sections


def test_the_thesis_gets_every_section_once_in_order_and_no_preamble() -> None:
    text = render_devices("cpu", "cuda", "cuda:1")["gpu_analysis_sections.tex"]

    assert re.findall(r"^  (\w+),?%$", text, re.MULTILINE) == report_layout(EXPERIMENTS).sections
    assert not re.search(r"^[^%]*\\(usepackage|documentclass|begin)", text, re.MULTILINE)


@pytest.mark.parametrize("name", report_layout(EXPERIMENTS).sections)
def test_a_section_has_one_heading_and_a_label_and_no_preamble(name: str) -> None:
    text = render_devices("cpu")[f"sections/{name}.tex"]

    assert len(re.findall(r"\\gpurepsection[\[{]", text)) == 1
    assert f"{{sec:{name}}}" in text
    assert r"\usepackage" not in text


def rendered(*shown: str) -> dict[str, str]:
    """The report on one machine with these devices, or on two machines."""
    return render_two_machines() if shown == ("two machines",) else render_devices(*shown)


@pytest.mark.parametrize("shown", [("cpu",), ("cpu", "cuda"), ("two machines",)])
def test_every_reference_has_a_label_and_no_label_stands_twice(shown: tuple[str, ...]) -> None:
    text = whole(rendered(*shown))

    labels = re.findall(r"\\gpureplabel\{([^}]+)\}", text) + re.findall(
        r"section(?:\[[^]]*\])?\{[^}]*\}\{(sec:[^}]+)\}", text
    )
    assert len(labels) == len(set(labels))
    assert set(re.findall(r"\\gpurepref\{([^}]+)\}", text)) <= set(labels)


def test_without_an_accelerator_nothing_is_claimed_about_one() -> None:
    text = whole(render_devices("cpu"))

    assert " CUDA" not in text
    assert "speedup of" not in text


def test_sections_with_nothing_to_show_are_left_out_and_their_questions_listed_once() -> None:
    files = render_devices("cpu")
    taken = ",".join(re.findall(r"\\gpurepsections\{([^}]*)\}", files["gpu_report.tex"])).split(",")
    brackets, asked = re.findall(
        r"\\gpurepsections\[([^]]*)\]\{([^}]*)\}", files["gpu_analysis_sections.tex"]
    )[0]

    for name in (
        "crossover",
        "frontier",
        "models",
        "precision",
        "optimization",
        "memory",
        "transfer",
        "energy",
    ):
        assert name not in taken
        assert name in brackets.split(",")
        assert name not in re.findall(r"\w+", asked)
    assert "need a GPU" in files["sections/workloads.tex"]
    assert (
        r"\gpurepsections{" in render_devices("cpu", "cuda", "cuda:1")["gpu_analysis_sections.tex"]
    )


def test_an_experiment_that_no_machine_has_variants_of_is_one_sentence() -> None:
    files = render_devices("cpu")

    for name in ("crossover", "frontier", "models", "precision", "optimization", "memory"):
        assert "This experiment needs a GPU" in files[f"sections/{name}.tex"]
        assert len(files[f"sections/{name}.tex"]) < 600
        assert r"\gpurepfloat{" not in files[f"sections/{name}.tex"]


def test_the_report_is_about_the_first_machine_and_names_another_where_they_are_compared() -> None:
    files = render_two_machines()

    server = next(machine for machine in two_machines() if machine.id == SERVER)
    name = hardware_words(record.environment for record in server.records)
    assert f"Measured on {name}" in files["gpu_report.tex"]
    other = machine_words(LAPTOP)
    named = {path for path, text in files.items() if path.startswith("sections/") and other in text}
    assert named <= {"sections/machines.tex"}
    assert other in section_with_floats(files, "machines")


@pytest.mark.parametrize(
    ("common", "shown"), [(1, "tab:"), (6, "tab:"), (30, "fig:machines/machines_")]
)
def test_machines_side_by_side_have_a_table_or_where_it_would_be_long_a_figure(
    common: int, shown: str
) -> None:
    machine = results_on("cpu", "cuda")
    measured = [record for record in machine.records if record.status == "ok"]
    other = replace(machine, id="abacus-8c", records=measured[:common])

    section = section_with_floats(
        render_machines(make_study(devices=("cpu", "cuda")), [machine, other]), "machines"
    )

    assert len(measured) >= common
    assert "every configuration that both measured faster than" in section
    assert [label in section for label in ("tab:comparison", "fig:machines/")] == [
        shown == "tab:",
        shown != "tab:",
    ]
    assert "comparison" not in section_with_floats(render_devices("cpu"), "machines")


def test_every_option_of_a_ladder_is_explained_where_it_was_measured() -> None:
    text = render_devices("cpu", "cuda")["sections/optimization.tex"]

    assert text.count(r"\item[\gpurepname{") == 7
    assert "is captured once and then launched as one" in text


def test_the_accelerators_chapters_show_what_was_measured_or_that_nothing_was() -> None:
    with_accelerator, without = render_devices("cpu", "cuda"), render_devices("cpu")

    for name in ("transfer", "energy"):
        assert r"\gpurepfloat{" in with_accelerator[f"sections/{name}.tex"]
        assert r"\gpurepfloat{" not in without[f"sections/{name}.tex"]
    assert "tab:xeon-2c/efficiency" in without["sections/efficiency.tex"]


def test_no_table_is_empty_and_nothing_is_called_nan() -> None:
    for shown in (("cpu",), ("cpu", "cuda"), ("two machines",)):
        text = whole(rendered(*shown))

        assert not re.search(r"\\midrule\s*\\bottomrule", text)
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_a_study_of_which_nothing_was_measured_still_has_every_section() -> None:
    study = make_study(devices=("cpu",))
    records = [
        make_record(variant.slug, status="failed", reason="it broke") for variant in study.variants
    ]

    files = render_study(study, records=records)

    assert set(files) >= set(report_layout(EXPERIMENTS).files)
    assert "it broke" in files["sections/appendix.tex"]
    section = files["sections/batch_size.tex"].replace(r"\gpurepbreak{}", "")
    assert "it broke" in section
    assert r"logs/measure\_variant/" in section


def test_every_answer_has_its_question() -> None:
    finding = Finding(
        id="batch_size_smaller/first",
        experiment="batch_size",
        question="Is it so?",
        verdict="yes",
        statement="It is so, by 50 % & more.",
        evidence=(),
        threshold="Half of it.",
    )
    findings = [
        finding,
        finding.model_copy(
            update={"id": "batch_size_smaller/second", "verdict": "no", "statement": "It is not."}
        ),
    ]

    files = render_study(make_study(devices=("cpu",)), tables=tables_of("cpu"), findings=findings)
    text = files["sections/batch_size.tex"]

    assert r"\gpurepfinding{Is it so? \gpurepword{Yes.}}{It is so, by 50\,\% \& more.}" in text
    assert r"\gpurepfinding{Is it so? \gpurepword{No.}}{It is not.}" in text


def test_without_a_finding_that_recommends_nothing_is_recommended() -> None:
    text = render_study(make_study(devices=("cpu",)), tables=tables_of("cpu"), findings=[])[
        "sections/recommendations.tex"
    ]

    assert "lead to no recommendation" in text
    assert r"\item" not in text


def test_an_experiment_without_a_template_gets_its_question_table_figures_and_answers() -> None:
    study = without_templates(make_study())
    files = render_study(study, title="Mine")

    for experiment in study.experiments_with_variants:
        text = files[f"sections/{experiment.name}.tex"]
        assert rf"\begin{{quote}}\itshape {escape(experiment.question)}\end{{quote}}" in text
        assert re.search(rf"\\gpurepfloat\{{tab/[^}}]+/{experiment.name}\}}", text)
        assert re.search(rf"\\gpurepfloat\{{fig/[^}}]+/{experiment.name}_", text)
        assert r"\begin{gpurepfindings}" in text


def test_an_experiment_without_a_template_of_which_nothing_was_measured_says_why() -> None:
    study = without_templates(make_study(devices=("cpu",)))
    records = [
        make_record(variant.slug, status="failed", reason="it broke") for variant in study.variants
    ]

    files = render_study(study, records=records)

    assert "it broke" in files["sections/my_batch_size.tex"]
    assert "This experiment needs a GPU" in files["sections/my_crossover.tex"]


def test_an_experiment_alone_has_the_machine_what_it_trains_and_its_own_section() -> None:
    study = make_study(devices=("cpu",))
    alone = study.alone("batch_size")

    files, report = render_study(alone, alone=True), render_devices("cpu")

    assert sorted(name for name in files if not name.startswith(FLOATS_FOLDER)) == sorted(
        experiment_layout("batch_size").files
    )
    assert {name for name in files if name.startswith("sections/")} == {
        "sections/machine.tex",
        "sections/workloads.tex",
        "sections/batch_size.tex",
        "sections/networks.tex",
    }
    assert files["sections/batch_size.tex"] == report["sections/batch_size.tex"]
    assert preamble(files["gpu_report.tex"]) == preamble(report["gpu_report.tex"])
    assert "summary" not in files["gpu_report.tex"]


def preamble(document: str) -> str:
    return document.partition(r"\begin{document}")[0]


def without_templates(study: Study) -> Study:
    """The study with names that no template has."""
    return replace(
        study,
        experiments=tuple(replace(each, name=f"my_{each.name}") for each in study.experiments),
    )


@pytest.mark.parametrize(
    ("broken", "reason"),
    [(r"\VAR{experiment.nothing}", "no attribute 'nothing'"), (r"\BLOCK{fi}", "unknown tag 'fi'")],
)
def test_a_broken_section_is_an_error_with_file_and_line(
    tmp_path: Path, broken: str, reason: str
) -> None:
    templates = copied_templates(tmp_path)
    section = templates / "sections" / "workers.tex.j2"
    lines = section.read_text("utf-8").splitlines()
    section.write_text("\n".join([*lines[:2], broken, *lines[2:]]), encoding="utf-8")

    with pytest.raises(ReportError, match=rf"sections/workers\.tex\.j2:3: .*{reason}"):
        render_study(make_study(devices=("cpu",)), tables=tables_of("cpu"), templates=templates)


def test_a_metric_that_does_not_exist_is_an_error_that_names_those_that_do(tmp_path: Path) -> None:
    templates = copied_templates(tmp_path)
    section = templates / "sections" / "workers.tex.j2"
    section.write_text(
        section.read_text("utf-8").replace('"data_wait"', '"data_weight"'), encoding="utf-8"
    )

    with pytest.raises(
        ReportError,
        match=r"workers\.tex\.j2:\d+: there is no metric 'data_weight'; use one of .*data_wait",
    ):
        render_study(make_study(devices=("cpu",)), tables=tables_of("cpu"), templates=templates)


def test_the_listing_is_the_real_training_step() -> None:
    text = render_devices("cpu")["sections/implementation.tex"].replace(r"\gpurepbreak{}", "")

    assert r"def\ train\_step(" in text or r"train\_step(" in text
    assert "src/gpu" in text


def test_the_same_input_gives_the_same_text() -> None:
    assert render_study(make_study(devices=("cpu",)), tables=tables_of("cpu")) == render_devices(
        "cpu"
    )


def test_where_data_lies_is_reported_as_it_is_on_the_disk_of_the_reader() -> None:
    imported = whole(render_study(make_study(devices=("cpu",)), folder="results/imported/xeon-2c"))

    assert "results/imported" in imported.replace(r"\gpurepbreak{}", "")
    assert "results/machines" not in imported.replace(r"\gpurepbreak{}", "")


def test_the_checklist_has_at_most_eight_lines() -> None:
    appendix = render_devices("cpu")["sections/appendix.tex"]

    checklist = appendix.split(r"\begin{itemize}")[1].split(r"\end{itemize}")[0]
    assert 0 < checklist.count(r"\item") <= 8
