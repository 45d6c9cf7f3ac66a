"""The declarations themselves: every column says what it means, and summaries come in threes."""

import pytest

from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.tables.variants import COMPARISON
from tests.factories import make_tables

TABLES = [*STUDY_TABLES, EXPERIMENT, COMPARISON]


def test_every_column_is_unique_and_says_what_it_means() -> None:
    for table in TABLES:
        assert len(set(table.column_names)) == len(table.columns), table.name
        for column in table.columns:
            assert column.meaning.endswith("."), (table.name, column.name)
            assert column.unit or column.dtype not in ("int64", "float64"), column.name


def test_each_table_is_read_once_under_its_name() -> None:
    tables = make_tables()
    assert list(tables.by_name) == [table.name for table in STUDY_TABLES]
    assert tables.variants is tables.variants
    assert {"variants", "experiments"} <= {*dir(tables)}
    with pytest.raises(AttributeError, match="no table 'variant'; it has variants, "):
        tables.variant  # noqa: B018
