"""Tables as rows, which templates and tables in the text are made of."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_report.writing.cells import Row

if TYPE_CHECKING:
    import pandas as pd


def rows_of(frame: "pd.DataFrame") -> Sequence[Row]:
    """One mapping per row, by column name."""
    return [{str(column): value for column, value in row.items()} for row in frame.to_dict("records")]


def first_of_each(rows: Sequence[Row], *columns: str) -> list[Row]:
    """The first row with each combination of values in these columns, in order."""
    first: dict[tuple[object, ...], Row] = {}
    for row in rows:
        first.setdefault(tuple(row[column] for column in columns), row)
    return list(first.values())
