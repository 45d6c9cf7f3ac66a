import csv
import re
from functools import cache
from pathlib import Path

import pytest

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


def test_every_number_names_a_table_or_a_file_of_the_code_that_decides_it() -> None:
    sources = {row["table"] for row in listed().values()}
    code = {source for source in sources if source.startswith("src/")}

    assert all(source.endswith(".csv") for source in sources - code)
    assert all((PROJECT / source).is_file() for source in code)


@pytest.mark.parametrize(
    ("key", "constant"),
    [
        ("protocol/confidence", "CONFIDENCE"),
        ("threshold/short_launch", "SHORT_NS"),
        ("threshold/noisy", "NOISY_RELATIVE_WIDTH"),
        ("format/bf16/mantissa_bits", "_FORMATS"),
        ("network/unet/base_channels", "CHANNELS"),
    ],
)
def test_a_number_of_the_method_is_decided_in_the_file_that_it_names(
    key: str, constant: str
) -> None:
    source = PROJECT / listed()[key]["table"]

    assert re.search(rf"^_?[A-Z_]*{constant}\b.*=", source.read_text("utf-8"), flags=re.MULTILINE)
