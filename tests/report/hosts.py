"""Documents of other people that take our sections, built with us and without us, and what TeX says
of each.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.report.latex_log import OVERFULL_TOLERANCE_PT

MOST_RUNS: Final = 4
_COMPLAINT: Final = re.compile(
    r"^(?:! |(?:LaTeX|Package|Class)\b.*\bWarning: |Overfull |Missing character)"
)
_OVERFULL: Final = re.compile(r"^Overfull \\[hv]box \(([\d.]+)pt")
_RERUN: Final = re.compile(r"Rerun to get|Please rerun LaTeX|There were undefined references")
_STATE: Final = re.compile(r"^STATE (.*)$", re.MULTILINE)
_WORD: Final = re.compile(
    r'<word xMin="([\d.]+)" yMin="([\d.]+)" xMax="([\d.]+)" yMax="([\d.]+)">(.*?)</word>'
)

# What a document would notice if it were changed: lengths, fonts, language, page style, counters,
# colour.
PROBE: Final = r"""\makeatletter
\newcommand*\probe{\par
  \typeout{STATE font \fontname\font; tt {\ttfamily\fontname\font}}%
  \begingroup\ttfamily\typeout{STATE tt hyphen \the\hyphenchar\font}\endgroup
  \typeout{STATE page \the\textwidth,\the\textheight,\the\columnwidth}%
  \typeout{STATE more page \the\hsize,\the\oddsidemargin,\the\topmargin}%
  \typeout{STATE paragraph \the\parindent,\the\parskip,\the\baselineskip}%
  \typeout{STATE more paragraph \the\emergencystretch,\the\tolerance}%
  \typeout{STATE table \the\tabcolsep,\arraystretch,\the\abovecaptionskip}%
  \typeout{STATE more table \the\belowcaptionskip,\the\arrayrulewidth}%
  \typeout{STATE floats \the\floatsep,\the\textfloatsep,\the\c@topnumber}%
  \typeout{STATE more floats \the\c@totalnumber,\topfraction}%
  \typeout{STATE language \the\language,\the\lefthyphenmin,\the\endlinechar}%
  \typeout{STATE style \meaning\@oddhead; \meaning\@oddfoot; \meaning\thepage; \meaning\@listi}%
  \typeout{STATE counters \the\c@equation,\the\c@secnumdepth,\the\c@tocdepth}%
  \typeout{STATE names \meaning\tablename; \ifcsname ver@color.sty\endcsname\current@color\fi
    \ifcsname ver@xcolor.sty\endcsname\current@color\fi}}
