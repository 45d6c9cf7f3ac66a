"""The picture of a bidirectional LSTM: unrolled over the text at the left, the gates of one cell at the right.

LSTM -> rows (embedding, two directions of each layer, what they give) of columns (characters) -> Figure
"""

from itertools import pairwise
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from gpu_report.figures import style
from gpu_report.figures.architecture.models import LSTM
from gpu_report.figures.boxes import Box, Point, draw_arrow, draw_box, draw_elbow, draw_line, new_sheet, write

_ROW_IN: Final = 0.3
_BOX_HEIGHT_IN: Final = 0.19
_STATE_WIDTH_IN: Final = 0.3
_SHIFT_IN: Final = 0.18
"""States of the two directions stand so far left and right of their character, so that arrows pass by."""
_COLUMNS_IN: Final = (1.18, 1.92, 2.66, 3.7)
_DOTS_IN: Final = 3.18
_CELL_LEFT_IN: Final = 4.5
_SIGN_IN: Final = 0.07
_FORWARDS: Final = style.SKY
_BACKWARDS: Final = style.YELLOW


def draw_lstm(model: LSTM) -> Figure:
    """Draw the network, the first characters and the last one of a text."""
    rows = 4 + 3 * len(model.layers)
    height = rows * _ROW_IN + 0.05
    figure, axes = new_sheet(height_in=height)
    numbers = [*range(1, len(_COLUMNS_IN)), model.sample.length]
    for across, number in zip(_COLUMNS_IN, numbers, strict=True):
        write(axes, (across, _row(0)), str(number))
    _name(axes, 0, "character")
    below = _draw_joined(axes, 1, model.embedding.channels, "embedding")
    for across, box in zip(_COLUMNS_IN, below, strict=True):
        draw_arrow(axes, (across, _row(0) + 0.08), box.bottom)
    for number, layer in enumerate(model.layers):
        below = _draw_layer(axes, below, number=number, hidden=model.hidden, joined=layer.channels)
    _draw_end(axes, model, below, row=rows - 2)
    _draw_cell(axes, model, middle=height / 2)
    return figure


def _row(number: int) -> float:
    return 0.12 + number * _ROW_IN


def _name(axes: Axes, row: int, text: str) -> None:
    write(axes, (0.0, _row(row)), text, ha="left", color=style.QUIET)


def _draw_joined(axes: Axes, row: int, channels: int, name: str) -> list[Box]:
    """One box for each character, as wide as the states of both directions."""
    boxes = [
        Box(centre=(across, _row(row)), width=_STATE_WIDTH_IN + 2 * _SHIFT_IN, height=_BOX_HEIGHT_IN)
        for across in _COLUMNS_IN
    ]
    for box in boxes:
        draw_box(axes, box, str(channels))
    write(axes, (_DOTS_IN, _row(row)), "\N{HORIZONTAL ELLIPSIS}")
    _name(axes, row, name)
    return boxes


def _draw_layer(axes: Axes, below: list[Box], *, number: int, hidden: int, joined: int) -> list[Box]:
    first = 2 + 3 * number
    above = _draw_joined(axes, first + 2, joined, "both")
    for row, shift, fill in ((first, -_SHIFT_IN, _FORWARDS), (first + 1, _SHIFT_IN, _BACKWARDS)):
        boxes = [
            Box(centre=(across + shift, _row(row)), width=_STATE_WIDTH_IN, height=_BOX_HEIGHT_IN)
            for across in _COLUMNS_IN
        ]
        for box, source, target in zip(boxes, below, above, strict=True):
            draw_arrow(axes, (box.centre[0], source.top[1]), box.bottom)
            draw_arrow(axes, box.top, (box.centre[0], target.bottom[1]))
            draw_box(axes, box, str(hidden), fill=fill)
        _draw_recurrence(axes, boxes, backwards=shift > 0)
        direction = "backwards" if shift > 0 else "forwards"
        _name(axes, row, f"layer {number + 1}, {direction}")
    return above


def _draw_recurrence(axes: Axes, boxes: list[Box], *, backwards: bool) -> None:
    """From each state to the next in reading order, broken where characters are left out."""
    for left, right in pairwise(boxes):
        points = [left.right, right.left]
        if right is boxes[-1]:
            middle = (left.right[0] + right.left[0]) / 2, left.centre[1]
            write(axes, middle, "\N{HORIZONTAL ELLIPSIS}")
            pieces = [(points[0], (middle[0] - 0.1, middle[1])), ((middle[0] + 0.1, middle[1]), points[1])]
        else:
            pieces = [(points[0], points[1])]
        for begin, end in pieces:
            draw_arrow(axes, *((end, begin) if backwards else (begin, end)), color=style.BLUE)


