"""The schema, the shipped studies and the workloads agree on what can be set."""

import inspect
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
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


def test_every_group_of_the_default_study_has_something_to_compare_on_a_gpu_machine() -> None:
    for experiment in shipped_study(
        "study.yaml", "cpu", "cuda", "cuda:1"
    ).experiments_with_variants:
        assert len({getattr(variant, experiment.axis) for variant in experiment.variants}) > 1
