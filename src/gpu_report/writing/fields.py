"""The columns of texts in a table, and headers: what stands in a cell, and how wide it may be."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.glossary import Row
from gpu_report.number_format import count
from gpu_report.options import SEPARATOR
from gpu_report.writing.tex import Tex, breakable, escape, shorten

_CHARACTERS_PER_LINE: Final = 90
_LONGEST_HEADER: Final = 26
_LONGEST_HEADER_LINE: Final = 8
_LONGEST_UNBROKEN_TEXT: Final = 30
"""Characters; a column of longer texts gets a fixed width and breaks its lines."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A text about a row: `header` over its column, `text` out of the row.

    `is_name` sets it in typewriter; `width` is a share of the line, for texts that may break.
    """

    header: str
    text: Callable[[Row], str]
    is_name: bool = False
    is_number: bool = False
    width: float = 0.0
    longest: int = 60
    """Characters; what is longer loses its middle."""
    parts_at: int = 0
    """Characters beyond which a name made of parts goes on in the line below."""

    def below(self, row: Row) -> Tex:
        """What of the name stands in the line below."""
        return escape(_in_two_lines(self.text(row), self.parts_at)[1])

    def cell(self, row: Row) -> Tex:
        """The text of that row, as TeX."""
        text = shorten(_in_two_lines(self.text(row), self.parts_at)[0], self.longest)
        if self.is_name:
            return Tex(r"\gpurepname{") + breakable(text) + Tex("}")
        return breakable(text) if self.width else escape(text)

    def lines(self, row: Row) -> int:
        """About how many lines the text of that row takes in its column."""
        length = min(len(self.text(row)), self.longest)
        return math.ceil(length / (self.width * _CHARACTERS_PER_LINE)) if self.width and length else 1

    def column_type(self, rows: Sequence[Row]) -> str:
        """The LaTeX column for these rows."""
        if self.is_number:
            return "r"
        longest = max(min(len(self.text(row)), self.longest) for row in rows)
        if self.width and longest > _LONGEST_UNBROKEN_TEXT * self.width / 0.25:
            return rf"\gpureptexts{{{self.width:g}}}"
        return "l"


def _in_two_lines(name: str, most: int) -> tuple[str, str]:
    """A name made of parts, cut where both lines are shortest if it has more characters than fit one."""
    parts = name.split(SEPARATOR)
    if not most or len(name) <= most or len(parts) < 2:
        return name, ""
    cuts = [(SEPARATOR.join(parts[:at]) + SEPARATOR, SEPARATOR.join(parts[at:])) for at in range(1, len(parts))]
    return min(cuts, key=lambda lines: max(map(len, lines)))


def text_field(header: str, column: str, *, width: float = 0.0, longest: int = 60, parts_at: int = 0) -> Field:
    """The text of a column as it is."""
    return Field(header=header, text=lambda row: str(row[column]), width=width, longest=longest, parts_at=parts_at)


def count_field(header: str, column: str) -> Field:
    """A whole number, all digits."""
    return Field(header=header, text=lambda row: count(row[column]).plain(), is_number=True)


def stacked(header: str) -> Tex:
    """A header over numbers, which are narrow: in two lines where it is long and has a blank near its middle."""
    short = shorten(header, _LONGEST_HEADER)
    cut = min((i for i, c in enumerate(short) if c == " "), key=lambda i: abs(i - len(short) / 2), default=0)
    if len(short) <= _LONGEST_HEADER_LINE or not cut:
        return escape(short)
    return Tex(r"\shortstack{") + escape(short[:cut]) + Tex(r"\\") + escape(short[cut + 1 :]) + Tex("}")
