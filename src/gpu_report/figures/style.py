"""How every figure looks, and how it becomes bytes: one width, one size of type, one palette, no
date inside.
"""

import io
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any, Final, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from gpu_report.figures import palette
from gpu_report.glossary import device_words
from gpu_report.printing.number_format import SMALLEST_GROUPED
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS

TEXT_WIDTH_IN: Final = 6.3
"""Width of every figure and of the report's text block, 160 mm, so that no figure is ever
scaled.
"""

FONT_SIZE_PT: Final = 9
SMALL_FONT_SIZE_PT: Final = 8
TINY_FONT_SIZE_PT: Final = 7


_CHARACTER_WIDTH_IN: Final = 0.062  # of a text at FONT_SIZE_PT, on the average; its letters differ

BLANK: Final[dict[str, Any]] = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
"""The ground of a text that would be hard to read on what is drawn below it."""

MARKERS: Final = ("o", "s", "^", "D", "v", "*", "P", "<", ">", "X", "h", "p", "d")

_GPU_LOOKS: Final = (
    (palette.BLUE, "s"),
    (palette.GREEN, "^"),
    (palette.VERMILLION, "D"),
    (palette.PURPLE, "v"),
    (palette.INK, "P"),
)

_SETTINGS: Final[Any] = {
    "font.family": [
        "STIXGeneral",
        "DejaVu Sans",
    ],  # both come with matplotlib; the second knows the rarer characters
    "mathtext.fontset": "stix",
    "text.parse_math": False,  # names of kernels hold dollars and underscores that are meant
    "font.size": FONT_SIZE_PT,
    "axes.titlesize": FONT_SIZE_PT,
    "axes.labelsize": FONT_SIZE_PT,
    "xtick.labelsize": SMALL_FONT_SIZE_PT,
    "ytick.labelsize": SMALL_FONT_SIZE_PT,
    "legend.fontsize": SMALL_FONT_SIZE_PT,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.4,
    "text.color": palette.INK,
    "axes.labelcolor": palette.INK,
    "axes.edgecolor": palette.QUIET,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.5,
    "xtick.color": palette.QUIET,
    "ytick.color": palette.QUIET,
    "xtick.labelcolor": palette.INK,
    "ytick.labelcolor": palette.INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2.0,
    "figure.constrained_layout.h_pad": 0.04,
    "figure.constrained_layout.w_pad": 0.03,
    # TrueType as it is: Type 3 fonts are refused by some publishers and print badly
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "pdf.compression": 6,
    "svg.hashsalt": "gpu-report",
    "svg.fonttype": "none",  # a page has fonts, and texts can be read out and searched
}


@contextmanager
def report_style() -> Iterator[None]:
    """Draw and save inside this; what the user's own matplotlib settings say is put aside and comes
    back after.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def new_figure(*, height_in: float) -> Figure:
    """An empty figure at the width of the text whose parts make room for each other."""
    return Figure(figsize=(TEXT_WIDTH_IN, height_in), layout="constrained")


def device_looks(devices: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Color, marker and name of each device; the CPU looks the same in every figure, GPUs go by
    their order.
    """
    names = list(dict.fromkeys(devices))
    gpus = zip((name for name in names if name != "cpu"), cycle(_GPU_LOOKS), strict=False)
    looks = {"cpu": (palette.ORANGE, "o"), **dict(gpus)}
    return {
        name: {"color": looks[name][0], "marker": looks[name][1], "label": device_words(name)}
        for name in names
    }


def workload_markers(workloads: Iterable[str]) -> dict[str, str]:
    """The marker of each workload, which is the same in every figure; a user's own gets one that is
    left over.
    """
    markers = dict(zip(BUILT_IN_WORKLOADS, MARKERS, strict=False))
    own = cycle(MARKERS[len(markers) :])
    return {workload: markers.get(workload) or next(own) for workload in dict.fromkeys(workloads)}


def set_panel_title(axes: Axes, text: str, *, columns: int) -> None:
    """A title above one of `columns` panels side by side, over as many lines as it needs there."""
    width_in = TEXT_WIDTH_IN / columns - 0.5
    lines = textwrap.wrap(text, width=max(10, int(width_in / _CHARACTER_WIDTH_IN)))
    axes.set_title("\n".join(lines))


