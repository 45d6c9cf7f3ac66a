"""What a user adds beside the project, without an edit to it: modules and rows of the study's
configuration.
"""

import csv
from pathlib import Path
from typing import Any

import pytest

from tests.made_once import made_once

from .conftest import PDF, Project

pytestmark = pytest.mark.slow


def add_an_experiment_with_its_own_loop(config: dict[str, Any]) -> None:
    config["workloads"]["mean"] = {"class": "mean_workload:MeanWorkload"}
    config["experiments"]["samples"] = {
        "question": "How does the mean take to more numbers?",
        "axis": "batch_size",
        "baseline": 64,
        "grid": [
            {"workload": "mean", "batch_size": [64, 65536], "epochs": 2, "steps_per_epoch": 50}
        ],
    }


def add_a_workload_that_fails(config: dict[str, Any]) -> None:
    config["workloads"]["faulty"] = {
        **config["workloads"]["tiny"],
        "fault": "[/lost] the loss is [lost]",
    }
    config["experiments"]["device"]["grid"].append(
        {"workload": "faulty", "batch_size": 8, "epochs": 2}
    )


def add_sentinels(config: dict[str, Any]) -> None:
    config["sentinels"] = [{"workload": ["tiny", "faulty"], "batch_size": 32, "epochs": 2}]


@pytest.fixture(scope="module")
def extended(built_tiny: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The built tiny study, built again with all of it."""

    def extend(folder: Path) -> None:
        project = built_tiny.copy_to(folder)
        project.change_config(add_an_experiment_with_its_own_loop)
        project.change_config(add_a_workload_that_fails)
        project.change_config(add_sentinels)
        built = project.snakemake(PDF)
        assert built.returncode == 0, built.stdout + built.stderr

    folder = made_once(tmp_path_factory, "extended", extend)
    return Project(folder=folder, configfile=built_tiny.configfile)


def text_of(project: Project) -> str:
    return " ".join(project.run("pdftotext", PDF, "-").stdout.split())


def test_a_module_and_the_configuration_add_an_experiment_with_its_own_training_loop(
    extended: Project,
) -> None:
    text = text_of(extended)

    assert "How does the mean take to more numbers?" in text
    assert "mean of numbers" in text.lower()
    assert "closeness" in text
    assert "??" not in text


def test_a_workload_that_fails_is_a_row_and_the_report_is_built(extended: Project) -> None:
    listed = extended.gpu_report("list", "--configfile", extended.configfile).stdout

    assert "failed" in listed
    assert "[/lost] the loss is [lost]" in listed
    # A line may end within a name.
    assert "[/lost]thelossis[lost]" in text_of(extended).replace(" ", "")


def test_sentinels_are_measured_before_and_after_what_was_added_and_one_that_fails_stops_nothing(
    extended: Project,
) -> None:
    (table,) = extended.folder.glob("results/machines/*/tables/sentinels.csv")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    by_workload = {
        workload: [row["status"] for row in rows if row["variant"].startswith(workload)]
        for workload in ("tiny", "faulty")
    }

    assert by_workload["tiny"] == ["ok"] * len(by_workload["tiny"])
    assert by_workload["faulty"] == ["failed"] * len(by_workload["faulty"])
    assert len(rows) >= 4
    assert "Sentinels" in text_of(extended)
    assert extended.planned(PDF) == {}
