r"""Every number of the study under a key, as TeX macros that a thesis can quote, and as a table
that says where from.

Keys, each after the machine's id and a slash: `<variant>/<metric>` for each variant;
`<experiment>/<group>/<value>/<metric>` for each row of an experiment;
`<workload>/<device>/<metric>`, or with several sizes `<workload>-<size>/<device>/<metric>`, where
the first experiment has one variant only of that on that device; and `<table>/<row>/<metric>` for
what other tables show.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from gpu_report.errors import ReportError
from gpu_report.glossary import SHOWN, Row
from gpu_report.printing.number_format import Quantity, count
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.table import TableBlock
from gpu_report.writing.tex import Tex, escape, macro_key

_UNITS: Final = {"×": Tex(r"\gpurepx"), "µs": Tex(r"\gpurepmicro s")}
"""Units that are no text; the package says how each is set in text and in maths."""


@dataclass(frozen=True, kw_only=True)
class KeyedNumber:
    """One number: `table` is the CSV that has it, or the file of the code that decides it; `run` is
    the variant, empty where it is about several or none.
    """

    key: str
    quantity: Quantity
    table: str
    run: str = ""


class ListedNumber(NamedTuple):
    """One line of `numbers.csv`; bounds are empty without an interval, the text is as the report
    prints it.
    """

    key: str
    value: str
    low: str
    high: str
    unit: str
    text: str
    table: str
    run: str


def numbers_of(machine: MachineResults) -> list[KeyedNumber]:
    """Every measured number of one machine's variants and experiments, by its key."""
    variants = machine.csv_path("variants")
    found = [
        KeyedNumber(key="study/variants", quantity=count(len(machine.variants)), table=variants),
        KeyedNumber(key="study/measured", quantity=count(len(machine.measured)), table=variants),
    ]
    for row in machine.variants:
        found += _of_row(str(row["variant"]), row, variants)
    for experiment in machine.experiments:
        for row in machine.rows_of(experiment.name):
            value = macro_key(row[experiment.axis])
            source = machine.csv_path(experiment.name)
            found += _of_row(f"{experiment.name}/{macro_key(row['group'])}/{value}", row, source)
    for experiment in machine.experiments[:1]:
        found += _short_keys(machine.rows_of(experiment.name), machine.csv_path(experiment.name))
    return [replace(number, key=f"{macro_key(machine.id)}/{number.key}") for number in found]


def numbers_of_tables(blocks: Iterable[TableBlock], *, known: Iterable[str]) -> list[KeyedNumber]:
    """The numbers that tables print, of those tables whose name, with the machine's in front, is
    not `known`.
    """
    left_out = set(known)
    return [
        KeyedNumber(
            key=_joined(block.name, number.row, number.metric),
            quantity=number.quantity,
            table=block.source,
            run=number.run,
        )
        for block in blocks
        if block.name not in left_out
        for number in block.numbers
    ]


def numbers_tex(found: Sequence[KeyedNumber], *, machine: str) -> str:
    r"""The file that defines each number: `\gpurepnumber{key}{value}{word}{low}{high}{unit}`.

    Args:
        found: The numbers; of two with one key the first counts.
        machine: The one that a key without a machine is about.
    """
    lines = [
        "% Every number of the report, made from the tables; \\gpurep{key} prints one, without "
        "the machine's name in",
        "% front one of the machine below. In the braces: key, value, the word for bounds",
        "% that are no 95 % interval, bounds, unit.",
        rf"\gpurepmachine{{{macro_key(machine)}}}",
    ]
    return "\n".join([*lines, *(_macro(number) for number in _each_once(found))]) + "\n"


def numbers_csv(found: Sequence[KeyedNumber]) -> str:
    """The same numbers as CSV: key, value, ends of the interval, unit, text, and table and run as
    in `KeyedNumber`.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ListedNumber._fields)
    for number in _each_once(found):
        quantity = number.quantity
        bounds = (quantity.low, quantity.high) if quantity.has_interval else ("", "")
        writer.writerow(
            [
                number.key,
                quantity.value,
                *bounds,
                quantity.unit,
                quantity.plain(),
                number.table,
                number.run,
            ]
        )
    return text.getvalue()


def read_numbers(path: Path) -> list[ListedNumber]:
    """Read what `numbers_csv` wrote.

    Raises:
        ReportError: there is no such file, it has other columns, or it is cut short.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except OSError as error:
        raise ReportError(
            f"cannot read {path}: {error.strerror}; make the report with: make report"
        ) from error
    if tuple(header) != ListedNumber._fields or any(len(line) != len(header) for line in lines):
        raise ReportError(
            f"{path} is cut short or has other columns than this gpu-report's; make the report "
            "again"
        )
    return [ListedNumber(*line) for line in lines]


def _each_once(found: Iterable[KeyedNumber]) -> list[KeyedNumber]:
    first: dict[str, KeyedNumber] = {}
    for number in found:
        first.setdefault(number.key, number)
    return list(first.values())


def _macro(number: KeyedNumber) -> str:
    quantity = number.quantity
    bounds = (quantity.low, quantity.high) if quantity.has_interval else ("", "")
    plain = [quantity.bare, quantity.bounds_word, *(bound.replace(",", "") for bound in bounds)]
    unit = _UNITS.get(quantity.unit, escape(quantity.unit))
    return "\\gpurepnumber" + "".join(f"{{{part}}}" for part in (number.key, *plain, unit))


def _of_row(prefix: str, row: Row, table: str) -> list[KeyedNumber]:
    quantities = {
        metric.key: metric.quantity(row) for metric in SHOWN.values() if metric.column in row
    }
    return [
        KeyedNumber(key=f"{prefix}/{key}", quantity=number, table=table, run=str(row["variant"]))
        for key, number in quantities.items()
        if number.is_measured
    ]


def _short_keys(rows: Sequence[Row], source: str) -> list[KeyedNumber]:
    sizes = Counter(workload for workload, _ in {(row["workload"], row["size"]) for row in rows})

    def name(row: Row) -> str:
        model = (
            row["workload"] if sizes[row["workload"]] == 1 else f"{row['workload']}-{row['size']}"
        )
        return f"{macro_key(model)}/{macro_key(row['device'])}"

    twins = Counter(map(name, rows))
    return [
        number
        for row in rows
        if twins[name(row)] == 1
        for number in _of_row(name(row), row, source)
    ]


def _joined(*parts: str) -> str:
    return "/".join(
        macro_key(piece) for part in parts for piece in part.split("/") if macro_key(piece)
    )
