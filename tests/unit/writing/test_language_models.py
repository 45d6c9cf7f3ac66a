"""What the report says of language models: tokens and MFU where others have samples, and what the
MFU is a share of.
"""

import re
from functools import cache

import pytest

from gpu_report.study.config import read_config
from gpu_report.study.study import Study, load_study
from tests.report.synthetic import PROJECT, render_study, section_with_floats

CONFIG = PROJECT / "config" / "language_models.yaml"


@cache
def study(*devices: str) -> Study:
    return load_study(read_config(CONFIG), devices=devices)


@cache
def section(name: str) -> str:
    return re.sub(r"\s+", " ", section_with_floats(render_study(study("cpu", "cuda")), name))


def test_on_several_gpus_data_parallel_trainings_are_compared_with_one_process() -> None:
    (scaling,) = (
        each for each in study("cpu", "cuda", "cuda:1").experiments if each.name == "scaling"
    )
    assert {variant.parallelism for variant in scaling.variants} == {"single", "ddp2", "fsdp2"}


@pytest.mark.parametrize("name", ["language_model", "attention", "context"])
def test_tables_have_tokens_per_second_and_mfu_in_place_of_samples(name: str) -> None:
    text = section(name)

    assert re.search(r"\{tokens\} & \S*\{MFU\}", text)
    assert "tokens/s" in text
    assert "{throughput}" not in text


def test_the_section_prints_the_formula_and_refers_to_the_peaks() -> None:
    text = section("language_model")

    assert "Operations per token: 6 N + 12 L H Q T." in text
    assert re.search(r"dense matrix products .*\(\S+Table\S+peaks\}\)", text)
    assert re.search(r"The fastest configuration reaches .* of matrix products", text)


def test_fp8_is_answered_for_each_width() -> None:
    text = section("width")

    for width in (1024, 2048, 4096):
        assert f"of width {width}" in text


def test_no_size_is_written_as_it_is_stored() -> None:
    names = ("language_model", "attention", "context", "width")
    text = " ".join(map(section, names)).replace(r"\_", "_").replace(r"\gpurepbreak{}", "")

    assert not re.search(r"(?<![-\w/])(?:124m|350m|wide_)", text)


def test_a_machine_without_a_gpu_has_tokens_per_second_and_no_mfu() -> None:
    files = render_study(study("cpu"))
    text = section_with_floats(files, "language_model")

    assert "tokens/s" in text
    assert "MFU" not in text
