import csv
from functools import cache
from pathlib import Path

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
