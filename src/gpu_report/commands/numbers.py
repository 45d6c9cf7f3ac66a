"""The command that lists the numbers a document can quote from the report."""

import difflib
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpu_report.writing.layout import NUMBERS_CSV
from gpu_report.writing.numbers import ListedNumber, NumbersError, read_numbers

_WIDE = 10_000


def list_numbers(arguments: Namespace) -> None:
    """Print each number whose key holds all the words: key, number, the file it stands in and the variant measured."""
    numbers = read_numbers(arguments.folder / NUMBERS_CSV)
    found = [number for number in numbers if all(word in number.key for word in arguments.words)]
    if not found:
        raise NumbersError(_nothing_found(arguments.words, numbers, arguments.folder))
    table = Table("key", "number", "table", "run", box=None, pad_edge=False, expand=False)
    for number in found:
        table.add_row(*map(Text, (number.key, number.text, number.table, number.run)))
    # A key that goes on in the next line suits a person; a program that reads the list wants it in one.
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _WIDE).print(table)


def _nothing_found(words: Sequence[str], numbers: Sequence[ListedNumber], folder: Path) -> str:
    wanted = "/".join(words)
    keys = [number.key for number in numbers]
    short = {key.partition("/")[2]: key for key in keys}
    near = difflib.get_close_matches(wanted, [*keys, *short], n=3, cutoff=0.5)
    told = f"; nearest: {', '.join(short.get(key, key) for key in near)}" if near else ""
    return f"no key of the {len(numbers)} numbers in {folder / NUMBERS_CSV} holds {' and '.join(words)}{told}"
