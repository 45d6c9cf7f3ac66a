"""What a reader of the PDF would notice, as LaTeX's log tells it, in words that name the file."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

OVERFULL_TOLERANCE_PT: Final = 2.0
"""A line that sticks out by less is not seen in print."""

_OVERFULL: Final = re.compile(
    r"^Overfull \\[hv]box \((?P<excess>[\d.]+)pt too (?:wide|high)\)(?P<where>.*)$"
)
_WARNING: Final = re.compile(
    r"^(?:LaTeX|Package \S+) Warning: (?P<message>(?:Reference|Citation|Hyper reference) "
    r".*undefined.*|Label .* multiply defined.*|Float too large.*)$"
)
_MISSING_CHARACTER: Final = re.compile(r"^Missing character: (?P<message>.*)$")
_FILE_MARK: Final = re.compile(
    r"\((?P<file>\.{0,2}/?[\w./-]+\.(?:tex|sty|cls|aux|toc|out|lof|lot|def|cfg|fd|ltx))|(?P<open>\()|(?P<close>\))"
)


def problems_of(pdf: Path) -> list[str]:
    """The same of the run that made this PDF beside its text."""
    return log_problems((pdf.parent / "build/gpu_report.log").read_text("utf-8", errors="replace"))


def log_problems(log: str) -> list[str]:
    """What a reader of the PDF would notice: undefined references, doubled labels, overfull lines,
    lost characters.

    The log must come from the last run and have been written with unbroken lines
    (`max_print_line`).
    """
    return list(dict.fromkeys(_problems(log)))


def _problems(log: str) -> Iterator[str]:
    open_files: list[str] = []
    for line in log.splitlines():
        overfull = _OVERFULL.match(line)
        if overfull:
            if float(overfull["excess"]) > OVERFULL_TOLERANCE_PT:
                yield _placed(open_files, line)
            continue
        warning = _WARNING.match(line) or _MISSING_CHARACTER.match(line)
        if warning:
            yield _placed(open_files, warning["message"])
            continue
        for mark in _FILE_MARK.finditer(line):
            if mark["close"]:
                if open_files:
                    open_files.pop()
            else:
                open_files.append(mark["file"] or "")


def _placed(open_files: list[str], message: str) -> str:
    known = [name for name in open_files if name]
    return f"{known[-1].removeprefix('./')}: {message}" if known else message
