"""A table of the report: rows, and the columns to show of each, laid out as cells that are TeX
already.

rows + columns (Text, or a Metric of the glossary) -> table -> a TableBlock for each page, which
macros.tex.j2 prints
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, groupby, product
from statistics import median
from string import ascii_lowercase
from typing import Any, Final

from gpu_report.errors import ReportError
from gpu_report.glossary import METRICS, SHOWN, Metric, Row, memory_unit, time_in, time_unit_of_ms
from gpu_report.printing.number_format import (
    Quantity,
    count,
    duration,
    memory,
    percent,
    prefix_of,
    quantity,
    ratio,
    scaled,
    share,
    tex_numbers,
    throughput,
)
from gpu_report.tables.marks import MEANINGS
from gpu_report.words import shorten
from gpu_report.writing.tex import Tex, breakable, escape, macro_key

LINES_PER_PAGE: Final = 46
"""Lines of a table that fit a page with its caption and notes."""

_LONGEST_KEY_PART: Final = 48
_CHARACTERS_PER_LINE: Final = 90
_LONGEST_HEADER: Final = 26
_LONGEST_HEADER_LINE: Final = 8
_LONGEST_UNBROKEN_TEXT: Final = 30
"""Characters; a column of longer texts gets a fixed width and breaks its lines."""
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
        return Tex(r"$\pm$\," + tex_numbers(quantity.either_side))
    return Tex(tex_numbers(f"({quantity.low} to {quantity.high})"))


def _in_braces(quantity: Quantity) -> Tex:
    shown = Tex(tex_numbers(quantity.value)) if quantity.is_measured else NOTHING
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


@dataclass(frozen=True)
class Text:
    """A column of texts under `header`: `of` is the column of the row that has the text, or what
    makes it of the row.

    Where `of` is empty, the header names the column. A whole number has its digits grouped.
    """

    header: str
    of: str | Callable[[Row], object] = ""
    is_name: bool = field(default=False, kw_only=True)
    """Whether it is set in typewriter."""
    is_number: bool = field(default=False, kw_only=True)
    """Whether it is aligned to the right, with a dash where it is empty."""
    width: float = field(default=0.0, kw_only=True)
    """A share of the line, for texts that may break."""
    longest: int = field(default=60, kw_only=True)
    """Characters; what is longer loses its middle."""
    if_differs: bool = field(default=False, kw_only=True)
    """Whether it is left out where all rows have the same."""

    def text(self, row: Row) -> str:
        """The text of that row."""
        value = _of(self.of or self.header, row)
        return count(value).plain() if isinstance(value, int) else str(value)

    def is_in(self, rows: Sequence[Row]) -> bool:
        """Whether the column says anything about these rows."""
        texts = {self.text(row) for row in rows}
        return len(texts) > self.if_differs and texts != {""}

    def heading(self) -> Tex:
        """What is above the column."""
        return _stacked(self.header) if self.is_number else escape(self.header)

    def cell(self, row: Row) -> Tex:
        """The text of that row, as TeX."""
        text = shorten(self.text(row), self.longest)
        if self.is_name:
            return Tex(r"\gpurepname{") + breakable(text) + Tex("}")
        if self.is_number:
            return Tex(tex_numbers(escape(text))) if text else NOTHING
        return breakable(text) if self.width else escape(text)

    def lines(self, row: Row) -> int:
        """About how many lines the text of that row takes in its column."""
        length = min(len(self.text(row)), self.longest)
        return (
            math.ceil(length / (self.width * _CHARACTERS_PER_LINE)) if self.width and length else 1
        )

    def column_type(self, rows: Sequence[Row]) -> str:
        """The LaTeX column for these rows."""
        if self.is_number:
            return "r"
        longest = max(min(len(self.text(row)), self.longest) for row in rows)
        if self.width and longest > _LONGEST_UNBROKEN_TEXT * self.width / 0.25:
            return rf"\gpureptexts{{{self.width:g}}}"
        return "l"


def _stacked(header: str) -> Tex:
    """A header over numbers, which are narrow: in two lines where it is long and has a blank near
    its middle.
    """
    short = shorten(header, _LONGEST_HEADER)
    cut = min(
        (i for i, c in enumerate(short) if c == " "),
        key=lambda i: abs(i - len(short) / 2),
        default=0,
    )
    if len(short) <= _LONGEST_HEADER_LINE or not cut:
        return escape(short)
    return (
        Tex(r"\shortstack{")
        + escape(short[:cut])
        + Tex(r"\\")
        + escape(short[cut + 1 :])
        + Tex("}")
    )


_FORMATS: Final[Mapping[str, Mapping[str, Any]]] = {
    "number": {"show": quantity},
    "number alone": {"show": lambda value, **_: quantity(value, most_decimals=3)},
    "count": {"show": count},
    "ratio": {"show": ratio},
    "share": {"show": share},
    "ms": {"show": lambda value: duration(value / 1000, unit="ms")},
    "s or ms": {"show": time_in(1e3), "column_unit": time_unit_of_ms},
    "µs": {"show": time_in(1e6), "column_unit": lambda _: "µs"},
    "small percent": {
        "show": (
            lambda value: Quantity(value="$<$0.1", unit="%") if 0 < value < 0.05 else percent(value)
        )
    },
    "samples/s": {"show": throughput},
    "samples/s alone": {"show": lambda value, **_: throughput(value)},
    "FLOP/B": {"show": partial(quantity, unit="FLOP/B")},
    "memory": {"show": memory, "column_unit": memory_unit},
    "memory alone": {
        "show": lambda value, **unit: memory(value, unit=unit.get("unit")),
        "column_unit": memory_unit,
    },
}
"""How a template may have a number of a table written that the glossary does not have."""


def metric(name: str, header: str = "", show: str = "number", *, unit: str = "") -> Metric:
    """A column of numbers: by key or column one of the glossary's, or with a header one of this
    table alone.

    Args:
        name: The key or column.
        header: What is above it; the glossary's where empty.
        show: How it is written, see _FORMATS.
        unit: That of a number which takes prefixes, such as FLOP/s; all in the column have that of
            their median.

    Raises:
        ReportError: there is no header, and the glossary has no such metric; or no such way to
            write it.
    """
    if unit:
        return Metric(
            column=name,
            header=header,
            show=partial(_scaled, unit),
            column_unit=lambda values: prefix_of(median(map(abs, values or [0.0]))) + unit,
        )
    if show not in _FORMATS:
        raise ReportError(f"no number is written as {show!r}; use one of {', '.join(_FORMATS)}")
    if header:
        return Metric(column=name, header=header, **_FORMATS[show])
    found = SHOWN.get(name) or METRICS.get(name)
    if found is None:
        raise ReportError(f"there is no metric {name!r}; use one of {', '.join(SHOWN)}")
    return found


def _scaled(
    base: str, value: float, *, unit: str, low: float = math.nan, high: float = math.nan
) -> Quantity:
    return scaled(value, base, prefix=unit.removesuffix(base), low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row."""

    cells: tuple[Tex, ...]
    heading: Tex = EMPTY
    """Is above the first row of those that share it."""
    starts_group: bool = False
    lines: int = 1
    """About how many lines of the page it takes."""
    raised: tuple[str, ...] = ()
    """The letters of the notes on it."""


