"""The picture of a U-Net: blocks as boxes on the way down and up, skip connections across.

UNet -> levels (box on the way down, box on the way up) -> Figure
"""

from itertools import pairwise
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import style
from gpu_report.figures.architecture.models import UNet
from gpu_report.figures.boxes import Box, draw_arrow, draw_box, draw_elbow, new_sheet, write

_MARGIN_IN: Final = 0.2
_LEVEL_GAP_IN: Final = 0.17
_TALLEST_IN: Final = 0.56
_LOWEST_IN: Final = 0.24
_NARROWEST_IN: Final = 0.36
_WIDEST_IN: Final = 0.6
_OUTER_IN: Final = 1.4
"""From the left edge to the middle of the uppermost box; the way up mirrors it about the middle of the sheet."""
_END_WIDTH_IN: Final = 0.2
_END_DISTANCE_IN: Final = 0.5
_DOWN: Final = style.SKY
_UP: Final = style.YELLOW


def draw_unet(model: UNet) -> Figure:
    """Draw the network; a box is higher the larger its picture is, and wider the more channels it has."""
    boxes, height = _level_boxes(len(model.down))
    figure, axes = new_sheet(height_in=height)
    mirrored = [
        Box(centre=(_mirror(box.centre[0]), box.centre[1]), width=box.width, height=box.height) for box in boxes
    ]
    for above, below in pairwise(boxes):
        draw_elbow(axes, [above.bottom, (above.centre[0], below.centre[1]), below.left])
    rising = [boxes[-1], *reversed(mirrored[:-1])]
    for below, above in pairwise(rising):
        draw_elbow(axes, [below.right, (above.centre[0], below.centre[1]), above.bottom])
    for stage, box in zip(model.down, boxes, strict=True):
        draw_box(axes, box, str(stage.channels), fill=_DOWN)
        size = f"{stage.length} \N{MULTIPLICATION SIGN} {stage.length}"
        write(axes, (0.0, box.centre[1]), size, ha="left", color=style.QUIET)
    for stage, box in zip(model.up, rising[1:], strict=True):
        draw_box(axes, box, str(stage.channels), fill=_UP)
    for number, (left, right) in enumerate(zip(boxes[:-1], mirrored[:-1], strict=True)):
        _draw_skip(axes, left, right, channels=model.down[number].channels, first=number == 0)
    _draw_ends(axes, model, boxes[0], mirrored[0])
    _write_legend(axes, boxes[-2])
    return figure


def _level_boxes(levels: int) -> tuple[list[Box], float]:
    """The boxes on the way down, the last in the middle of the sheet, and the height that they need."""
    heights = [_step(_TALLEST_IN, _LOWEST_IN, level, levels) for level in range(levels)]
    total = sum(heights) + _LEVEL_GAP_IN * (levels - 1) + 2 * _MARGIN_IN
    boxes = []
    top = total - _MARGIN_IN
    for level, height in enumerate(heights):
        across = _step(_OUTER_IN, style.TEXT_WIDTH_IN / 2, level, levels)
        width = _step(_NARROWEST_IN, _WIDEST_IN, level, levels)
        boxes.append(Box(centre=(across, top - height / 2), width=width, height=height))
        top -= height + _LEVEL_GAP_IN
    return boxes, total


def _step(first: float, last: float, level: int, levels: int) -> float:
    return first + (last - first) * level / (levels - 1)


def _mirror(across: float) -> float:
    return style.TEXT_WIDTH_IN - across


def _draw_skip(axes: Axes, left: Box, right: Box, *, channels: int, first: bool) -> None:
    draw_arrow(axes, left.right, right.left, linestyle=(0, (4, 2)), color=style.BLUE)
    words = f"skip connection: {channels} channels joined" if first else f"{channels}"
    write(axes, (style.TEXT_WIDTH_IN / 2, left.centre[1] + 0.03), words, va="bottom", color=style.BLUE)


def _draw_ends(axes: Axes, model: UNet, first: Box, last: Box) -> None:
    """The picture that goes in and the scores that come out, with the classifier on the arrow to them."""
    entry = Box(centre=(first.centre[0] - _END_DISTANCE_IN, first.centre[1]), width=_END_WIDTH_IN, height=first.height)
    scores = Box(centre=(last.centre[0] + _END_DISTANCE_IN, last.centre[1]), width=_END_WIDTH_IN, height=last.height)
    draw_box(axes, entry, str(model.picture.channels))
    draw_box(axes, scores, str(model.head.channels))
    draw_arrow(axes, entry.right, first.left)
    draw_arrow(axes, last.right, scores.left)
    write(axes, (entry.centre[0], entry.top[1] + 0.03), "picture", va="bottom")
    write(axes, (scores.centre[0], scores.top[1] + 0.03), "classes", va="bottom")
    write(axes, (scores.left[0], scores.bottom[1] - 0.03), "1\N{MULTIPLICATION SIGN}1 convolution", ha="left", va="top")


def _write_legend(axes: Axes, lowest_pair: Box) -> None:
    """What boxes and arrows stand for, in the free corners below the U."""
    times = "\N{MULTIPLICATION SIGN}"
    left, top = 0.6, lowest_pair.top[1]
    draw_box(axes, Box(centre=(left + 0.07, top - 0.07), width=0.14, height=0.12))
    block = f"block: two 3{times}3 convolutions,\neach with batch\nnormalisation and ReLU"
    write(axes, (left + 0.22, top), block, ha="left", va="top")
    left = _mirror(lowest_pair.left[0]) + 0.45
    for line, (words, end) in enumerate(
        ((f"2{times}2 max pooling", -0.06), (f"2{times}2 transposed\nconvolution", 0.06)),
    ):
        middle = top - 0.08 - 0.2 * line
        draw_arrow(axes, (left, middle - end), (left, middle + end))
        write(axes, (left + 0.1, top - 0.01 - 0.2 * line), words, ha="left", va="top")
