"""A study with a time budget, from configuration to report."""

import json
import re

import pytest

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
    spent = re.search(r"spent of 0.01; .*", built.stdout)
    text = unbuilt_tiny.run("pdftotext", PDF, "-").stdout

    assert spent, built.stdout
    assert processes(unbuilt_tiny) == {3}
    assert ("lack of time" in text) == ("would decide" in spent[0])
    assert unbuilt_tiny.planned(PDF, options=budget[:2]) == {}

    assert unbuilt_tiny.snakemake(PDF).returncode == 0
    assert processes(unbuilt_tiny) == {5}
    assert unbuilt_tiny.planned(PDF) == {}


@pytest.mark.parametrize("minutes", ["0", "-3", "soon"])
def test_a_budget_that_is_no_time_is_refused_in_a_line(unbuilt_tiny: Project, minutes: str) -> None:
    refused = unbuilt_tiny.snakemake("--config", f"minutes={minutes}", "--", PDF)

    assert refused.returncode == 1
    assert re.search(r"minutes: .* is not allowed; use", refused.stderr)
    assert "Traceback" not in refused.stderr
