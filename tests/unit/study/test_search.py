"""A study that searches batch sizes: what its rows become, and what they may not ask."""

import copy
from typing import Any

import pytest

from gpu_report.errors import ConfigError
from gpu_report.study.study import Study, load_study
from tests.searches import CONFIG


def searching(
    *rows: dict[str, Any], devices: tuple[str, ...] = ("cpu", "cuda"), **experiment: Any
) -> Study:
    config = copy.deepcopy(CONFIG)
    config["experiments"]["batch_search"] |= experiment
    if rows:
        config["experiments"]["batch_search"]["grid"] = list(rows)
    return load_study(config, devices=devices)


def test_the_lists_of_a_row_are_multiplied_out_into_searches_on_the_devices_it_names() -> None:
    assert [search.slug for search in searching().searches] == [
        "unet-128px-cuda-fp32",
        "unet-128px-cuda-bf16",
        "lstm-cuda-fp32",
    ]
    assert searching().variants == ()


def test_a_row_that_needs_an_accelerator_is_left_out_without_one() -> None:
    assert [search.slug for search in searching(devices=("cpu",)).searches] == [
        "unet-128px-cpu-fp32",
        "unet-128px-cpu-bf16",
    ]


def test_a_search_is_named_by_its_limit_and_optimization_and_tries_parts_of_a_step() -> None:
    row = {"workload": "unet", "size": "64px", "device": "cpu", "memory_limit_gib": 0.5}
    (search,) = searching({**row, "optimization": "checkpoint+accumulate2"}).searches

    assert search.slug == "unet-64px-cpu-fp32-512mib-accumulate2+checkpoint"
    assert (search.variant(samples=3).batch_size, search.variant(samples=3).accumulation) == (6, 2)


def test_searches_of_a_machine_that_has_a_part_of_them_are_those_alone() -> None:
    found = searching().restricted_to({"lstm-cuda-fp32", "of-another-study"})

    assert [search.slug for search in found.searches] == ["lstm-cuda-fp32"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"batch_size": 8},
            r"grid\[0\]\.batch_size: unknown key; allowed here: workload, size, .*memory_limit_gib",
        ),
        ({"memory_limit_gib": 0}, r"memory_limit_gib: 0 is not allowed; use more than 0"),
        ({"multiple_of": 0}, r"multiple_of: 0 is not allowed; use 1 or more"),
        ({"maximum": 4, "multiple_of": 8}, r"maximum: it is 4; expected 8 or more"),
        (
            {"workload": "image_files", "size": "default"},
            r"grid\[0\]: workload: image_files cannot be searched .*use one of unet, lstm",
        ),
        ({"optimization": "workers4"}, r"grid\[0\]: optimization: workers4 has workers or graphs"),
        (
            {"workload": "lstm", "size": "default", "optimization": "checkpoint"},
            r"checkpoint has nothing to do in lstm",
        ),
    ],
)
def test_what_cannot_be_searched_is_named_in_one_line(row: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        searching({"workload": "unet", "size": "64px", **row})

    assert "\n" not in str(caught.value)


def test_one_search_with_two_times_to_measure_is_refused() -> None:
    row = {"workload": "lstm", "device": "cpu"}

    with pytest.raises(ConfigError, match="lstm-cpu-fp32 is searched twice, with other seconds"):
        searching({**row, "seconds": 1}, {**row, "seconds": 2})


def test_a_search_takes_bounds() -> None:
    row = {"workload": "lstm", "device": "cpu", "maximum": 64, "multiple_of": 8, "margin": 0.1}
    (search,) = searching(row).searches

    assert (search.maximum, search.multiple_of, search.margin) == (64, 8, 0.1)
    assert (search.largest_below(64), search.largest_below(1e9)) == (56, 64)


def test_an_unknown_search_is_named_with_those_that_there_are() -> None:
    with pytest.raises(
        ConfigError, match="search 'none' is not in the study; use one of: unet-128px-cuda-fp32"
    ):
        searching().search("none")
