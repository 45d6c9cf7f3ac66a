"""Boxes, words and arrows on a sheet measured in inches: what figures of networks consist of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from gpu_report.figures import style

Point = tuple[float, float]

_LINE_WIDTH: Final = 0.8
_ROUNDING_IN: Final = 0.03
_ARROW_HEAD: Final = "-|>,head_length=3,head_width=1.6"


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle by its centre and size, in inches."""

    centre: Point
    width: float
    height: float

    @property
    def left(self) -> Point:
        return self.centre[0] - self.width / 2, self.centre[1]

    @property
    def right(self) -> Point:
        return self.centre[0] + self.width / 2, self.centre[1]

    @property
    def top(self) -> Point:
        return self.centre[0], self.centre[1] + self.height / 2

    @property
    def bottom(self) -> Point:
        return self.centre[0], self.centre[1] - self.height / 2


def new_sheet(*, height_in: float) -> tuple[Figure, Axes]:
    """A figure at the width of the text whose only axes are unseen, fill it, and count inches from the lower left."""
    figure = Figure(figsize=(style.TEXT_WIDTH_IN, height_in))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0, style.TEXT_WIDTH_IN)
    axes.set_ylim(0, height_in)
    return figure, axes


def draw_box(axes: Axes, box: Box, text: str = "", *, fill: str = "white", **look: Any) -> None:
    """Draw a box with a text in its middle, white on dark colours."""
    corner = (box.left[0], box.bottom[1])
    axes.add_patch(
        FancyBboxPatch(
            corner,
            box.width,
            box.height,
            boxstyle=f"round,pad=0,rounding_size={_ROUNDING_IN}",
            facecolor=fill,
            edgecolor=style.INK,
            linewidth=_LINE_WIDTH,
        )
    )
    color = "white" if fill in style.DARK_COLORS else style.INK
    write(axes, box.centre, text, **{"color": color, **look})


def draw_arrow(axes: Axes, begin: Point, end: Point, *, bend: float = 0.0, **look: Any) -> None:
    """Draw an arrow that ends exactly at a point; `bend` curves it, to its left where it is positive."""
    axes.add_patch(
        FancyArrowPatch(
            begin,
            end,
            arrowstyle=_ARROW_HEAD,
            connectionstyle=f"arc3,rad={bend}",
            shrinkA=0,
            shrinkB=0,
            **{"color": style.INK, "linewidth": _LINE_WIDTH, **look},
        )
    )


def draw_elbow(axes: Axes, points: Sequence[Point], **look: Any) -> None:
    """Draw an arrow along straight pieces."""
    draw_line(axes, *points[:-1], **look)
    draw_arrow(axes, points[-2], points[-1], **look)


def draw_line(axes: Axes, *points: Point, **look: Any) -> None:
    """Draw straight pieces from point to point."""
    across, up = zip(*points, strict=True)
    axes.plot(across, up, **{"color": style.INK, "linewidth": _LINE_WIDTH, "zorder": 1, **look})


def write(axes: Axes, point: Point, text: str, **look: Any) -> None:
    """Write a text, in the middle of a point where nothing else is asked for."""
    if not text:
        return
    defaults = {"ha": "center", "va": "center", "fontsize": style.SMALL_FONT_SIZE_PT, "linespacing": 1.1}
    axes.text(*point, text, **{**defaults, **look})
