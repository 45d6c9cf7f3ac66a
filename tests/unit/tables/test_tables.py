"""The declarations themselves: every column says what it means, and summaries come in threes."""

from dataclasses import fields

import pytest

from gpu_report.storage.columns import Table
from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.bundle import Tables
from gpu_report.tables.comparison import COMPARISON
from gpu_report.tables.experiments import EXPERIMENT

TABLES = [*STUDY_TABLES, EXPERIMENT, COMPARISON]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_is_unique_and_says_what_it_means(table: Table) -> None:
    assert len(set(table.column_names)) == len(table.columns)
    assert all(column.meaning.endswith(".") for column in table.columns)
    assert all(column.unit for column in table.columns if column.dtype in ("int64", "float64"))


def test_each_table_is_read_under_its_name() -> None:
    assert {field.name for field in fields(Tables)} == {
        "experiments",
        *(table.name for table in STUDY_TABLES),
    }
