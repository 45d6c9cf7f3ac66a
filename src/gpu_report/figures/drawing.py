"""Files of figures: many as PDF at once, by several processes where there are cores for them; and
one as PGF, whose words a document sets with its own fonts.

drawings -> processes (a figure at a time) -> bytes in the order of the drawings
Figure -> texts escaped for TeX -> laid out by what a TeX engine measures -> .pgf, and a .png beside
it for each image
"""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_pgf import FigureCanvasPgf, LatexError
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.ticker import Formatter, NullFormatter

from gpu_report.errors import ReportError
from gpu_report.figures.style import FileFormat, figure_bytes, report_style, settle
from gpu_report.study.machine import core_count

_MOST_PROCESSES: Final = 8
_LEAST_FIGURES: Final = 4
"""For fewer, another process costs more than it brings."""

_task: Callable[[int], bytes]
"""In a forked process: what it is there for. Handed over by the fork, so that no table is copied
through a pipe.
"""


def draw_all(
    drawings: Sequence[Callable[[], Figure]],
    *,
    file_format: FileFormat = "pdf",
    processes: int | None = None,
) -> Iterator[bytes]:
    """Draw figures, each as the bytes of a file, which do not depend on the number of processes.

    Args:
        drawings: What draws each, in the order wanted.
        file_format: What the bytes are.
        processes: How many at a time; by default as many as there are cores.

    Raises:
        ReportError: a process ended early, for instance for lack of memory.
    """
    processes = min(processes or core_count(), _MOST_PROCESSES)

    def task(position: int) -> bytes:
        return figure_bytes(drawings[position](), file_format)

    if processes < 2 or len(drawings) < _LEAST_FIGURES or sys.platform != "linux":
        yield from map(task, range(len(drawings)))
        return
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("fork"), initializer=_begin, initargs=(task,)
    )
    with pool:
        # From the last to the first: those of the whole study stand last and take longest.
        drawn = [pool.submit(_run, position) for position in reversed(range(len(drawings)))]
        try:
            yield from (future.result() for future in reversed(drawn))
        except BrokenProcessPool as error:
            raise ReportError(
                "a process that drew figures ended early; if memory ran out, run it again with "
                "fewer cores"
            ) from error


def _begin(task: Callable[[int], bytes]) -> None:
    global _task  # noqa: PLW0603
    _task = task
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # who waits for the figures is interrupted, and ends this process


def _run(position: int) -> bytes:
    return _task(position)


Escape = Callable[[str], str]

_ENGINES: Final = ("pdflatex", "lualatex", "xelatex")
_PIXELS_PER_INCH: Final = 300
"""Of what is rasterised."""
_PREAMBLE: Final = r"\usepackage[T1]{fontenc}\usepackage{lmodern}\usepackage{textcomp}"
"""For measuring alone: a document whose fonts are wider gets texts that are wider than the room
made for them.
"""


def write_pgf(figure: Figure, path: Path, *, escape: Escape) -> None:
    """Write a figure, which may be drawn in no other format after; what is rasterised lies beside
    as `<name>-img0.png`.

    Args:
        figure: From `draw` of a registry.
        path: The file, ending in `.pgf`.
        escape: Makes TeX of a plain text that prints it as it is.

    Raises:
        ReportError: there is no TeX engine to measure the texts with, or it cannot set one of them.
    """
    found = next(filter(shutil.which, _ENGINES), "")
    if not found:
        raise ReportError(
            "the format pgf needs a TeX engine to measure texts with, and none of "
            f"{', '.join(_ENGINES)} is on PATH; "
            "install TeX Live with the package pgf, or draw in the format pdf"
        )
    settings: Any = {"pgf.texsystem": found, "pgf.rcfonts": False, "pgf.preamble": _PREAMBLE}
    texts: list[Any] = figure.findobj(Text)
    for text in texts:
        text.set_text(_escaped_lines(text.get_text(), escape))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_EscapedFormatter(axis.get_major_formatter(), escape))
            if not isinstance(axis.get_minor_formatter(), NullFormatter):
                axis.set_minor_formatter(_EscapedFormatter(axis.get_minor_formatter(), escape))
    # As PGF a hatched area is drawn stroke by stroke, and TeX takes minutes over a figure of
    # them.
    for artist in figure.findobj(
        lambda artist: isinstance(artist, Patch | Collection) and bool(artist.get_hatch())
    ):
        artist.set_rasterized(True)
    with report_style(), mpl.rc_context(settings):
        try:
            settle(figure, FigureCanvasPgf(figure))
            figure.savefig(path, format="pgf", dpi=_PIXELS_PER_INCH)
        except (LatexError, ValueError) as error:  # the second where TeX stops at one of the texts
            raise ReportError(
                f"{path.name}: {settings['pgf.texsystem']} cannot measure its texts: "
                f"{_first_complaint(str(error))}; "
                "install what is missing, or draw in the format pdf"
            ) from error


def _first_complaint(message: str) -> str:
    """The line in which TeX says what is wrong, or else the first."""
    lines = message.splitlines() or [""]
    return next((line for line in lines if line.startswith("!")), lines[0])


def _escaped_lines(text: str, escape: Escape) -> str:
    return "\n".join(escape(line) if line else line for line in text.split("\n"))


class _EscapedFormatter(Formatter):
    """Another formatter, its texts escaped: they are made while the figure is drawn."""

    def __init__(self, plain: Formatter, escape: Escape) -> None:
        self._plain = plain
        self._escape = escape

    def __call__(self, x: float, pos: int | None = None) -> str:
        return _escaped_lines(self._plain(x, pos), self._escape)

    def format_ticks(self, values: Any) -> list[str]:
        return [_escaped_lines(text, self._escape) for text in self._plain.format_ticks(values)]

    def get_offset(self) -> str:
        return _escaped_lines(self._plain.get_offset(), self._escape)

    def set_locs(self, locs: Any) -> None:
        self._plain.set_locs(locs)
