"""Write the README's table of how fast one machine trains each model, from its published bundle:
`make readme`.

bundle -> the chain of each model, as the report's first page has it -> Markdown between the
README's two markers
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpu_report.errors import GpuReportError
from gpu_report.glossary import Metric, Row
from gpu_report.notebook import read_bundle
from gpu_report.storage.files import write_text_atomically
from gpu_report.writing.cards import CHAIN
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.table import Text

BUNDLE: Final = Path("results/published/h200-140gb-x1-xeon-16c.tar.xz")
STUDY: Final = Path("config/study.yaml")
BEGIN: Final = "<!-- headline: written by `make readme` from a published bundle -->"
END: Final = "<!-- end of headline -->"


class ReadmeError(GpuReportError):
    """The README has no place for the table."""


def headline(machine: MachineResults) -> str:
    """What stands between the markers: the machine, and a row per model."""
    rows = machine.chains
    columns = [column for column in CHAIN if column.is_in(rows)]
    first, last = machine.dates
    days = first if first == last else f"{first} to {last}"
    lines = [
        f"{machine.name}; PyTorch {machine.facts['PyTorch']}; {days}; training samples per second, "
        f"geometric means of {machine.processes} processes, with 95 % intervals in parentheses:",
        "",
        f"| {' | '.join(column.header for column in columns)} |",
        f"|{'---|' * len(columns)}",
    ]
    lines += [f"| {' | '.join(cell(column, row) for column in columns)} |" for row in rows]
    return "\n".join(lines)


def cell(column: Text | Metric, row: Row) -> str:
    """A dash where there is nothing."""
    if isinstance(column, Text):
        return column.text(row) or "–"
    number = column.quantity(row)
    is_factor = "over" in column.column
    return number.plain(unit=is_factor) if number.is_measured else "–"


def with_headline(text: str, block: str) -> str:
    """The README with this block between its markers.

    Raises:
        ReadmeError: it has not each of the two markers once, in their order.
    """
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not begin or not end or (text.count(BEGIN), text.count(END)) != (1, 1):
        raise ReadmeError(
            f"the README needs the line {BEGIN!r} and, below it, the line {END!r}, once each; add "
            "them"
        )
    return f"{before}{begin}\n{block}\n\n{end}{after}"


def main(arguments: Sequence[str]) -> int:
    """Write the table into the file that is named, or README.md."""
    readme = Path(arguments[0]) if arguments else Path("README.md")
    try:
        block = headline(read_bundle(BUNDLE, study=STUDY))
        write_text_atomically(readme, with_headline(readme.read_text("utf-8"), block))
    except GpuReportError as error:
        print(f"headline_table: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
