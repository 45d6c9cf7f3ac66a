"""Cells of the tables in the text: numbers through the one formatter, one unit per column, aligned
at the point.

Metric (number of a row) -> Quantity -> NumberColumn (what siunitx reads, and how much room it
needs)
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.printing.number_format import Quantity
from gpu_report.writing.tex import Tex

EMPTY: Final = Tex("")
_NUMBER: Final = re.compile(
    r"(?P<sign>-)?(?P<whole>\d+)(?:\.(?P<decimals>\d+))?(?:e(?P<power>(?P<power_sign>-)?\d+))?"
)
NOTHING: Final = Tex(r"\textendash{}")
"""What is in a cell that has no number; the row or the note says why."""


@dataclass(frozen=True, kw_only=True)
class NumberColumn:
    """The numbers of one column as siunitx aligns them, without the unit, which the header has.

    With intervals it is two columns of TeX's, whose `width` the header spans.
    """

    cells: tuple[Tex, ...]
    column_type: Tex
    width: int = 1


def aligned(quantities: Sequence[Quantity], *, intervals: bool = True) -> NumberColumn:
    """Numbers of one column, their decimal points in line, and beside them their intervals in a
    column of its own.

    In braces, and so not in line, is what siunitx cannot read, or was not measured; and a power of
    ten where others have none, since all numbers would be far from theirs.
    """
    numbers = [found for quantity in quantities if (found := _NUMBER.fullmatch(quantity.bare))]
    if not all(found["power"] for found in numbers):
        numbers = [found for found in numbers if not found["power"]]
    in_line = {found.string for found in numbers}
    cells = [Tex(each.bare) if each.bare in in_line else _in_braces(each) for each in quantities]
    column_type = _column_type(numbers)
    if not (intervals and any(quantity.has_interval for quantity in quantities)):
        return NumberColumn(cells=tuple(cells), column_type=column_type)
    return NumberColumn(
        cells=tuple(
            cell + Tex(" & ") + _interval(each)
            for cell, each in zip(cells, quantities, strict=True)
        ),
        column_type=column_type + Tex(r"@{\,}l"),
        width=2,
    )


def _interval(quantity: Quantity) -> Tex:
    if not quantity.has_interval:
        return EMPTY
    if quantity.either_side:
        return Tex(rf"$\pm$\,{quantity.either_side}")
    low, high = (Quantity(value=bound).tex() for bound in (quantity.low, quantity.high))
    return Tex(f"({low} to {high})")


def _in_braces(quantity: Quantity) -> Tex:
    if not quantity.is_measured:
        shown = NOTHING
    elif _NUMBER.fullmatch(quantity.bare):
        shown = Tex(rf"\gpurepnum{{{quantity.bare}}}")
    else:
        shown = Tex(quantity.tex(interval=False, unit=False))
    return Tex("{") + shown + Tex("}")


_DIGITS_GROUPED: Final = 5
"""Numbers with this many digits before the point may be grouped by a document."""


def _column_type(numbers: Sequence[re.Match[str]]) -> Tex:
    """Room for the longest of each part: digits before and after the point, and power of ten."""
    if not numbers:
        return Tex("r")
    sign, power_sign = (
        "-" if any(number[part] for number in numbers) else "" for part in ("sign", "power_sign")
    )
    whole, decimals, power = (
        max(len(number[part] or "") for number in numbers)
        for part in ("whole", "decimals", "power")
    )
    room = f"{sign}{whole}" + (f".{decimals}" if decimals else "")
    if not (sign or power) and whole < _DIGITS_GROUPED:
        return Tex(rf"\gpurepplainnumbers{{{room}}}")
    return Tex(
        rf"\gpurepnumbers{{{room}"
        + (f"e{power_sign}{power - len(power_sign)}" if power else "")
        + "}"
    )
