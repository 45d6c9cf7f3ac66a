"""Figures as PGF: drawing commands that a document reads in, and sets the words in with its own
fonts.

Figure -> texts escaped for TeX -> laid out by what a TeX engine measures -> .pgf, and a .png beside
it for each image
"""

import shutil
from collections.abc import Callable
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
from gpu_report.figures.style import report_style, settle

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
    settings: Any = {"pgf.texsystem": _engine(), "pgf.rcfonts": False, "pgf.preamble": _PREAMBLE}
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


def _engine() -> str:
    found = next(filter(shutil.which, _ENGINES), "")
    if not found:
        raise ReportError(
            "the format pgf needs a TeX engine to measure texts with, and none of "
            f"{', '.join(_ENGINES)} is on PATH; "
            "install TeX Live with the package pgf, or draw in the format pdf"
        )
    return found


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
