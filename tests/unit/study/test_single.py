"""A configuration without a file is the one that a file would have, and its errors name what was
given.
"""

from typing import Any

import pytest

from gpu_report.errors import ConfigError
from gpu_report.study.single import single_study
from gpu_report.study.study import load_study

ROW: dict[str, Any] = {"batch_size": 8, "epochs": 2}
OF_A_FILE: dict[str, Any] = {
    "name": "mine",
    "title": "Mine",
    "devices": "auto",
    "seed": 3,
    "protocol": {"repetitions": 4, "profile_steps": 2},
    "workloads": {
        "cnn": {"train_samples": 64},
        "own": {"class": "tests.unit.measure.tiny_workloads:Tiny"},
    },
    "experiments": {
        "batches": {
            "question": "Which?",
            "axis": "batch_size",
            "baseline": 8,
            "grid": [{"workload": "cnn", "size": "small", "batch_size": 8, "epochs": 2}],
        }
    },
}


def as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def test_with_the_settings_of_a_file_it_is_the_measurement_of_that_file() -> None:
    of_file = load_study(OF_A_FILE, devices=("cpu",))
    (slug,) = [variant.slug for variant in of_file.variants]

    found = single_study(
        "cnn", {**ROW, "size": "small", "workers": None}, devices=("cpu",), base=OF_A_FILE
    )

    assert found.measurement(slug) == of_file.measurement(slug)


def test_a_class_of_the_files_own_can_be_named_and_the_fastest_device_is_the_default() -> None:
    (variant,) = single_study("own", ROW, devices=("cpu", "cuda"), base=OF_A_FILE).variants

    assert (variant.workload, variant.device) == ("own", "cuda")


def test_the_data_set_and_the_repetitions_can_be_given() -> None:
    study = single_study(
        "cnn", {**ROW, "size": "small"}, devices=("cpu",), dataset="cifar10", repetitions=9
    )

    assert study.workloads["cnn"].settings == {"data": "cifar10"}
    assert study.protocol.repetitions == 9
    assert (
        single_study("lstm", ROW, devices=("cpu",), dataset="synthetic").workloads["lstm"].settings
        == {}
    )


@pytest.mark.parametrize(
    ("workload", "changed", "message"),
    [
        ("resnet19", {}, "--workload: 'resnet19' is unknown; use one of unet, lstm, .*, resnet18"),
        ("unet", {"size": "1px"}, "--size: unet has no size '1px'; use one of 32px, 64px, 128px"),
        (
            "lstm",
            {"device": "cuda"},
            "--device: device 'cuda' is not present on this machine; use one of: cpu",
        ),
        ("lstm", {"optimization": "fly"}, "--optimization: 'fly' in 'fly' is unknown"),
        ("linear_regression", {}, "--steps-per-epoch: missing"),
    ],
)
def test_an_error_begins_with_the_option_that_was_given(
    workload: str, changed: dict[str, Any], message: str
) -> None:
    row = {**ROW, "steps_per_epoch": None, **changed}

    with pytest.raises(ConfigError, match=f"^{message}"):
        single_study(workload, row, devices=("cpu",), option=as_option)


@pytest.mark.parametrize(
    ("workload", "given", "message"),
    [
        (
            "lstm",
            {"dataset": "cifar10"},
            "dataset: lstm has no data set 'cifar10'; use one of synthetic",
        ),
        (
            "cnn",
            {"dataset": "mnist"},
            "dataset: cnn has no data set 'mnist'; use one of synthetic, cifar10",
        ),
        (
            "own",
            {"dataset": "mnist", "base": OF_A_FILE},
            "dataset: own has no data set 'mnist'; leave it out",
        ),
        ("lstm", {"repetitions": 1}, "repetitions: 1 is not allowed; use 3 or more"),
        ("lstm", {"base": {**OF_A_FILE, "sed": 1}}, "sed: unknown key"),
    ],
)
def test_what_is_beside_the_row_is_checked_too(
    workload: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        single_study(workload, ROW, devices=("cpu",), **given)
