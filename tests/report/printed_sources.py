"""Where the numbers that a report prints stand: the cells of the CSV files behind it.

CSV files -> Sources -> unfounded(text of the report) -> the numbers that stand in none of them
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from gpu_report import tables
from gpu_report.storage.columns import Table
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.writing.layout import NUMBERS_CSV
from gpu_report.writing.numbers import NUMBERS
from tests.report.printed import FACTORS, Printed, numbers_in, printed

_DRAWN_ONLY: Final = ("losses.csv", "telemetry.csv", "timelines.csv", "epochs.csv")
"""Tables of thousands of rows that no text quotes: among so many, any number would be found."""

_QUOTED: Final = ("findings.csv", "machine.csv")
"""What the text quotes beside numbers.csv."""

_TABLE_OF: Final[Mapping[str, Sequence[str]]] = {
    "record.json": ("variants.csv",),
    "comparison.csv": ("variants.csv",),
}
"""The table of what a file says of a variant by its name alone."""

_NAMES: Final = ("sha-256", "float64", "tables", "findings.json", "record.json", *_DRAWN_ONLY)
"""Words with digits, and files, that a report names of itself."""

_OF_ROW: Final = {"unit": ""}
"""A column whose unit is that of its row declares `unit`."""

_INTERPOLATED: Final = (("crossovers.csv", "batch_size"),)
"""File and column of whole numbers that were interpolated, which are printed rounded; others as
they are.
"""

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
_SIZES_IN_NAMES: Final = re.compile(r"-[bw](\d+)(?=-)")
"""Batch sizes and DataLoader workers in the names of variants."""


@dataclass(frozen=True, kw_only=True)
class _Cells:
    """Cells of one CSV file: numbers by the unit of their column, and texts; of numbers.csv those
    of one table.
    """

    numbers: Mapping[str, list[float]] = field(default_factory=dict)
    intervals: Mapping[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    """Value and ends of the interval, by unit."""
    interpolated: Sequence[float] = ()
    """Whole numbers that may be rounded, with the ends of their intervals."""
    texts: Sequence[str] = ()
    written: frozenset[tuple[str, str, str]] = frozenset()
    """Numbers with their distance to either end of the interval and unit, to be found as they are
    written.
    """

    @cached_property
    def arrays(self) -> Mapping[str, Floats]:
        return {unit: np.unique(np.array(values)) for unit, values in self.numbers.items()}

    @cached_property
    def quoted(self) -> frozenset[tuple[str, str, str]]:
        """Every number as it is written there and each unit it may be in."""
        found = (number for text in self.texts for number in numbers_in(text))
        named = (size for text in self.texts for size in _SIZES_IN_NAMES.findall(text))
        return (
            self.written
            | {(each.text, each.spread, unit) for each in found for unit in each.units}
            | {(size, "", "") for size in named}
        )

    def hold(self, number: Printed, unit: str) -> bool:
        if (number.text, number.spread, unit) in self.quoted:
            return True
        if not (unit or number.spread) and _is_among(
            np.array(self.interpolated), number, exact=False
        ):
            return True
        factors = FACTORS[unit] if unit else dict.fromkeys(self.arrays, 1.0)
        return any(
            self._holds(number, of_column, factor, exact=not unit)
            for of_column, factor in factors.items()
        )

    def _holds(self, number: Printed, of_column: str, factor: float, *, exact: bool) -> bool:
        if number.spread:
            found = self.intervals.get(of_column, ())
            return any(
                _is_rounded(number, [factor * each for each in interval]) for interval in found
            )
        return of_column in self.arrays and _is_among(
            self.arrays[of_column] * factor, number, exact=exact
        )


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What the CSV files behind a report hold, by file name; the numbers of numbers.csv by the
    table they are from.
    """

    tables: Mapping[str, Sequence[_Cells]]
    """By file name."""
    numbers: Mapping[str, Sequence[_Cells]]
    """Those of numbers.csv, by the file name of the table that they are from, empty for those that
    the code decides.
    """

    @classmethod
    def read(cls, paths: Iterable[Path], *, drawn: bool = False) -> "Sources":
        """The cells of these CSV files, those of tables that are only drawn where `drawn`."""
        tables: dict[str, list[_Cells]] = {}
        numbers: dict[str, list[_Cells]] = {}
        for path in paths:
            if path.name == NUMBERS_CSV:
                for name, cells in _of_numbers(path).items():
                    numbers.setdefault(name, []).append(cells)
            elif drawn or path.name not in _DRAWN_ONLY:
                tables.setdefault(path.name, []).append(_of_table(path))
        return cls(tables=tables, numbers=numbers)

    @cached_property
    def words(self) -> str:
        """All texts of all files and their names, in small letters."""
        cells = [one for found in (*self.tables.values(), *self.numbers.values()) for one in found]
        return "\n".join(
            [*(text for one in cells for text in one.texts), *self.tables, *_NAMES]
        ).lower()

    def hold(self, number: Printed) -> bool:
        """Whether the number is a cell of a file, as it stands there or rounded to the digits
        printed.
        """
        if not number.is_number:
            is_path = number.text.startswith(("results/", "report/"))
            name = number.text.rpartition("/")[2] if is_path else number.text
            return all(part.lower() in self.words for part in re.split(r"\.\.\.|…", name))
        return any(
            cells.hold(number, unit)
            if wholly
            else (number.text, number.spread, unit) in cells.quoted
            for cells, wholly in self._behind(number)
            for unit in number.units
        )

    def _behind(self, number: Printed) -> Iterator[tuple[_Cells, bool]]:
        """What may hold it, and whether its numbers count as well, or its texts alone.

        Of a table's row it is the files that the table names and the numbers that are about none;
        the text quotes numbers.csv, the findings, the machine, and what is text in any table.
        """
        beside = [name for source in number.sources for name in _TABLE_OF.get(source, ())]
        whole = (*number.sources, *beside) or _QUOTED
        for name, found in self.tables.items():
            if name in whole or not number.sources:
                yield from ((cells, name in whole) for cells in found)
        for name, found in self.numbers.items():
            if name in (*number.sources, "") or not number.sources:
                yield from ((cells, True) for cells in found)


