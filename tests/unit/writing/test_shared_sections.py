"""The sections about DistributedDataParallel's settings and about models in parts."""

from functools import cache

import pytest

from gpu_report.writing.experiment import ExperimentResults
from tests.factories import make_study
from tests.report.synthetic import render_study, results_of, section_with_floats
from tests.unit.findings.shared import CONFIG, base_of_shared


@cache
def printed(name: str) -> str:
    study, tables = base_of_shared()
    return section_with_floats(render_study(study, tables=tables), name).replace(
        r"\gpurepbreak{}", ""
    )


def on_cpu() -> str:
    """The settings as continuous integration tries them."""
    row = {"workload": "cnn", "size": "small", "device": "cpu", "batch_size": 32, "epochs": 2}
    asked = CONFIG["experiments"]["ddp_options"]
    grid = [{**row, "parallelism": "ddp2", "optimization": ["none", "bucket1", "nocomm"]}]
    config = {
        **CONFIG,
        "workloads": {"cnn": {"data": "synthetic", "train_samples": 64, "test_samples": 32}},
        "experiments": {"ddp_options": {**asked, "baseline": "none", "grid": grid}},
    }
    return section_with_floats(
        render_study(make_study(devices=("cpu",), config=config)), "ddp_options"
    )


def test_settings_are_named_by_what_they_add_to_the_defaults() -> None:
    study, tables = base_of_shared()
    (experiment,) = (each for each in study.experiments if each.name == "ddp_options")
    found = ExperimentResults(experiment=experiment, machine=results_of(study, tables=tables))

    names = [found.setting(row) for row in found.rows]

    assert names[:2] == ["defaults", "bucket1"]
    assert names[-3:] == ["nocomm", "without channelslast", "unused without channelslast"]


def test_the_bound_is_called_one_where_its_speedup_would_be() -> None:
    (row,) = (
        line for line in printed("ddp_options").splitlines() if line.strip().startswith("nocomm")
    )

    assert "bound" in row


@pytest.mark.parametrize("method", ["one process", "model split", "FSDP2", "pipeline"])
def test_every_method_to_share_a_model_has_a_row(method: str) -> None:
    assert [line for line in printed("model_split").splitlines() if line.strip().startswith(method)]


def test_numbers_of_the_cpu_are_no_forecast() -> None:
    assert "no\nforecast" in on_cpu()
    assert "forecast" not in printed("ddp_options")
