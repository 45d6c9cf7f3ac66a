"""Cells of the tables in the text: numbers through the one formatter, one unit per column, aligned at the point.

Metric (number of a row) -> Quantity -> NumberColumn (what siunitx reads, and how much room it needs)
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_report.errors import GpuReportError
from gpu_report.number_format import Quantity
from gpu_report.writing.tex import Tex, escape

Row = Mapping[str, Any]
"""One row of a table of the study, by column name."""

EMPTY: Final = Tex("")
_NUMBER: Final = re.compile(
    r"(?P<sign>-)?(?P<whole>\d+)(?:\.(?P<decimals>\d+))?(?:\((?P<uncertain>\d+)\))?(?:e(?P<power>(?P<power_sign>-)?\d+))?"
)
NOTHING: Final = Tex(r"\textendash{}")
"""What stands in a cell that has no number; the row or the note says why."""


class UnknownMetricError(GpuReportError):
    """A template asks for a number that the tables do not have."""


@dataclass(frozen=True, kw_only=True)
class NumberColumn:
    """The numbers of one column as siunitx aligns them, without the unit, which the header has."""

    cells: tuple[Tex, ...]
    column_type: Tex


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of the tables as it is shown to readers.

    `column` has the number, `<column>_low` and `<column>_high` its interval; `key` is its name in numbers.tex.
    """

    key: str
    column: str
    header: str
    meaning: str
    show: Callable[..., Quantity]
    column_unit: Callable[[Sequence[float]], str] = lambda _: ""

    def quantity(self, row: Row, *, unit: str = "") -> Quantity:
        """The number of that row with its interval, in a fixed unit where one is given."""
        bounds = {
            bound: float(row[f"{self.column}_{bound}"]) for bound in ("low", "high") if f"{self.column}_{bound}" in row
        }
        options = {"unit": unit} if unit else {}
        return self.show(float(row[self.column]), **bounds, **options)

    def is_in(self, rows: Sequence[Row]) -> bool:
        """Whether any of the rows has this number."""
        return any(self.column in row and math.isfinite(row[self.column]) for row in rows)

    def unit(self, rows: Sequence[Row]) -> str:
        """The unit of a column that holds these rows; empty for a number without one."""
        measured = [float(row[self.column]) for row in rows if math.isfinite(row[self.column])]
        chosen = self.column_unit(measured)
        return chosen or next((self.quantity(row).unit for row in rows if self.quantity(row).is_measured), "")

    def quantities(self, rows: Sequence[Row]) -> list[Quantity]:
        """The number of each row, in the one unit of their column."""
        fixed = self.column_unit([float(row[self.column]) for row in rows if math.isfinite(row[self.column])])
        return [self.quantity(row, unit=fixed) for row in rows]


def aligned(quantities: Sequence[Quantity], *, intervals: bool = True) -> NumberColumn:
    """Numbers of one column, their decimal points in line, each with its uncertainty in parentheses.

    In braces, and so not in line, stands what siunitx cannot read, a number that was not measured, or one whose
    interval no uncertainty tells, with the interval written out; and a power of ten where others have none, since all
    numbers would be far from theirs.
    """
    texts = [_siunitx_number(quantity, intervals=intervals) for quantity in quantities]
    numbers = [found for text in texts if (found := _NUMBER.fullmatch(text))]
    if not all(found["power"] for found in numbers):
        numbers = [found for found in numbers if not found["power"]]
    in_line = {found.string for found in numbers}
    return NumberColumn(
        cells=tuple(
            Tex(text) if text in in_line else _in_braces(quantity, text, intervals=intervals)
            for quantity, text in zip(quantities, texts, strict=True)
        ),
        column_type=_column_type(numbers),
    )


def _siunitx_number(quantity: Quantity, *, intervals: bool) -> str:
    """The number as siunitx reads it; empty where it cannot."""
    if not quantity.is_measured or (intervals and quantity.has_interval and not quantity.uncertainty):
        return ""
    text = quantity.number(interval=intervals)
    return text if _NUMBER.fullmatch(text) else ""


def _in_braces(quantity: Quantity, text: str, *, intervals: bool) -> Tex:
    """`text` is the number as siunitx reads it; empty where it cannot."""
    if not quantity.is_measured:
        shown = NOTHING
    elif text:
        shown = Tex(rf"\gpurepnum{{{text}}}")
    else:
        shown = Tex(quantity.tex(interval=intervals, unit=False))
    return Tex("{") + shown + Tex("}")


_DIGITS_GROUPED: Final = 5
"""From so many digits before the point on, a document may want them in groups."""


def _column_type(numbers: Sequence[re.Match[str]]) -> Tex:
    """Room for the longest of each part: digits before and after the point, uncertainty, power of ten."""
    if not numbers:
        return Tex("r")
    sign, power_sign = ("-" if any(number[part] for number in numbers) else "" for part in ("sign", "power_sign"))
    whole, decimals, uncertain, power = (
        max(len(number[part] or "") for number in numbers) for part in ("whole", "decimals", "uncertain", "power")
    )
    room = f"{sign}{whole}" + (f".{decimals}" if decimals else "")
    if not (sign or uncertain or power) and whole < _DIGITS_GROUPED:
        return Tex(rf"\gpurepplainnumbers{{{room}}}")
    ends = (f"({uncertain})" if uncertain else "") + (f"e{power_sign}{power - len(power_sign)}" if power else "")
    return Tex(rf"\gpurepnumbers{{{room}{ends}}}")


def unit_text(unit: str) -> Tex:
    """A unit as it stands in a header."""
    return escape(unit)