def unfounded(text: str, sources: Sources) -> list[Printed]:
    """The numbers of a report's text that are found nowhere, in the order in which they are
    printed.
    """
    known: dict[tuple[object, ...], bool] = {}
    lost: list[Printed] = []
    for number in printed(text):
        key = (number.text, number.spread, number.units, number.sources, number.is_bound)
        if key not in known:
            known[key] = sources.hold(number)
        if not known[key]:
            lost.append(number)
    return lost


def _is_among(values: Floats, number: Printed, *, exact: bool) -> bool:
    """Whether one of the values rounds to the number; a whole one must be the value itself where
    that is `exact`.
    """
    value = float(number.text)
    if number.is_bound:
        return bool(np.any(np.abs(values) < value))
    mantissa, _, exponent = number.text.partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if exact and decimals <= 0:
        return bool(np.any(values == value))
    digits = mantissa.lstrip("-").replace(".", "")
    zeros = (
        0
        if "." in mantissa
        else min(len(digits) - len(digits.rstrip("0")), max(0, len(digits) - 2))
    )
    half = 0.5 * 10.0 ** (zeros - decimals)
    return bool(np.any(np.abs(values - value) <= half * (1 + 1e-9)))


def _is_rounded(number: Printed, interval: Sequence[float]) -> bool:
    """Whether value and distance are those of the interval; each of the two that are subtracted was
    rounded.
    """
    value, low, high = interval
    last_digit = 10.0 ** -len(number.text.partition(".")[2])
    zeros = 0 if "." in number.text else len(number.spread) - len(number.spread.rstrip("0"))
    rounding = float(last_digit * 10.0**zeros)
    distance = max(high - value, value - low)
    return (
        abs(float(number.text) - value) <= 0.51 * rounding
        and abs(float(number.spread) - distance) <= 1.01 * rounding
    )


def _of_numbers(path: Path) -> dict[str, _Cells]:
    """The numbers of numbers.csv by the file name of the table that each is from; empty for what
    the code decides.
    """
    found: dict[str, tuple[list[str], set[tuple[str, str, str]]]] = {}
    for row in NUMBERS.read_rows(path):
        table = row["table"].rpartition("/")[2] if row["table"].endswith(".csv") else ""
        texts, written = found.setdefault(table, ([], set()))
        texts += [row["text"], row["key"]]
        value, low, high = (
            text.replace(",", "") for text in (row["value"], row["low"], row["high"])
        )
        written |= {(text, "", row["unit"]) for text in (value, low, high) if text}
        if low and high:
            middle, lowest, highest = map(Decimal, (value, low, high))
            written.add((value, f"{max(highest - middle, middle - lowest):f}", row["unit"]))
    return {
        table: _Cells(texts=texts, written=frozenset(written))
        for table, (texts, written) in found.items()
    }


def _of_table(path: Path) -> _Cells:
    own = [table for table in _declared() if table.name == path.stem] or [EXPERIMENT]
    units = {column.name: column.unit for table in own for column in table.columns}
    numbers: dict[str, list[float]] = {}
    intervals: dict[str, list[tuple[float, float, float]]] = {}
    interpolated: list[float] = []
    texts: dict[str, None] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name, cell in row.items():
                number, low, high = (
                    _as_number(row.get(name + end, "")) for end in ("", "_low", "_high")
                )
                unit = _OF_ROW.get(units.get(name, ""), units.get(name, "")) or row.get("unit", "")
                if number is not None:
                    numbers.setdefault(unit, []).append(number)
                else:
                    texts[cell] = None
                if (path.name, name) in _INTERPOLATED:
                    interpolated += (each for each in (number, low, high) if each is not None)
                if number is not None and low is not None and high is not None:
                    intervals.setdefault(unit, []).append((number, low, high))
    return _Cells(
        numbers=numbers, intervals=intervals, interpolated=interpolated, texts=tuple(texts)
    )


def _as_number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _declared() -> Iterator[Table]:
    for module in vars(tables).values():
        yield from (
            value for value in getattr(module, "__dict__", {}).values() if isinstance(value, Table)
        )
