"""The schema, the shipped studies and the workloads agree on what can be set."""

import inspect
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_report.errors import ConfigError
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.config import check_config
from gpu_report.study.study import Study, load_study

CONFIG = Path(__file__).parents[3] / "config"
GIVEN_BY_THE_TOOL = {"size", "seed", "folder"}


def read(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((CONFIG / name).read_text("utf-8"))
    return config


def shipped_study(name: str, *devices: str) -> Study:
    return load_study(read(name), devices=devices)


@pytest.mark.parametrize("name", BUILT_IN_WORKLOADS)
def test_the_schema_allows_exactly_what_a_workload_takes(name: str) -> None:
    module, _, class_name = BUILT_IN_WORKLOADS[name].class_path.partition(":")
    arguments = set(inspect.signature(getattr(import_module(module), class_name)).parameters)
    schema = yaml.safe_load(
        resources.files("gpu_report.study").joinpath("study.schema.yaml").read_text("utf-8")
    )
    workloads = schema["properties"]["workloads"]
    reference = workloads["properties"].get(name, workloads["additionalProperties"])["$ref"]
    allowed = schema["$defs"][reference.rpartition("/")[2]]["else"]["properties"]

    assert set(allowed) == arguments - GIVEN_BY_THE_TOOL


def test_a_setting_of_another_workload_is_refused_before_anything_runs() -> None:
    config = read("ci.yaml")
    config["workloads"]["unet"]["data"] = "cifar10"

    with pytest.raises(
        ConfigError, match=r"workloads\.unet\.data: unknown key; allowed here: train_samples"
    ):
        check_config(config)


def test_what_the_default_study_asks_of_a_cpu_is_asked_in_ci_too() -> None:
    study, ci = shipped_study("study.yaml", "cpu"), shipped_study("ci.yaml", "cpu", "cuda")
    asked = {experiment.name: experiment.question for experiment in ci.experiments}

    assert {
        each.name: each.question for each in study.experiments_with_variants
    }.items() <= asked.items()
    assert {variant.device for variant in ci.variants} == {"cpu"}


def test_every_group_of_the_default_study_has_something_to_compare_on_a_gpu_machine() -> None:
    for experiment in shipped_study(
        "study.yaml", "cpu", "cuda", "cuda:1"
    ).experiments_with_variants:
        assert len({getattr(variant, experiment.axis) for variant in experiment.variants}) > 1
