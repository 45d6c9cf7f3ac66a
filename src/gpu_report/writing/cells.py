"""Cells of the tables in the text: numbers through the one formatter, one unit per column, aligned at the point."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_report import number_format
from gpu_report.errors import GpuReportError
from gpu_report.number_format import Quantity
from gpu_report.writing.tex import Tex, escape

Row = Mapping[str, Any]
"""One row of a table of the study, by column name."""

EMPTY: Final = Tex("")
NOTHING: Final = Tex(r"\textendash{}")
"""What stands in a cell that has no number; the row or the note says why."""


class UnknownMetricError(GpuReportError):
    """A template asks for a number that the tables do not have."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number as it is set, with its interval for the line below; both without unit, which the header has."""

    value: Tex
    interval: Tex = EMPTY


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

    def cells(self, rows: Sequence[Row], *, intervals: bool = True) -> list[Cell]:
        """One cell per row, in one unit and aligned at the decimal point."""
        found = aligned(self._quantities(rows))
        return found if intervals else [replace(cell, interval=EMPTY) for cell in found]

    def _quantities(self, rows: Sequence[Row]) -> list[Quantity]:
        fixed = self.column_unit([float(row[self.column]) for row in rows if math.isfinite(row[self.column])])
        return [self.quantity(row, unit=fixed) for row in rows]


def aligned(quantities: Sequence[Quantity]) -> list[Cell]:
    """Numbers of one column, the same room after the point for each; right-aligned, their points stand in line."""
    room = max((_digits_after_point(quantity.value) for quantity in quantities if quantity.is_measured), default=0)
    return [_cell(quantity, room) for quantity in quantities]


def _cell(quantity: Quantity, room: int) -> Cell:
    if not quantity.is_measured:
        return Cell(value=NOTHING)
    value = Tex(quantity.tex(interval=False, unit=False))
    if not quantity.has_interval:
        return Cell(value=value + _filler(quantity.value, room))
    low, high = (
        Tex(number_format.Quantity(value=bound).tex(interval=False)) for bound in (quantity.low, quantity.high)
    )
    return Cell(value=value + _filler(quantity.value, room), interval=Tex("{[}") + low + ", " + high + Tex("{]}"))


def _filler(text: str, room: int) -> Tex:
    digits = _digits_after_point(text)
    if digits == room or "e" in text:
        return Tex("")
    return Tex(rf"\phantom{{{'' if digits else '.'}{'0' * (room - digits)}}}")


def _digits_after_point(text: str) -> int:
    return 0 if "e" in text else len(text.partition(".")[2])


def unit_text(unit: str) -> Tex:
    """A unit as it stands in a header."""
    return escape(unit)