@dataclass(frozen=True, kw_only=True)
class KeyedNumber:
    """One number: `table` is the CSV that has it, or the file of the code that decides it; `run` is
    the variant, empty where it is about several or none.
    """

    key: str
    quantity: Quantity
    table: str
    run: str = ""


@dataclass(frozen=True, kw_only=True)
class TableBlock:
    """A table ready to be printed; `name` makes its label, `source` is the CSV behind it, seen from
    the project.
    """

    name: str
    caption: Tex
    title: Tex
    """Its caption in the list of tables."""
    alignment: Tex
    header: tuple[Tex, ...]
    units: tuple[Tex, ...]
    """As the header; empty where no column has one."""
    rows: tuple[TableRow, ...]
    width: int
    """In columns of TeX's, of which a number with an interval takes two."""
    notes: tuple[Tex, ...] = ()
    raised_notes: Mapping[str, Tex] = field(default_factory=dict)
    """By the letter that is raised in the rows that a note is on; a page has those of its rows."""
    source: str = ""
    numbers: tuple[KeyedNumber, ...] = ()
    intervals: frozenset[str] = frozenset()
    """How a number has its 95 % interval beside it: `ends` in parentheses, or the larger `half`."""

    def pages(self, lines_per_page: int = LINES_PER_PAGE) -> list["TableBlock"]:
        """The table in parts that fit a page each, cut where a group begins if one does; the first
        keeps the name.
        """
        first, *others = _parts(self.rows, lines_per_page)
        continued = self.title + " (continued)"
        return [
            self._part(first),
            *(
                replace(
                    self._part(part),
                    name=f"{self.name}_{number}",
                    caption=continued,
                    title=continued,
                    numbers=(),
                )
                for number, part in enumerate(others, start=2)
            ),
        ]

    def _part(self, rows: tuple[TableRow, ...]) -> "TableBlock":
        """Some of the rows, with the notes on them."""
        raised = {letter for row in rows for letter in row.raised}
        notes = (note for letter, note in self.raised_notes.items() if letter in raised)
        return replace(self, rows=rows, notes=(*self.notes, *notes))


