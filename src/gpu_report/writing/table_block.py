"""A table as the text shows it: cells that are TeX already, columns that are the same in every row left out.

Field (text of a row) and Metric (number of a row) -> lay_out -> TableBlock, which report/macros.tex.j2 prints
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from string import ascii_lowercase
from typing import Final

from gpu_report.glossary import Metric, Row
from gpu_report.number_format import Quantity
from gpu_report.writing.cells import EMPTY, aligned, unit_text
from gpu_report.writing.fields import Field, stacked
from gpu_report.writing.keys import macro_key
from gpu_report.writing.tex import Tex, escape
from gpu_report.writing.words import mark_words

LINES_PER_PAGE: Final = 46
"""Lines of a table that fit a page with its caption and notes."""

_LONGEST_KEY_PART: Final = 48
_CLAUSE_END: Final = re.compile(r"[:;.] ")


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row; `below` is what is left of names that take two lines, empty where none does."""

    cells: tuple[Tex, ...]
    below: tuple[Tex, ...] = ()
    heading: Tex = EMPTY
    """Stands above the first row of those that share it."""
    starts_group: bool = False
    lines: int = 1
    """About how many lines of the page it takes."""


@dataclass(frozen=True, kw_only=True)
class CellNumber:
    """A number of a table with its keys, for numbers.tex; `run` is the variant, empty where it is about none."""

    row: str
    metric: str
    quantity: Quantity
    run: str = ""


