"""A study with a time budget, from configuration to report."""

import json
import re

import pytest

from gpu_report.study.machine import find_machine

from .conftest import PDF, Project

pytestmark = pytest.mark.slow


def processes(project: Project) -> set[int]:
    return {len(json.loads(path.read_text("utf-8"))["repetitions"]) for path in project.records()}


def test_a_budget_measures_three_processes_first_and_a_later_run_without_one_the_others(
    unbuilt_tiny: Project,
) -> None:
    unbuilt_tiny.change_config(lambda config: config["protocol"].update(repetitions=5))
    budget = ("--config", "minutes=0.01", "--")

    built = unbuilt_tiny.snakemake(*budget, PDF)
    assert built.returncode == 0, built.stdout + built.stderr
    spent = re.search(r"spent of 0.01 minutes; .*", built.stdout)
    text = " ".join(unbuilt_tiny.run("pdftotext", PDF, "-").stdout.split())

    assert spent, built.stdout
    assert processes(unbuilt_tiny) == {3}
    assert ("decide no more throughput comparisons" in text) != ("would take" in spent[0])
    assert "trained in fewer processes than the study requests" in text
    assert unbuilt_tiny.planned(PDF, options=budget[:2]) == {}

    assert unbuilt_tiny.snakemake(PDF).returncode == 0
    assert processes(unbuilt_tiny) == {5}
    assert unbuilt_tiny.planned(PDF) == {}


def test_an_experiment_alone_goes_on_after_a_budget_that_was_for_it_alone(
    unbuilt_tiny: Project,
) -> None:
    unbuilt_tiny.change_config(lambda config: config["protocol"].update(repetitions=4))

    budgeted = unbuilt_tiny.snakemake("--config", "minutes=0.01", "--", "batch_size")
    assert budgeted.returncode == 0, budgeted.stdout + budgeted.stderr
    assert processes(unbuilt_tiny) == {3}

    assert unbuilt_tiny.snakemake("batch_size").returncode == 0
    assert processes(unbuilt_tiny) == {4}


def test_a_budget_whose_run_ended_before_further_processes_is_gone_on_with(
    unbuilt_tiny: Project,
) -> None:
    unbuilt_tiny.change_config(lambda config: config["protocol"].update(repetitions=4))
    slugs = [f"tiny-cpu-b{size}-w0-fp32-e2" for size in (8, 16)]
    records = [f"results/machines/{find_machine().id}/runs/{slug}/record.json" for slug in slugs]

    measured = unbuilt_tiny.snakemake("--config", "minutes=0.01", "--", *records)
    assert measured.returncode == 0, measured.stdout + measured.stderr

    assert "measure_further" in unbuilt_tiny.planned(PDF)


@pytest.mark.parametrize("minutes", ["0", "-3", "soon"])
def test_a_budget_that_is_no_time_is_refused_in_a_line(unbuilt_tiny: Project, minutes: str) -> None:
    refused = unbuilt_tiny.snakemake("--config", f"minutes={minutes}", "--", PDF)

    assert refused.returncode == 1
    assert re.search(r"minutes: .* is not allowed; use", refused.stderr)
    assert "Traceback" not in refused.stderr
