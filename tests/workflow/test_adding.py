"""What a user adds beside the project, without an edit to it: a module and rows of the study's configuration."""

from typing import Any

import pytest

from .conftest import Project

pytestmark = pytest.mark.slow


def add_an_experiment_with_its_own_loop(config: dict[str, Any]) -> None:
    config["workloads"]["mean"] = {"class": "mean_workload:MeanWorkload"}
    config["experiments"]["samples"] = {
        "question": "How does the mean take to more numbers?",
        "axis": "batch_size",
        "baseline": 64,
        "grid": [{"workload": "mean", "batch_size": [64, 65536], "epochs": 2, "steps_per_epoch": 50}],
    }


def test_a_module_and_the_configuration_add_an_experiment_with_its_own_training_loop(tiny: Project) -> None:
    tiny.change_config(add_an_experiment_with_its_own_loop)

    built = tiny.snakemake("report/samples.pdf")

    assert built.returncode == 0, built.stdout + built.stderr
    text = " ".join(tiny.run("pdftotext", "report/samples.pdf", "-").stdout.split())
    assert "How does the mean take to more numbers?" in text
    assert "mean of numbers" in text.lower()
    assert "closeness" in text
    assert "??" not in text
