"""The command that lists the numbers a document can quote from the report."""

import difflib
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from gpu_report.errors import ReportError
from gpu_report.printing.terminal import new_console
from gpu_report.writing.layout import NUMBERS_CSV
from gpu_report.writing.numbers import ListedNumber, read_numbers


def list_numbers(arguments: Namespace) -> None:
    """Print each number whose key has all the words in it: key, number, its file and the variant
    measured.
    """
    numbers = read_numbers(arguments.folder / NUMBERS_CSV)
    found = [number for number in numbers if all(word in number.key for word in arguments.words)]
    if not found:
        raise ReportError(_nothing_found(arguments.words, numbers, arguments.folder))
    table = Table("key", "number", "table", "run", box=None, pad_edge=False, expand=False)
    for number in found:
        table.add_row(number.key, number.text, number.table, number.run)
    new_console(unwrapped_when_piped=True).print(table)


def _nothing_found(words: Sequence[str], numbers: Sequence[ListedNumber], folder: Path) -> str:
    wanted = "/".join(words)
    keys = [number.key for number in numbers]
    short = {key.partition("/")[2]: key for key in keys}
    near = difflib.get_close_matches(wanted, [*keys, *short], n=3, cutoff=0.5)
    nearest = f"; nearest: {', '.join(short.get(key, key) for key in near)}" if near else ""
    return (
        f"no key of the {len(numbers)} numbers in {folder / NUMBERS_CSV} has "
        f"{' and '.join(words)} in it{nearest}"
    )