\makeatother
"""
OWN_TEXT: Final = r"""\section*{Mine}
Text of \textbf{my own}, set with \texttt{names \textbf{of} \textit{mine}} and \emph{words} that the
sections must leave as they are: efficiency, office, Überlegungen, a formula $a + b = c$, and a
footnote.\footnote{A note of mine.}
\begin{itemize}\item One thing.\item And another thing.\end{itemize}
\begin{quote}And something that somebody else said, which is long enough to be
broken into several lines.\end{quote}
"""


@dataclass(frozen=True, kw_only=True)
class Host:
    """A document class with what documents of that class load and begin with."""

    name: str
    document_class: str
    before: str = ""
    after: str = ""
    opening: str = ""
    options: str = ""

    def document(self, *, sections: str, with_us: bool = True) -> str:
        """Its text: a page of its own, our sections, and a page of its own."""
        package = rf"\usepackage[{self.options}]{{measured/gpu_report}}"
        return "\n".join(
            [
                rf"\documentclass{self.document_class}",
                self.before,
                package if with_us else "",
                self.after,
                PROBE,
                r"\begin{document}",
                self.opening,
                OWN_TEXT,
                r"\probe\clearpage",
                sections if with_us else "",
                # Where floats over two columns still wait, LaTeX makes the column after one
                # \clearpage too short.
                r"\clearpage\mbox{}\clearpage\setcounter{page}{7}\setcounter{footnote}{0}\markboth{}{}\probe",
                OWN_TEXT,
                r"\end{document}",
            ]
        )


_TITLE: Final = r"\title{A title}\author{An author}"
HOSTS: Final = (
    Host(name="article", document_class="{article}"),
    Host(
        name="book",
        document_class="[openany]{book}",
        before=r"\usepackage[ngerman,english]{babel}",
        after=r"\usepackage[final]{graphicx}\usepackage[colorlinks]{hyperref}\usepackage{cleveref}",
        options="level=chapter",
    ),
    Host(
        name="scrartcl",
        document_class="{scrartcl}",
        before=r"\usepackage[ngerman]{babel}\usepackage{siunitx}",
        after=r"\usepackage[table]{xcolor}\usepackage[backend=bibtex]{biblatex}",
        options="language=german",
    ),
    Host(
        name="memoir",
        document_class="{memoir}",
        after=r"\usepackage{hyperref}\usepackage{cleveref}",
    ),
    Host(
        name="IEEEtran",
        document_class="[conference]{IEEEtran}",
        before=r"\usepackage{cite}\usepackage{hyperref}",
        opening=_TITLE + r"\maketitle",
    ),
    Host(
        name="acmart",
        document_class="[sigconf,nonacm]{acmart}",
        opening=_TITLE
        + r"\affiliation{\institution{I}\city{C}\country{D}}\email{a@b.example}\maketitle",
    ),
    Host(
        name="revtex4-2",
        document_class="[aps,prb,reprint]{revtex4-2}",
        # In REVTeX's columns, floats as high as ours are stuck.
        opening=_TITLE + r"\affiliation{An institute}\maketitle\onecolumngrid",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Built:
    """One document after TeX: its PDF and its log."""

    pdf: Path
    log: str

    @property
    def complaints(self) -> list[str]:
        """What TeX complains of: errors, warnings, boxes that stick out, characters that no font
        has.
        """
        lines = [line for line in self.log.splitlines() if _COMPLAINT.match(line)]
        return [line for line in lines if not _sticks_out_unseen(line)]

    @property
    def states(self) -> list[str]:
        """What the document is at every probe."""
        return _STATE.findall(self.log)

    def words(self, page: int) -> list[tuple[str, tuple[float, ...]]]:
        """The words of a page with the places they are printed at."""
        found = _WORD.findall(
            _asked("pdftotext", "-bbox", "-f", str(page), "-l", str(page), self.pdf, "-")
        )
        return [(word, tuple(map(float, places))) for *places, word in found]

    def fonts(self, page: int) -> list[str]:
        """The fonts of a page, without the random letters of a part of a font."""
        lines = _asked("pdffonts", "-f", str(page), "-l", str(page), self.pdf).splitlines()[2:]
        return sorted(line.split()[0].partition("+")[2] or line.split()[0] for line in lines)

    @property
    def pages(self) -> int:
        return int(re.findall(r"Pages:\s+(\d+)", _asked("pdfinfo", self.pdf))[0])

    @property
    def text(self) -> str:
        """Its words, one blank between them."""
        return " ".join(_asked("pdftotext", "-layout", self.pdf, "-").split())


def _sticks_out_unseen(line: str) -> bool:
    overfull = _OVERFULL.match(line)
    return overfull is not None and float(overfull[1]) <= OVERFULL_TOLERANCE_PT


def _asked(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def need(engine: str, *files: str) -> None:
    """Skip the test, and say why, where the engine or a class or package of its document is not
    installed.
    """
    if shutil.which(engine) is None:
        pytest.skip(
            f"{engine} is not installed; scripts/system_packages.sh hosts installs what Debian has"
        )
    for file in files if engine != "tectonic" else ():
        if not _is_there(file):
            pytest.skip(f"TeX has no {file}; scripts/system_packages.sh hosts installs it")


@cache
def _is_there(file: str) -> bool:
    return subprocess.run(["kpsewhich", file], capture_output=True, check=False).returncode == 0


def build(folder: Path, text: str, *, engine: str = "pdflatex", name: str = "host") -> Built:
    """Run the engine on the text until its references stand still."""
    (folder / f"{name}.tex").write_text(text, encoding="utf-8")
    log = ""
    for _ in range(MOST_RUNS):
        log = _run(folder, name, engine)
        if engine == "tectonic" or not _RERUN.search(log):
            break
    return Built(pdf=folder / f"{name}.pdf", log=log)


def _run(folder: Path, name: str, engine: str) -> str:
    options = (
        ["--keep-logs"] if engine == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    )
    environment = {**os.environ, "max_print_line": "100000"}
    finished = subprocess.run(
        [engine, *options, f"{name}.tex"],
        cwd=folder,
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    log = (folder / f"{name}.log").read_text("utf-8", errors="replace")
    assert finished.returncode == 0, "\n".join(
        line for line in log.splitlines() if line.startswith(("!", "l."))
    )[:2000]
    return log
