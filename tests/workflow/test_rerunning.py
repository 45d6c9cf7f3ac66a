"""What runs again, and what does not, when something changed since the report was built."""

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .conftest import PAGE, PDF, Project


def touch_later(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    later = time.time() + 2
    os.utime(path, (later, later))


def test_a_second_run_has_nothing_to_do_and_a_changed_variant_alone_is_measured_again(
    tiny: Project,
) -> None:
    again = tiny.snakemake(PDF)
    tiny.change_config(
        lambda config: config["experiments"]["batch_size"]["grid"][0].update(batch_size=[8, 32])
    )
    planned = tiny.planned(PDF)

    assert again.returncode == 0
    assert "Nothing to be done" in again.stderr + again.stdout
    assert planned["measure_variant"] == planned["tabulate_trace"] == 1


@pytest.mark.slow
def test_the_configurations_of_one_workload_are_measured_before_those_of_the_next(
    tiny: Project,
) -> None:
    names = ["tiny", "other"]
    grid = [{"workload": names, "epochs": 2, "batch_size": size} for size in (4, 12, 24)]

    def ask(config: dict[str, Any]) -> None:
        config["workloads"]["other"] = config["workloads"]["tiny"]
        config["experiments"]["batch_size"].update(grid=grid, baseline=4)

    tiny.change_config(ask)
    built = tiny.snakemake("batch_size")

    assert built.returncode == 0, built.stderr
    times = {
        name: [
            json.loads(path.read_text("utf-8"))["provenance"]["measured_at"]
            for path in tiny.folder.glob(f"results/machines/*/runs/{name}-*/record.json")
        ]
        for name in names
    }
    assert [len(each) for each in times.values()] == [5, 3]  # two were there
    assert max(times["tiny"]) <= min(times["other"])  # in whole seconds


TEMPLATE = "src/gpu_report/writing/templates/sections/batch_size.tex.j2"
RUN = "results/machines/*/runs/tiny-cpu-b16-w0-fp32-e2"
TARGETS = (PDF, PAGE, "report/batch_size.pdf", "batch_size", "results/tensorboard")
MEASURED = {
    "compile_report",
    "write_page",
    "compile_report_alone",
    "batch_size",
    "write_tensorboard_logs",
}
MADE_AGAIN = {
    f"{RUN}/record.json": {"measure_variant", *MEASURED},
    f"{RUN}/trace/*.gz": {"measure_variant", *MEASURED},
    f"{RUN}/trace_tables/steps.csv": {
        "tabulate_trace",
        "compile_report",
        "write_page",
        "compile_report_alone",
    },
    "results/machines": {"calibrate_machine", "measure_variant", *MEASURED},
    "results/machines/*/tables/batch_size.csv": {"tabulate_study", "compile_report", "write_page"},
    "results/machines/*/tables/study.json": {"tabulate_study", "compile_report", "write_page"},
    "results/machines/*/findings.csv": {"derive_findings", "compile_report", "write_page"},
    "report/figures/*/study_steps.pdf": {"draw_figures", "compile_report"},
    "report/gpu_analysis_sections.tex": {"write_sections", "compile_report"},
    "report/experiments/*/sections/batch_size.tex": {
        "write_sections_alone",
        "compile_report_alone",
    },
    "results/tensorboard/*/events*": {"write_tensorboard_logs"},
}


@pytest.mark.slow
def test_whatever_is_deleted_is_made_again_with_all_that_follows_from_it(
    tiny: Project, tmp_path: Path
) -> None:
    built = tiny.snakemake(*TARGETS)
    assert built.returncode == 0, built.stderr
    for pattern, rules in MADE_AGAIN.items():
        deleted = next(tiny.folder.glob(pattern))
        held = deleted.rename(tmp_path / "held")

        planned = tiny.planned(*TARGETS)

        assert rules <= planned.keys(), pattern
        if deleted.exists():  # which machine this is was found out again
            shutil.rmtree(deleted)
        held.rename(deleted)
    assert tiny.planned(*TARGETS) == {}


@pytest.mark.slow
def test_the_report_of_another_study_in_the_same_folder_is_kept(tiny: Project) -> None:
    before = (tiny.folder / PDF).read_bytes()
    tiny.change_config(lambda config: config.update(name="other", title="Another study"))

    built = tiny.snakemake(PDF)

    (kept,) = (tiny.folder / "report").glob("gpu_report-tiny-*.pdf")
    assert kept.name in built.stdout + built.stderr
    assert kept.read_bytes() == before != (tiny.folder / PDF).read_bytes()


@pytest.mark.slow
def test_an_experiment_of_another_study_leaves_the_results_of_this_one_as_they_are(
    tiny: Project,
) -> None:
    other = replace(tiny, configfile="config/other.yaml")
    shutil.copy2(tiny.folder / tiny.configfile, tiny.folder / other.configfile)

    def ask(config: dict[str, Any]) -> None:
        grid = [{"workload": "tiny", "epochs": 3, "batch_size": [8, 32]}]
        experiment = {**config["experiments"]["batch_size"], "grid": grid}
        config.update(name="other", experiments={"my_batch_size": experiment})

    other.change_config(ask)
    measured = other.snakemake("my_batch_size")
    cited = tiny.gpu_report("cite", "--configfile", tiny.configfile)

    assert measured.returncode == 0, measured.stderr
    assert "2 configurations in 6 fresh processes" in cited.stdout, cited.stderr
    assert tiny.planned(PDF, PAGE) == {}


@pytest.mark.slow
def test_an_edited_section_is_written_and_compiled_again_without_measuring(tiny: Project) -> None:
    template = tiny.folder / TEMPLATE
    touch_later(template, template.read_text("utf-8") + "\nA sentence added by hand.\n")

    assert tiny.planned(PDF) == {"write_sections": 1, "compile_report": 1}
    assert tiny.snakemake(PDF).returncode == 0
    text = tiny.run("pdftotext", PDF, "-").stdout
    assert "A sentence added by hand." in text


@pytest.mark.slow
def test_a_broken_template_fails_every_time_and_names_file_and_line(tiny: Project) -> None:
    template = tiny.folder / TEMPLATE
    lines = template.read_text("utf-8").splitlines()
    touch_later(template, "\n".join([*lines[:3], r"\VAR{nothing_by_this_name}", *lines[3:]]))

    runs = [tiny.snakemake(PDF) for _ in range(2)]

    assert [run.returncode for run in runs] == [1, 1]
    for run in runs:
        assert f"{TEMPLATE}:4" in run.stdout + run.stderr
        assert "nothing_by_this_name" in run.stdout + run.stderr


@pytest.mark.slow
def test_an_edit_to_measuring_code_does_not_retrain_but_is_listed(tiny: Project) -> None:
    source = tiny.folder / "src/gpu_report/measure/training.py"
    touch_later(source, source.read_text("utf-8") + "\nEDITED = True\n")

    assert "measure_variant" not in tiny.planned(PDF)
    assert (
        "by another version of the measuring code"
        in tiny.gpu_report("list", "--configfile", tiny.configfile).stdout
    )


def copy_records(source: Project, target: Project) -> None:
    """Records, traces and calibration alone, without Snakemake's memory of how they were made."""
    for record in source.records():
        run = target.folder / record.parent.relative_to(source.folder)
        run.mkdir(parents=True)
        shutil.copy2(record, run)
        for folder in ("trace", "rich_trace"):
            shutil.copytree(record.parent / folder, run / folder)
    for calibration in source.folder.glob("results/machines/*/calibration.json"):
        shutil.copy2(calibration, target.folder / calibration.relative_to(source.folder))


@pytest.mark.slow
def test_the_same_records_give_the_same_pdf_in_another_folder(
    built_tiny: Project, unbuilt_tiny: Project
) -> None:
    copy_records(built_tiny, unbuilt_tiny)

    rebuilt = unbuilt_tiny.snakemake(PDF)

    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
    assert "measure_variant" not in rebuilt.stdout + rebuilt.stderr
    assert (unbuilt_tiny.folder / PDF).read_bytes() == (built_tiny.folder / PDF).read_bytes()
