"""The figures of networks: a row of boxes for each size, an unrolled LSTM with one of its cells, and a U-Net.

records -> networks by workload and size -> boxes (what comes out of a stage) and arrows -> Figure, the layers as CSV
"""

import csv
import io
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from gpu_report.figures import style
from gpu_report.figures.boxes import Box, Point, draw_arrow, draw_box, draw_elbow, draw_line, new_sheet, write
from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.network_models import LSTM, Chain, Model, UNet, model_of
from gpu_report.number_format import count
from gpu_report.records import Record

_NAMES_IN: Final = 0.34
_SIZE_ROW_IN: Final = 0.5
_STAGE_HEIGHT_IN: Final = 0.24
_ROW_NAME_IN: Final = 0.55
_ARROW_IN: Final = 0.2
_FILLS: Final = (style.SKY, style.YELLOW)
"""For what has a place, in a picture or a text, and for vectors."""

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


def network_figures(records: Sequence[Record]) -> list[FigureSpec]:
    """One figure for each workload whose network is known here, in the order of the records.

    A workload of the user's own has none, nor has one whose parameters are not those of the network known here. Sizes
    that differ in the picture alone are drawn with the largest.
    """
    found: dict[tuple[str, str], dict[str, Model]] = {}
    for record in records:
        variant, facts = record.as_variant(), record.workload
        if facts is None:
            continue
        model = model_of(
            source_file=facts.source_file, workload=variant.workload, size=variant.size, parameters=facts.parameters
        )
        if model is not None:
            found.setdefault((variant.workload, facts.title), {}).setdefault(variant.size, model)
    return [_network_figure(workload, title, _drawn(models)) for (workload, title), models in found.items()]


def _network_figure(workload: str, workload_title: str, models: Mapping[str, Model]) -> FigureSpec:
    title = f"Architecture of the {workload_title}"
    first = next(iter(models.values()))
    path = ", ".join(f"{_on_one_line(stage.name)} {stage.output}" for stage in first.stages)
    return FigureSpec(
        name=f"architecture_{workload}",
        subject=workload,
        kind="architecture",
        title=title,
        caption=f"{title}. {_what_to_see(models)}",
        alt=f"The {workload_title} as boxes from its input to its scores: {path}.",
        csv=_layers_csv(models),
        drawing=partial(_draw_network, models),
    )


def _layers_csv(models: Mapping[str, Model]) -> str:
    """The stages of the networks: what each gives, and its parameters."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["size", "stage", "channels", "length", "parameters"])
    for size, model in models.items():
        for stage in model.stages:
            writer.writerow([size, _on_one_line(stage.name), stage.channels, stage.length, stage.parameters])
    return text.getvalue()


def _drawn(models: Mapping[str, Model]) -> Mapping[str, Model]:
    """The smallest network first; of a U-Net that one with the largest picture alone."""
    ordered = dict(sorted(models.items(), key=lambda item: _parameters(item[1])))
    if not any(isinstance(model, UNet) for model in ordered.values()):
        return ordered
    largest = max(ordered, key=lambda size: ordered[size].stages[0].length)
    return {largest: ordered[largest]}


def _parameters(model: Model) -> int:
    return sum(stage.parameters for stage in model.stages)


def _what_to_see(models: Mapping[str, Model]) -> str:
    model = next(iter(models.values()))
    total = count(_parameters(model)).plain()
    if isinstance(model, UNet):
        return (
            f"Numbers in the boxes are channels, those at the left the pixels of a level, here in size "
            f"{next(iter(models))}. Dashed arrows are skip connections. The layers have {total} parameters, as "
            "were counted in the trained network."
        )
    if isinstance(model, LSTM):
        return (
            "Left: unrolled over the characters of a text; numbers in the boxes are the numbers that stand for each "
            "character, and blue arrows carry a state to the next character. Right: the gates of one cell. The layers "
            f"have {total} parameters, as were counted in the trained network."
        )
    sizes = "channels and pixels" if model.stages[0].is_picture else "characters and the numbers that stand for each"
    return (
        f"In the boxes stands what comes out of a stage, {sizes}; below them its parameters, which add up to those "
        "counted in the trained network."
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _draw_network(models: Mapping[str, Model]) -> Figure:
    """Draw a network in the sizes named; of a U-Net and an LSTM the first."""
    first = next(iter(models.values()))
    if isinstance(first, UNet):
        return _unet_figure(first)
    if isinstance(first, LSTM):
        return _lstm_figure(first)
    return _chain_figure({size: model for size, model in models.items() if isinstance(model, Chain)})


def _chain_figure(models: Mapping[str, Chain]) -> Figure:
    """Draw networks of the same stages by the name of their size; one alone is not named."""
    height = _NAMES_IN + len(models) * _SIZE_ROW_IN
    figure, axes = new_sheet(height_in=height)
    begin = _ROW_NAME_IN if len(models) > 1 else 0.0
    columns = len(next(iter(models.values())).stages)
    pitch = (style.TEXT_WIDTH_IN - begin) / columns
    for row, (size, model) in enumerate(models.items()):
        middle = height - _NAMES_IN - row * _SIZE_ROW_IN - _STAGE_HEIGHT_IN / 2
        boxes = [
            Box(
                centre=(begin + (column + 0.5) * pitch, middle),
                width=pitch - _ARROW_IN,
                height=_STAGE_HEIGHT_IN,
            )
            for column in range(columns)
        ]
        for left, right in pairwise(boxes):
            draw_arrow(axes, left.right, right.left)
        for box, stage in zip(boxes, model.stages, strict=True):
            draw_box(axes, box, stage.output, fill=_FILLS[stage.length == 1] if stage.parameters else style.OTHERS)
            parameters = count(stage.parameters).plain() if stage.parameters else ""
            write(axes, (box.centre[0], box.bottom[1] - 0.09), parameters, color=style.QUIET)
            if row == 0:
                write(axes, (box.centre[0], box.top[1] + 0.04), stage.name, va="bottom")
        if begin:
            write(axes, (0.0, middle), size, ha="left")
    return figure


def _lstm_figure(model: LSTM) -> Figure:
    """Draw the network, the first characters and the last one of a text."""
    rows = 4 + 3 * len(model.layers)
    height = rows * _ROW_IN + 0.05
    figure, axes = new_sheet(height_in=height)
    numbers = [*range(1, len(_COLUMNS_IN)), model.characters]
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
    draw_box(axes, mean, f"mean over the {model.characters} characters: {model.layers[-1].channels}")
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


def _unet_figure(model: UNet) -> Figure:
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
