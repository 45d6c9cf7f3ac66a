"""The declarations themselves: every column says what it means, and summaries come in threes."""

from dataclasses import fields

from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.bundle import Tables
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.tables.variants import COMPARISON

TABLES = [*STUDY_TABLES, EXPERIMENT, COMPARISON]


def test_every_column_is_unique_and_says_what_it_means() -> None:
    for table in TABLES:
        assert len(set(table.column_names)) == len(table.columns), table.name
        for column in table.columns:
            assert column.meaning.endswith("."), (table.name, column.name)
            assert column.unit or column.dtype not in ("int64", "float64"), column.name


def test_each_table_is_read_under_its_name() -> None:
    assert {field.name for field in fields(Tables)} == {
        "experiments",
        *(table.name for table in STUDY_TABLES),
    }