def table(
    rows: Sequence[Row],
    *,
    name: str,
    caption: str,
    columns: Sequence[Text | Metric],
    title: str = "",
    group: str | Callable[[Row], object] = lambda _: None,
    heading: str | Callable[[Row], object] = lambda _: "",
    instead: Callable[[Row, Metric], str] = lambda _row, _metric: "",
    flags: Callable[[Row], Sequence[str]] = lambda _: (),
    intervals: bool = True,
    notes: Sequence[str] = (),
    source: str = "",
) -> list[TableBlock]:
    """Set rows as a table, in parts that fit a page each; none without rows.

    A column that says nothing about any row is left out.

    Args:
        rows: What is shown, a row each.
        name: Makes its label, and the name of its further pages.
        caption: Plain text, as the title and the notes.
        columns: Texts come before numbers.
        title: Its caption in the list of tables; the first clause of the caption where empty.
        group: Sets rows off from those above with another; a column's name or what makes it of a
            row.
        heading: What rows are below, until one has another.
        instead: Words in place of a number, printed once for those side by side.
        flags: Raised letters after the first cell, explained below the table.
        intervals: Whether a number has its interval beside it, which makes the columns wider.
        notes: What is said below the table.
        source: The CSV behind it.

    Raises:
        ReportError: the rows do not have a column.
    """
    if not rows:
        return []
    texts = [column for column in columns if isinstance(column, Text) and column.is_in(rows)]
    metrics = [column for column in columns if isinstance(column, Metric) and _has(rows, column)]
    quantities = [metric.quantities(rows) for metric in metrics]
    numbers = [aligned(found, intervals=intervals) for found in quantities]
    widths = [*(1 for _ in texts), *(column.width for column in numbers)]
    units = [metric.unit_of(rows) for metric in metrics]
    alphabet = chain(ascii_lowercase, map("".join, product(ascii_lowercase, repeat=2)))
    raised_flags = dict.fromkeys(flag for row in rows for flag in flags(row))
    letters = dict(zip(raised_flags, alphabet, strict=False))
    laid = []
    for index, row in enumerate(rows):
        first, *others = (text.cell(row) for text in texts)
        raised = tuple(letters[flag] for flag in flags(row))
        laid.append(
            TableRow(
                cells=(
                    first + _raised(raised),
                    *others,
                    *_number_cells(row, index, metrics, numbers, instead),
                ),
                lines=max(text.lines(row) for text in texts),
                raised=raised,
            )
        )
    ends = [end for mark in (": ", "; ", ". ") if (end := caption.find(mark)) >= 0]
    return TableBlock(
        name=name,
        caption=escape(caption),
        title=escape(title or caption[: min(ends, default=None)].rstrip(".")),
        alignment=Tex(
            "".join(
                [
                    *(text.column_type(rows) for text in texts),
                    *(each.column_type for each in numbers),
                ]
            )
        ),
        header=_spanned(
            [*(text.heading() for text in texts), *(_stacked(each.header) for each in metrics)],
            widths,
        ),
        units=_spanned([*(EMPTY for _ in texts), *map(escape, units)], widths)
        if any(units)
        else (),
        rows=tuple(
            _in_groups(laid, [_of(group, row) for row in rows], [_of(heading, row) for row in rows])
        ),
        width=sum(widths),
        notes=tuple(map(escape, notes)),
        raised_notes={
            letter: _raised([letter]) + f" {MEANINGS.get(flag, flag)}."
            for flag, letter in letters.items()
        },
        source=source,
        numbers=tuple(_keyed(rows, texts, metrics, quantities, name=name, source=source)),
        intervals=frozenset(
            "half" if number.either_side else "ends"
            for number in chain.from_iterable(quantities)
            if intervals and number.has_interval
        ),
    ).pages()


def _of(column: str | Callable[[Row], object], row: Row) -> object:
    """What the column of that name, or what makes it, has for a row."""
    if callable(column):
        return column(row)
    if column not in row:
        raise ReportError(f"there is no column {column!r}; use one of {', '.join(row)}")
    return row[column]


