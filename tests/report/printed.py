r"""The numbers that a reader of a report sees, each with the unit that it is printed in.

report folder -> wide_text -> printed -> Printed(text, units, sources)

The report is set once more on a page so wide that no line breaks, without what numbers a page,
section, table, figure or item, without formulas (set by \[ \] and \( \)) and listings: what is left
are numbers that say something.
"""

import calendar
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_WIDE: Final = r"""
\geometry{paperwidth=4000mm,textwidth=3900mm,paperheight=2000mm,textheight=1900mm}
\pagestyle{empty}\raggedright\hyphenpenalty=10000 \setcounter{secnumdepth}{-2}%
\def\gpurepcontents{}\renewcommand*\tableofcontents{}%
\renewcommand*\thetable{}\renewcommand*\thefigure{}\renewcommand*\labelenumi{}%
\renewcommand*\gpurepref[1]{}\renewcommand*\gpurepline[3]{}\renewcommand*\gpureppicture[2][]{}%
\renewcommand*\gpurepbarrier{}\renewcommand*\gpurepbeforesection{}%
\renewcommand\gpurepnote[1]{\par NOTE #1\par ENDNOTE\par}\renewcommand\textsuperscript[1]{ #1}%
\def\[#1\]{}\def\(#1\){}%
"""
"""What the preamble gets; a new kind of number that nobody would quote needs a line here."""

FACTORS: Final[Mapping[str, Mapping[str, float]]] = {
    "": {},
    "%": {"%": 1, "1": 100},
    "×": {"1": 1},
    "samples/s": {"1/s": 1},
    "tokens/s": {"1/s": 1},
    "s": {"s": 1, "ms": 1e-3, "us": 1e-6},
    "ms": {"s": 1e3, "ms": 1, "us": 1e-3},
    "µs": {"s": 1e6, "ms": 1e3, "us": 1},
    "B": {"B": 1},
    "KiB": {"B": 2**-10},
    "MiB": {"MiB": 1, "B": 2**-20},
    "GiB": {"MiB": 2**-10, "B": 2**-30},
    "°C": {"C": 1},
    "MHz": {"MHz": 1},
    "FLOP/B": {"FLOP/B": 1},
    **{unit: {"1": 1} for unit in ("EUR", "steps")},
    **{
        prefix + unit: {unit: 1 / factor, f"G{unit}": 1e9 / factor}
        for unit in ("FLOP/s", "FLOP", "B/s", "J", "W")
        for prefix, factor in {
            "P": 1e15,
            "T": 1e12,
            "G": 1e9,
            "M": 1e6,
            "k": 1e3,
            "": 1.0,
            "m": 1e-3,
        }.items()
    },
}
"""Unit as it is printed -> unit of a column -> what the column's values are multiplied with, as
number_format does.
"""

_COUNTED: Final = {"steps": ("",)}
"""Words that are the unit of some columns, and in a sentence what is counted."""

