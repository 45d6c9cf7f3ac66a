"""Rows of tables, which templates and tables in the text are made of."""

from collections.abc import Sequence

from gpu_report.glossary import Row


def first_of_each(rows: Sequence[Row], *columns: str) -> list[Row]:
    """The first row with each combination of values in these columns, in order."""
    first: dict[tuple[object, ...], Row] = {}
    for row in rows:
        first.setdefault(tuple(row[column] for column in columns), row)
    return list(first.values())