def note(
    axes: Axes, text: str, point: tuple[float, float], *, of: Any = "axes fraction", **look: Any
) -> None:
    """Write a text `offset` points from a point of the axes; small and grey where nothing else is
    asked.
    """
    look = {
        "fontsize": TINY_FONT_SIZE_PT,
        "color": palette.QUIET,
        "xytext": look.pop("offset", (0, 0)),
        **look,
    }
    axes.annotate(text, point, xycoords=of, textcoords="offset points", **look)


def level(axes: Axes, value: float, name: str, *, at_left: bool, **look: Any) -> None:
    """A dashed line across the axes with its name: dark and below the line at the left, or grey and
    above it.
    """
    color, side, offset = (palette.INK, 0, (3, -3)) if at_left else (palette.QUIET, 1, (-2, 2))
    ha, va = ("left", "top") if at_left else ("right", "baseline")
    axes.axhline(value, color=color, linestyle="--", linewidth=0.8, **look)
    note(
        axes,
        name,
        (side, value),
        of=("axes fraction", "data"),
        offset=offset,
        ha=ha,
        va=va,
        color=color,
    )


def tick_text(value: float, _position: int | None = None) -> str:
    """A number on an axis: no more digits than it has, grouped as everywhere in the report."""
    if abs(value) >= 1e9:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    grouping = "," if abs(value) >= SMALLEST_GROUPED else ""
    return f"{value:{grouping}.10g}".replace("-", "\N{MINUS SIGN}")


LOG_SCALE_SPAN: Final = 20
"""Largest over smallest value beyond which a linear axis would press the small ones into
one line.
"""


def set_scale(
    axes: Axes,
    which: Literal["x", "y"],
    values: list[float],
    *,
    from_zero: bool = True,
    span: float = LOG_SCALE_SPAN,
) -> None:
    """Scale an axis for these values: logarithmic where they span more than this factor, else
    linear.

    `from_zero` lets a linear axis start at zero, for quantities whose zero means something.
    """
    axis = axes.xaxis if which == "x" else axes.yaxis
    positive = [value for value in values if value > 0]
    if len(positive) == len(values) and values and max(values) / min(values) > span:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        few_decades = max(values) / min(values) < 200
        axis.set_major_locator(
            LogLocator(subs=(1.0, 2.0, 5.0) if few_decades else (1.0,), numticks=12)
        )
        # Every tick costs time, and those between 2 and 5 say nothing.
        axis.set_minor_locator(
            NullLocator() if few_decades else LogLocator(subs=(2.0, 5.0), numticks=12)
        )
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
        if from_zero and min(values, default=0) >= 0:
            (axes.set_xlim if which == "x" else axes.set_ylim)(
                0, 1.08 * max(values, default=1) or 1
            )
    axis.set_major_formatter(FuncFormatter(tick_text))


FileFormat = Literal["pdf", "svg", "png"]

_NO_DATE: Final[dict[FileFormat, dict[str, Any]]] = {
    "pdf": {
        "CreationDate": None,
        "ModDate": None,
        "Producer": "gpu-report",
        "Creator": "gpu-report",
    },
    "svg": {"Date": None, "Creator": "gpu-report"},
    "png": {"Software": None},
}


def figure_bytes(figure: Figure, file_format: FileFormat = "pdf") -> bytes:
    """The figure as the bytes of a file, the same for the same data on any day and in any
    folder.
    """
    # Its fonts take long to import, and most that is imported from here draws nothing.
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    buffer = io.BytesIO()
    with report_style():
        engine = figure.get_layout_engine()
        if engine and file_format != "png":  # images have wider texts, so that saving lays them out
            # The parts make room for each other now, since saving would draw the whole figure for
            # that, and then once more.
            figure.set_canvas(FigureCanvasPdf(figure))
            figure.dpi = 72  # points
            engine.execute(figure)
            figure.set_layout_engine(None)  # "none" would keep a place for it, and draw twice still
        figure.savefig(buffer, format=file_format, dpi=200, metadata=_NO_DATE[file_format])
    return buffer.getvalue()
