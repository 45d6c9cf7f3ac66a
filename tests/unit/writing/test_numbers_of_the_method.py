import csv
import re
from functools import cache
from inspect import signature
from pathlib import Path

import pytest

from gpu_report.figures.networks import lstm, transformer, unet
from gpu_report.tables.marks import HOST_JITTER
from gpu_report.tables.statistics import CONFIDENCE
from tests.factories import make_record, make_records, make_study
from tests.report.synthetic import render_study

PROJECT = Path(__file__).parents[3]


@cache
def listed() -> dict[str, dict[str, str]]:
    """Every number of a report on the default study with one failed variant, by its key."""
    *records, last = make_records(make_study())
    failed = make_record(last.variant, status="failed")
    text = render_study(make_study(), records=[*records, failed])["numbers.csv"]
    return {row["key"]: row for row in csv.DictReader(text.splitlines())}


def told() -> dict[str, str]:
    """The text of each."""
    return {key: row["text"] for key, row in listed().items()}


def test_every_number_names_a_table_or_a_file_of_the_code_that_decides_it() -> None:
    sources = {row["table"] for row in listed().values()}
    code = {source for source in sources if source.startswith("src/")}

    assert all(source.endswith(".csv") for source in sources - code)
    assert all((PROJECT / source).is_file() for source in code)


@pytest.mark.parametrize(
    ("key", "constant"),
    [
        ("protocol/confidence", "CONFIDENCE"),
        ("threshold/host_jitter", "HOST_JITTER"),
        ("format/bf16/mantissa_bits", "_FORMATS"),
        ("network/unet/base_channels", "CHANNELS"),
    ],
)
def test_a_number_of_the_method_is_decided_in_the_file_that_it_names(
    key: str, constant: str
) -> None:
    source = PROJECT / listed()[key]["table"]

    assert re.search(rf"^_?[A-Z_]*{constant}\b.*=", source.read_text("utf-8"), flags=re.MULTILINE)


def test_confidence_and_thresholds_are_those_of_the_code() -> None:
    assert told()["protocol/confidence"] == f"{100 * CONFIDENCE:.0f} %"
    assert told()["threshold/host_jitter"] == f"{100 * HOST_JITTER:.0f} %"


def test_sizes_of_networks_are_those_that_are_drawn() -> None:
    sizes = {
        key.removeprefix("network/"): text
        for key, text in told().items()
        if key.startswith("network/")
    }

    drawn = {
        f"{make.__name__}/{name}": str(parameter.default)
        for make in (unet, lstm, transformer)
        for name, parameter in signature(make).parameters.items()
    }
    assert sizes
    assert sizes.items() <= drawn.items()


def test_the_bits_of_a_precision_leave_one_for_the_sign() -> None:
    found = told()

    for name, bits in {"fp32": 32, "fp16": 16, "bf16": 16}.items():
        assert (
            1
            + int(found[f"format/{name}/exponent_bits"])
            + int(found[f"format/{name}/mantissa_bits"])
            == bits
        )