def _has(rows: Sequence[Row], metric: Metric) -> bool:
    """Whether any row has the number; a column that is not there is an error, not a number that was
    not measured.
    """
    _of(metric.column, rows[0])
    return metric.is_in(rows)


def _spanned(cells: Sequence[Tex], widths: Sequence[int]) -> tuple[Tex, ...]:
    """Cells over columns of which some take several of TeX's; braces keep siunitx from reading
    them.
    """
    return tuple(
        Tex(rf"\multicolumn{{{width}}}{{c}}" if width > 1 else "") + Tex("{") + cell + Tex("}")
        for cell, width in zip(cells, widths, strict=True)
    )


def _number_cells(
    row: Row,
    index: int,
    metrics: Sequence[Metric],
    columns: Sequence[NumberColumn],
    instead: Callable[[Row, Metric], str],
) -> Iterator[Tex]:
    for words, alike in groupby(
        zip(metrics, columns, strict=True), key=lambda pair: instead(row, pair[0])
    ):
        found = [column for _, column in alike]
        if words:
            width, alignment = (
                sum(column.width for column in found),
                "l" if len(found) == len(columns) else "c",
            )
            yield (
                Tex(rf"\multicolumn{{{width}}}{{{alignment}}}{{\itshape ")
                + escape(words)
                + Tex("}")
            )
        else:
            yield from (column.cells[index] for column in found)


def _keyed(
    rows: Sequence[Row],
    texts: Sequence[Text],
    metrics: Sequence[Metric],
    quantities: Sequence[Sequence[Quantity]],
    *,
    name: str,
    source: str,
) -> Iterator[KeyedNumber]:
    # A key for each row, made of its variant and its texts; rows that say the same are counted.
    seen: Counter[str] = Counter()
    keys = []
    for row in rows:
        said = dict.fromkeys([str(row.get("variant", "")), *(text.text(row) for text in texts)])
        key = "/".join(
            shortened for text in said if (shortened := macro_key(text)[:_LONGEST_KEY_PART])
        )
        seen[key] += 1
        keys.append(key if seen[key] == 1 else f"{key}/{seen[key]}")
    for metric, found in zip(metrics, quantities, strict=True):
        for row, key, number in zip(rows, keys, found, strict=True):
            if number.is_measured:
                parts = map(macro_key, f"{name}/{key}/{metric.name}".split("/"))
                yield KeyedNumber(
                    key="/".join(filter(None, parts)),
                    quantity=number,
                    table=source,
                    run=str(row.get("variant", "")),
                )


def _raised(letters: Sequence[str]) -> Tex:
    return Tex(rf"\textsuperscript{{{','.join(letters)}}}") if letters else EMPTY


def _in_groups(
    rows: Sequence[TableRow], groups: Sequence[object], headings: Sequence[object]
) -> Iterator[TableRow]:
    """Each row set off from the one above where its group is another, and below its heading where
    that is another.
    """
    for index, row in enumerate(rows):
        head = escape(
            str(headings[index]) if index == 0 or headings[index] != headings[index - 1] else ""
        )
        starts_group = index > 0 and groups[index] != groups[index - 1]
        yield replace(row, heading=head, starts_group=starts_group, lines=row.lines + bool(head))


def _parts(rows: tuple[TableRow, ...], lines_per_page: int) -> Iterator[tuple[TableRow, ...]]:
    while rows:
        lines = accumulate(row.lines for row in rows)
        fitting = [
            number for number, reached in enumerate(lines, start=1) if reached <= lines_per_page
        ]
        most = fitting[-1] if fitting else 1
        groups = [
            number
            for number in range(most * 3 // 4 + 1, most + 1)
            if number < len(rows) and rows[number].starts_group
        ]
        cut = groups[-1] if groups and most < len(rows) else most
        yield rows[:cut]
        rows = _under_heading(rows[:cut], rows[cut:])


def _under_heading(
    before: tuple[TableRow, ...], after: tuple[TableRow, ...]
) -> tuple[TableRow, ...]:
    """The rows of the next page, the first below the heading that it shares with the last of the
    page before.
    """
    shared = next((row.heading for row in reversed(before) if row.heading), EMPTY)
    if not after or after[0].heading or not shared:
        return after
    return (
        replace(after[0], heading=shared + " (continued)", lines=after[0].lines + 1),
        *after[1:],
    )