@dataclass(frozen=True, kw_only=True)
class TableBlock:
    """A table ready to be printed; `name` makes its label, `source` is the CSV behind it, seen from the project."""

    name: str
    caption: Tex
    alignment: Tex
    header: tuple[Tex, ...]
    units: tuple[Tex, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[Tex, ...] = ()
    source: str = ""
    title: Tex = EMPTY
    """Its caption in the list of tables; the first clause of the caption where there is none."""
    numbers: tuple[CellNumber, ...] = ()
    intervals: tuple[Quantity, ...] = ()
    """Those of its numbers that have one, or a range."""
    widths: tuple[int, ...] = ()
    """How many of TeX's columns each takes, two where numbers have intervals; empty where all take one."""

    @property
    def width(self) -> int:
        """In columns of TeX's."""
        return sum(self.widths) or len(self.header)

    @property
    def has_intervals(self) -> bool:
        """Whether a number has a 95 % interval beside it."""
        return any(not each.is_range for each in self.intervals)

    @property
    def has_ranges(self) -> bool:
        """Whether a number has the least and the greatest of three processes beside it."""
        return any(each.is_range for each in self.intervals)

    @property
    def short_caption(self) -> Tex:
        """What the list of tables says of it."""
        return self.title or Tex(_CLAUSE_END.split(self.caption, maxsplit=1)[0].rstrip("."))

    @property
    def has_units(self) -> bool:
        """Whether any column has a unit, and with it the header a second line."""
        return any(self.units)

    def owned_by(self, machine: str) -> "TableBlock":
        """The same with a label that no other machine's table has."""
        return replace(self, name=f"{machine}/{self.name}")

    def pages(self, lines_per_page: int = LINES_PER_PAGE) -> list["TableBlock"]:
        """The table in parts that fit a page each, cut where a group begins if one does; the first keeps the name."""
        return [
            self
            if number == 0 and part == self.rows
            else replace(
                self,
                name=self.name if number == 0 else f"{self.name}_{number + 1}",
                caption=self.caption if number == 0 else self.short_caption + " (continued)",
                title=self.title if number == 0 else self.short_caption + " (continued)",
                numbers=self.numbers if number == 0 else (),
                rows=part,
            )
            for number, part in enumerate(_parts(self.rows, lines_per_page))
        ]


def _parts(rows: tuple[TableRow, ...], lines_per_page: int) -> list[tuple[TableRow, ...]]:
    parts: list[tuple[TableRow, ...]] = []
    while rows:
        fitting = [count for count in range(1, len(rows) + 1) if _lines(rows[:count]) <= lines_per_page]
        most = fitting[-1] if fitting else 1
        groups = [
            count for count in range(most * 3 // 4 + 1, most + 1) if count < len(rows) and rows[count].starts_group
        ]
        cut = groups[-1] if groups and most < len(rows) else most
        parts.append(rows[:cut])
        rows = _under_heading(rows[:cut], rows[cut:])
    return parts


def _under_heading(before: tuple[TableRow, ...], after: tuple[TableRow, ...]) -> tuple[TableRow, ...]:
    """The rows of the next page, the first below the heading that it shares with the last of the page before."""
    shared = next((row.heading for row in reversed(before) if row.heading), EMPTY)
    if not after or after[0].heading or not shared:
        return after
    return (replace(after[0], heading=shared + " (continued)", lines=after[0].lines + 1), *after[1:])


def _lines(rows: Sequence[TableRow]) -> int:
    return sum(row.lines for row in rows)


def lay_out(
    rows: Sequence[Row],
    *,
    name: str,
    caption: Tex,
    title: Tex = EMPTY,
    fields: Sequence[Field],
    metrics: Sequence[Metric] = (),
    headers: Mapping[str, str] | None = None,
    group: Callable[[Row], object] = lambda _: None,
    heading: Callable[[Row], str] = lambda _: "",
    missing: Callable[[Row], str] = lambda _: "",
    marks: Callable[[Row], Sequence[str]] = lambda _: (),
    intervals: bool = True,
    notes: Sequence[Tex] = (),
    source: str = "",
) -> TableBlock:
    """Set rows as a table.

    A metric that no row has is left out. `headers` renames metrics by their key. A row for which `missing` gives a text
    shows that text in place of its numbers. Rows with another `group` than the one above are set off from it, and rows
    with another `heading` than the one above stand below it. `marks` are raised letters behind a row's first cell,
    explained below the table. `intervals` adds to each number its interval, which makes the columns wider.
    """
    letters = _letters(marks(row) for row in rows)
    shown = [metric for metric in metrics if metric.is_in(rows)]
    quantities = [metric.quantities(rows) for metric in shown]
    columns = [aligned(found, intervals=intervals) for found in quantities]
    laid = [
        _table_row(
            row,
            fields,
            numbers,
            width=sum(column.width for column in columns),
            missing=missing(row),
            raised=_raised([letters[mark] for mark in marks(row)]),
        )
        for row, numbers in zip(rows, _by_row([column.cells for column in columns], len(rows)), strict=True)
    ]
    return TableBlock(
        name=name,
        caption=caption,
        title=title,
        alignment=Tex(
            "".join(field.column_type(rows) for field in fields) + "".join(column.column_type for column in columns)
        ),
        header=(
            *(stacked(field.header) if field.is_number else escape(field.header) for field in fields),
            *(stacked((headers or {}).get(metric.name, metric.header)) for metric in shown),
        ),
        units=(*(Tex("") for _ in fields), *(unit_text(metric.unit_of(rows)) for metric in shown)),
        rows=tuple(_in_groups(laid, [group(row) for row in rows], [heading(row) for row in rows])),
        notes=(*notes, *_explained(letters)),
        source=source,
        numbers=tuple(_cell_numbers(rows, fields, shown, quantities)),
        intervals=tuple(number for found in quantities for number in found if intervals and number.has_interval),
        widths=(*(1 for _ in fields), *(column.width for column in columns)),
    )


def _cell_numbers(
    rows: Sequence[Row], fields: Sequence[Field], metrics: Sequence[Metric], quantities: Sequence[Sequence[Quantity]]
) -> Iterator[CellNumber]:
    keys = _row_keys(rows, fields)
    for metric, found in zip(metrics, quantities, strict=True):
        for row, key, quantity in zip(rows, keys, found, strict=True):
            if quantity.is_measured:
                yield CellNumber(row=key, metric=metric.name, quantity=quantity, run=str(row.get("variant", "")))


def _row_keys(rows: Sequence[Row], fields: Sequence[Field]) -> list[str]:
    """A key for each row, made of its variant and what its fields say beside; rows that say the same are counted."""
    seen: Counter[str] = Counter()
    keys = []
    for row in rows:
        texts = dict.fromkeys([str(row.get("variant", "")), *(field.text(row) for field in fields)])
        key = "/".join(shortened for text in texts if (shortened := macro_key(text)[:_LONGEST_KEY_PART]))
        seen[key] += 1
        keys.append(key if seen[key] == 1 else f"{key}/{seen[key]}")
    return keys


def _letters(marks: Iterable[Sequence[str]]) -> dict[str, str]:
    letters = chain(ascii_lowercase, map("".join, product(ascii_lowercase, repeat=2)))
    return dict(zip(dict.fromkeys(mark for found in marks for mark in found), letters, strict=False))


def _raised(letters: Sequence[str]) -> Tex:
    return Tex(rf"\textsuperscript{{{','.join(letters)}}}") if letters else Tex("")


def _explained(letters: Mapping[str, str]) -> list[Tex]:
    return [_raised([letter]) + f" {mark_words(mark)}." for mark, letter in letters.items()]


def _by_row(columns: Sequence[Sequence[Tex]], rows: int) -> list[list[Tex]]:
    """The numbers of each row; without any column as many rows of none."""
    return [[column[index] for column in columns] for index in range(rows)]


def _table_row(
    row: Row, fields: Sequence[Field], numbers: Sequence[Tex], *, width: int, missing: str, raised: Tex
) -> TableRow:
    first, *others = (field.cell(row) for field in fields)
    texts = (first + raised, *others)
    below = tuple(field.below(row) for field in fields)
    if missing and numbers:
        numbers = [Tex(rf"\multicolumn{{{width}}}{{l}}{{\itshape ") + escape(missing) + Tex("}")]
    return TableRow(
        cells=(*texts, *numbers),
        below=below if any(below) else (),
        lines=max(field.lines(row) for field in fields) + any(below),
    )


def _in_groups(rows: Sequence[TableRow], groups: Sequence[object], headings: Sequence[str]) -> Iterator[TableRow]:
    """Each row set off from the one above where its group is another, and below its heading where that is another."""
    for index, row in enumerate(rows):
        head = escape(headings[index] if index == 0 or headings[index] != headings[index - 1] else "")
        starts_group = index > 0 and groups[index] != groups[index - 1]
        yield replace(row, heading=head, starts_group=starts_group, lines=row.lines + bool(head))
