"""The tables of a trace survive their CSV files, also where there is no trace."""

from pathlib import Path

import pandas as pd
import pytest

from gpu_report.columns import TableError
from gpu_report.traces.advice import ADVICE
from gpu_report.traces.memory import ALLOCATIONS
from gpu_report.traces.quality import QUALITY
from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import (
    EMPTY_TABLES,
    TRACE_TABLES,
    TraceTables,
    as_csv,
    file_name,
    read_trace_tables,
    tabulate_trace,
)

FIXTURES = Path(__file__).parents[2] / "data" / "traces"


def write(rows: TraceTables, folder: Path) -> Path:
    for name, text in as_csv(rows).items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_tables_read_back_are_the_tables_written(tmp_path: Path, fixture: str) -> None:
    rows = tabulate_trace(read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz"))

    read = read_trace_tables(write(rows, tmp_path))

    for table in TRACE_TABLES:
        same = pd.DataFrame(table.checked(rows[table]))
        pd.testing.assert_frame_equal(pd.DataFrame(read[table]), same)


def test_without_a_trace_the_tables_have_columns_and_no_rows(tmp_path: Path) -> None:
    folder = write(EMPTY_TABLES, tmp_path)

    read = read_trace_tables(folder)

    for table in TRACE_TABLES:
        assert not read[table]
        assert (folder / file_name(table)).read_text("utf-8") == ",".join(table.column_names) + "\n"


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    write(EMPTY_TABLES, tmp_path)
    (tmp_path / "kernels.csv").unlink()

    with pytest.raises(TableError, match=r"kernels\.csv"):
        read_trace_tables(tmp_path)


def test_a_table_that_an_older_bundle_does_not_hold_has_no_rows(tmp_path: Path) -> None:
    write(EMPTY_TABLES, tmp_path)
    (tmp_path / file_name(ALLOCATIONS)).unlink()

    assert not read_trace_tables(tmp_path)[ALLOCATIONS]


def test_every_time_and_share_says_its_unit_and_meaning() -> None:
    for table in TRACE_TABLES:
        for column in table.columns:
            assert column.meaning
            assert column.unit == {"ms": "ms", "us": "us"}.get(column.name.rsplit("_", 1)[-1], column.unit)
            assert column.unit or column.dtype in ("str", "bool") or table in (QUALITY, ADVICE)