def _draw_end(axes: Axes, model: LSTM, below: list[Box], *, row: int) -> None:
    left, right = below[0].left[0], below[-1].right[0]
    mean = Box(centre=((left + right) / 2, _row(row)), width=right - left, height=_BOX_HEIGHT_IN)
    for box in below:
        draw_arrow(axes, box.top, (box.centre[0], mean.bottom[1]))
    draw_box(axes, mean, f"mean over the {model.sample.length} characters: {model.layers[-1].channels}")
    scores = Box(centre=(mean.centre[0], _row(row + 1)), width=1.0, height=_BOX_HEIGHT_IN)
    draw_arrow(axes, mean.top, scores.bottom)
    draw_box(axes, scores, f"linear: {model.head.channels}")
    _name(axes, row, "mean")
    _name(axes, row + 1, "classes")


def _draw_cell(axes: Axes, model: LSTM, *, middle: float) -> None:
    """One cell: gates from the input and the state before; they change the memory and let the new state out."""
    left, right = _CELL_LEFT_IN, style.TEXT_WIDTH_IN - 0.18
    bus, gate, product, memory = (middle + offset for offset in (-0.5, -0.15, 0.3, 0.7))
    frame_height = memory - bus + 0.4
    draw_box(axes, Box(centre=((left + right) / 2, (bus + memory) / 2), width=right - left, height=frame_height))
    forget, enter, candidate, out, last = (left + offset for offset in (0.19, 0.51, 0.83, 1.15, 1.46))
    for across, height, text in (
        *((left - 0.15, memory, r"$c_{t-1}$"), (right + 0.11, memory, r"$c_t$")),
        *((left - 0.15, bus, r"$h_{t-1}$"), (right + 0.11, bus, r"$h_t$"), (forget, bus - 0.42, r"$x_t$")),
    ):
        write(axes, (across, height), text, parse_math=True, fontsize=style.FONT_SIZE_PT)
    draw_arrow(axes, (left, memory), (right, memory))
    draw_line(axes, (left, bus), (out, bus))
    draw_line(axes, (forget, bus - 0.33), (forget, bus))
    draw_arrow(axes, (forget, gate), (forget, memory - _SIGN_IN))
    draw_elbow(axes, [(enter, gate), (enter, product), (candidate - _SIGN_IN, product)])
    draw_arrow(axes, (candidate, gate), (candidate, product - _SIGN_IN))
    draw_arrow(axes, (candidate, product + _SIGN_IN), (candidate, memory - _SIGN_IN))
    draw_arrow(axes, (last, memory), (last, gate + _SIGN_IN))
    draw_arrow(axes, (out, gate), (last - _SIGN_IN, gate))
    draw_elbow(axes, [(last, gate - _SIGN_IN), (last, bus), (right, bus)])
    for across, text in ((forget, r"$\sigma$"), (enter, r"$\sigma$"), (candidate, "tanh"), (out, r"$\sigma$")):
        draw_arrow(axes, (across, bus), (across, gate - 0.1))
        _draw_function(axes, (across, gate), text, fill=_FORWARDS)
    _draw_function(axes, (last, product), "tanh", fill="white")
    for point, sign in (
        *(((forget, memory), r"$\times$"), ((candidate, memory), "$+$")),
        *(((candidate, product), r"$\times$"), ((last, gate), r"$\times$")),
    ):
        _draw_sign(axes, point, sign)
    write(axes, ((left + right) / 2, memory + 0.3), "a cell of layer 1, forwards")
    write(axes, ((left + right) / 2 + 0.2, bus - 0.36), f"{model.hidden} units in each gate")


def _draw_function(axes: Axes, point: Point, text: str, *, fill: str) -> None:
    draw_box(axes, Box(centre=point, width=0.27, height=0.2), text, fill=fill, parse_math=True)


def _draw_sign(axes: Axes, point: Point, sign: str) -> None:
    axes.add_patch(Circle(point, _SIGN_IN, facecolor="white", edgecolor=style.INK, linewidth=0.8, zorder=2.5))
    write(axes, point, sign, parse_math=True)