_SPELLINGS: Final = {"times": "×", "μs": "µs"}
_MONTHS: Final = tuple(calendar.month_name)[1:]
_DATE: Final = re.compile(rf"\b(\d{{1,2}}) ({'|'.join(_MONTHS)}) (\d{{4}})\b")
_POWER: Final = re.compile(r"(?<=[\d)])\s*×\s*10\s*([-−]?\d+)")
_AROUND: Final = "()[]{},;:.!?“”\"'’<>=·~•|"
_NUMBER: Final = re.compile(
    r"(?P<number>[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(?:±(?P<spread>\d[\d.,]*))?(?P<power>e[-−]?\d+)?(?P<unit>%|×)?"
)
_DIGIT: Final = re.compile(r"\d")
_FILE: Final = re.compile(r"[\w.]+\.(?:csv|json)\b")


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A number, or a word with digits, as it is printed."""

    text: str
    units: tuple[str, ...] = ()
    """The unit beside it; where there is none, none or those it may be in: of the number before, or
    of its table.
    """
    is_number: bool = True
    is_bound: bool = False
    """Whether it is printed as `<0.1`."""
    spread: str = ""
    """How far the interval reaches on either side, as in 1.23 ± 0.04."""
    line: str = ""
    sources: tuple[str, ...] = ()
    """File names of the CSV files that its table names; empty in prose."""

    def __str__(self) -> str:
        at = max(0, self.line.find(self.text))
        return f"{self.text} in: {self.line[max(0, at - 60) : at + 60]}"


def wide_text(folder: Path) -> str:
    """The report in a folder, paragraph by paragraph and row by row, without numbers that only
    point somewhere.
    """
    document = (folder / "gpu_report.tex").read_text("utf-8")
    wide = document.replace(r"\begin{document}", _WIDE + r"\begin{document}", 1)
    (folder / "wide.tex").write_text(wide, encoding="utf-8")
    command = [
        "pdflatex",
        "-interaction=nonstopmode",
        "-halt-on-error",
        "-no-shell-escape",
        "wide.tex",
    ]
    finished = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert finished.returncode == 0, finished.stdout[-2000:].decode(errors="replace")
    found = subprocess.run(
        ["pdftotext", "-raw", folder / "wide.pdf", "-"], capture_output=True, text=True, check=True
    )
    return found.stdout


def printed(text: str) -> Iterator[Printed]:
    """Every number and every word with digits in a text made by `wide_text`."""
    dated = _DATE.sub(
        lambda date: f"{date[3]}-{_MONTHS.index(date[2]) + 1:02}-{int(date[1]):02}", text
    )
    lines = re.sub(r"(?<=\d)\s*±\s*(?=\d)", "±", _POWER.sub(r"e\1", dated)).splitlines()
    for position, line in enumerate(lines):
        yield from numbers_in(line, *_table_of(lines, position))


def numbers_in(
    line: str, units: tuple[str, ...] = (), sources: tuple[str, ...] = ()
) -> Iterator[Printed]:
    """The numbers of a line; `units` and `sources` are those of the table whose row it is."""
    words = line.split()
    inherited: tuple[str, ...] = ()
    for word, after, then in zip(words, [*words[1:], ""], [*words[2:], "", ""], strict=False):
        bare = word.strip(_AROUND)
        match = _NUMBER.fullmatch(bare)
        if (after, then) == (
            "more",
            "in",
        ):  # points to where more evidence stands, as a reference does
            continue
        if not match:
            if _DIGIT.search(bare):
                yield Printed(text=bare, is_number=False, line=line)
            continue
        is_a_side = after == "×" and _NUMBER.fullmatch(
            then.strip(_AROUND)
        )  # of a square, such as 3 × 3
        beside = "" if is_a_side else _unit_beside(match["unit"], word, after)
        if beside and then.strip(_AROUND) not in ("interval", "intervals"):
            inherited = (beside,)
        yield Printed(
            text=(match["number"] + (match["power"] or "")).replace("−", "-").replace(",", ""),
            units=(beside, *_COUNTED.get(beside, ())) if beside else ("", *inherited, *units),
            spread=(match["spread"] or "").replace(",", ""),
            is_bound=word.startswith("<"),
            line=line,
            sources=sources,
        )
        if word.endswith("."):
            inherited = ()


def _unit_beside(glued: str | None, word: str, after: str) -> str:
    if glued:
        return glued
    if word.endswith((",", ";", ".", ")", "]")):
        return ""
    beside = after.strip(_AROUND)
    beside = _SPELLINGS.get(beside, beside)
    return beside if beside in FACTORS else ""


def _table_of(lines: Sequence[str], position: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Units and CSV files of the table whose rows hold this line; none in the text, captions and
    notes included.
    """
    start = next(
        (
            at
            for at in range(position, -1, -1)
            if lines[at].startswith(("Table :", "NOTE", "Figure :"))
        ),
        0,
    )
    if not lines[start].startswith("Table :") or position == start:
        return (), ()
    end = next(at for at in range(start, len(lines)) if lines[at].startswith("NOTE"))
    note = " ".join(lines[end : lines.index("ENDNOTE", end)]).partition("Data: ")[2]
    units = dict.fromkeys(unit for line in lines[start + 1 : end] for unit in _units_alone(line))
    return tuple(units), tuple(_FILE.findall(note))


def _units_alone(line: str) -> tuple[str, ...]:
    """The units of a row that has nothing else, perhaps after what it is that has the unit: `CPU,
    %`.
    """
    words = [_SPELLINGS.get(word, word) for word in re.sub(r"\S+, (?=%)", "", line).split()]
    return tuple(dict.fromkeys(words)) if words and all(word in FACTORS for word in words) else ()
