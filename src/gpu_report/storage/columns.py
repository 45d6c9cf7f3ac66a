"""Tables whose columns are declared once, with dtype, unit and meaning; rows are checked on writing
and on reading.

Table -> Column (name, dtype, unit, meaning); rows -> CSV text -> rows or a DataFrame

Only a number of dtype float64 may be missing: NaN in rows and DataFrames, empty in the CSV, which
has every digit. Characters that a terminal obeys or hides are escaped, so that no text in a table
reorders or cuts what is printed.
"""

import csv
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from gpu_report.errors import TableError, lacking
from gpu_report.printing.terminal import clean

if TYPE_CHECKING:
    import pandas as pd

Dtype = Literal["str", "int64", "float64", "bool"]
_Values = dict[str, list[Any]]


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column: `unit` is empty for names and flags, and `1` for shares, counts and ratios."""

    name: str
    dtype: Dtype
    unit: str = ""
    meaning: str


def text(name: str, meaning: str) -> Column:
    """A name, or words."""
    return Column(name=name, dtype="str", meaning=meaning)


def flag(name: str, meaning: str) -> Column:
    """Whether something is so."""
    return Column(name=name, dtype="bool", meaning=meaning)


def whole(name: str, unit: str, meaning: str) -> Column:
    """A whole number, which is always there."""
    return Column(name=name, dtype="int64", unit=unit, meaning=meaning)


def number(name: str, unit: str, meaning: str) -> Column:
    """A number that may be missing."""
    return Column(name=name, dtype="float64", unit=unit, meaning=meaning)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A named table with its columns in order; `meaning` says what one row is."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> list[str]:
        """The names in order, as in the first line of the CSV."""
        return [column.name for column in self.columns]

    def from_rows(self, rows: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
        """Build the table from one mapping per row, in the order given; no rows give an empty table
        with its dtypes.

        Raises:
            TableError: a row lacks a column, has one too many, or holds a value of another type.
        """
        return self._frame(self._by_column(rows))

    def checked(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The rows as they come back from the CSV, where a missing number is NaN.

        Raises:
            TableError: as for `from_rows`.
        """
        return self._rows(self._by_column(rows))

    def rows_to_csv(self, rows: Iterable[Mapping[str, Any]]) -> str:
        """The rows as CSV text with a header line; the same rows give the same text, and no digit
        is lost.

        Raises:
            TableError: a row lacks a column, has one too many, or holds a value of another type or
                an infinite one.
        """
        values = self._by_column(rows)
        cells = [_WRITE[column.dtype](values[column.name]) for column in self.columns]
        text = StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [self.column_names, *zip(*cells, strict=True)]
        )
        return text.getvalue()

    def read_csv(self, path: Path) -> "pd.DataFrame":
        """Read what `rows_to_csv` wrote.

        Raises:
            TableError: the file cannot be read, or it does not hold the declared columns.
        """
        return self._frame(self._read(path))

    def read_rows(self, path: Path) -> list[dict[str, Any]]:
        """The rows of `read_csv`, without pandas; a missing number is NaN.

        Raises:
            TableError: as for `read_csv`.
        """
        return self._rows(self._read(path))

    def _by_column(self, rows: Iterable[Mapping[str, Any]]) -> _Values:
        rows, names = list(rows), set(self.column_names)
        for position, row in enumerate(rows):
            if row.keys() != names:
                raise TableError(
                    f"table {self.name}, row {position}: "
                    f"{_name_difference(list(row), self.column_names)}"
                )
        return self._checked({name: [row[name] for row in rows] for name in self.column_names})

    def _read(self, path: Path) -> _Values:
        try:
            with path.open(newline="", encoding="utf-8") as file:
                reader = csv.reader(file)
                header = next(reader, [])
                lines = list(reader) if header == self.column_names else []
        except OSError as error:
            raise TableError(
                f"cannot read table {path}: {error.strerror}; make it again"
            ) from error
        except (csv.Error, UnicodeDecodeError) as error:
            raise TableError(
                f"table {path} is damaged ({error}); delete it and make it again"
            ) from error
        if header != self.column_names:
            raise TableError(
                f"table {path}: {_name_difference(header, self.column_names)}; delete it and make "
                "it again"
            )
        for number, line in enumerate(lines, start=2):
            if len(line) != len(self.columns):
                raise TableError(
                    f"table {path}, line {number}: {len(line)} values for {len(self.columns)} "
                    "columns; delete it and make it again"
                )
        by_column = zip(*lines, strict=True) if lines else [()] * len(self.columns)
        return self._checked(
            {
                column.name: _parsed(path, column, cells)
                for column, cells in zip(self.columns, by_column, strict=True)
            }
        )

    def _checked(self, values: _Values) -> _Values:
        """A column at a time, by the types in it: asking each value would take longer than reading
        it.
        """
        for column in self.columns:
            of_column = values[column.name]
            for kind in set(map(type, of_column)):
                if not issubclass(kind, _KINDS[column.dtype]) or issubclass(kind, bool) != (
                    column.dtype == "bool"
                ):
                    position = next(
                        position for position, value in enumerate(of_column) if type(value) is kind
                    )
                    raise TableError(
                        f"table {self.name}, row {position}, column {column.name}: "
                        f"{of_column[position]!r} is not a {column.dtype}"
                    )
            if column.dtype == "int64" and not (
                -_INT64 <= min(of_column, default=0) <= max(of_column, default=0) < _INT64
            ):
                raise TableError(
                    f"table {self.name}, column {column.name}: a number needs more than 64 bits"
                )
            if column.dtype == "float64" and not _INFINITE.isdisjoint(of_column):
                found = next(value for value in of_column if value in _INFINITE)
                raise TableError(
                    f"table {self.name}, column {column.name}: a value is {found}; a quotient by "
                    "zero is written as missing"
                )
            if column.dtype == "str":
                shown = {value: clean(value) for value in {*of_column}}
                values[column.name] = list(map(shown.__getitem__, of_column))
        return values

    def _frame(self, values: _Values) -> "pd.DataFrame":
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise TableError(lacking(error)) from error
        return pd.DataFrame(
            {
                column.name: pd.Series(values[column.name], dtype=column.dtype)
                for column in self.columns
            }
        )

    def _rows(self, values: _Values) -> list[dict[str, Any]]:
        for column in self.columns:
            if column.dtype == "float64" and None in values[column.name]:
                values[column.name] = [
                    math.nan if value is None else value for value in values[column.name]
                ]
        return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _parsed(path: Path, column: Column, cells: Sequence[str]) -> list[Any]:
    values: list[Any] = []
    try:
        values.extend(map(_READ[column.dtype], cells))
    except (ValueError, KeyError) as error:
        raise TableError(
            f"table {path}, line {len(values) + 2}, column {column.name}: "
            f"{reprlib.repr(cells[len(values)])} is not a {column.dtype}; delete it and make it "
            "again"
        ) from error
    return values


def _name_difference(found: list[str], declared: list[str]) -> str:
    return (
        f"its columns are {', '.join(found)[:_MOST_SHOWN] or 'none'}, expected "
        f"{', '.join(declared)}"
    )


_MOST_SHOWN: Final = 500
_INT64: Final = 2**63
_INFINITE: Final = frozenset({math.inf, -math.inf})
_KINDS: Final[Mapping[Dtype, tuple[type, ...]]] = {
    "str": (str,),
    "int64": (Integral,),
    "float64": (Real, type(None)),
    "bool": (bool,),
}
"""What a column may hold; bool, which Python takes for a number, fits its own columns alone."""
_WRITE: Final[Mapping[Dtype, Callable[[Sequence[Any]], list[str]]]] = {
    "str": list,
    "int64": lambda values: list(map(str, values)),
    "float64": lambda values: [
        "" if value is None or math.isnan(value) else repr(float(value)) for value in values
    ],
    "bool": lambda values: [str(value).lower() for value in values],
}
_READ: Final[Mapping[Dtype, Callable[[str], Any]]] = {
    "str": str,
    "int64": int,
    "float64": lambda cell: float(cell) if cell else math.nan,
    "bool": {"true": True, "false": False}.__getitem__,
}
