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
from gpu_report.figures.boxes import Box, draw_arrow, draw_box, draw_elbow, draw_line, new_sheet, write
from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.network_models import Network, model_of
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
_FUNCTION: Final = {"width": 0.27, "height": 0.2}
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
    that differ in the image alone are drawn with the largest.
    """
    found: dict[tuple[str, str], dict[str, Network]] = {}
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


def _network_figure(workload: str, workload_title: str, models: Mapping[str, Network]) -> FigureSpec:
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


def _layers_csv(models: Mapping[str, Network]) -> str:
    """The stages of the networks: what each gives, and its parameters."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["size", "stage", "channels", "length", "parameters"])
    for size, model in models.items():
        for stage in model.stages:
            writer.writerow([size, _on_one_line(stage.name), stage.channels, stage.length, stage.parameters])
    return text.getvalue()


def _drawn(models: Mapping[str, Network]) -> Mapping[str, Network]:
    """The smallest network first; of a U-Net that one with the largest picture alone."""
    ordered = dict(sorted(models.items(), key=lambda item: item[1].parameters))
    if all(model.kind != "U-Net" for model in ordered.values()):
        return ordered
    largest = max(ordered, key=lambda size: ordered[size].stages[0].length)
    return {largest: ordered[largest]}


def _what_to_see(models: Mapping[str, Network]) -> str:
    model = next(iter(models.values()))
    total = count(model.parameters).plain()
    if model.kind == "U-Net":
        return (
            f"Numbers in the boxes are channels, those at the left the pixels of a level, here in size "
            f"{next(iter(models))}. Dashed arrows are skip connections. The layers have {total} parameters, as "
            "were counted in the trained network."
        )
    if model.kind == "LSTM":
        return (
            "Left: unrolled over the characters of a text; numbers in the boxes are the numbers that stand for each "
            "character, and blue arrows carry a state to the next character. Right: the gates of one cell. The layers "
            f"have {total} parameters, as were counted in the trained network."
        )
    sizes = "channels and pixels" if model.stages[0].is_picture else "characters and the numbers that stand for each"
    return (
        f"The boxes hold the output of a stage, {sizes}; below them its parameters, which add up to those "
        "counted in the trained network."
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _draw_network(models: Mapping[str, Network]) -> Figure:
    """Draw a network in the sizes named; of a U-Net and an LSTM the first."""
    first = next(iter(models.values()))
    draw = {"U-Net": _unet_figure, "LSTM": _lstm_figure}.get(first.kind)
    return draw(first) if draw else _chain_figure(models)


def _chain_figure(models: Mapping[str, Network]) -> Figure:
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


def _lstm_figure(model: Network) -> Figure:
    """Draw the network, the first characters and the last one of a text."""
    embedding, *layers, head = model.stages
    rows = 4 + 3 * len(layers)
    height = rows * _ROW_IN + 0.05
    figure, axes = new_sheet(height_in=height)
    numbers = [*range(1, len(_COLUMNS_IN)), embedding.length]
    for across, number in zip(_COLUMNS_IN, numbers, strict=True):
        write(axes, (across, _row(0)), str(number))
    _name(axes, 0, "character")
    below = _draw_joined(axes, 1, embedding.channels, "embedding")
    for across, box in zip(_COLUMNS_IN, below, strict=True):
        draw_arrow(axes, (across, _row(0) + 0.08), box.bottom)
    for number, layer in enumerate(layers):
        below = _draw_layer(axes, below, number=number, hidden=layer.channels // 2, joined=layer.channels)
    row, (left, _), (right, _) = rows - 2, below[0].left, below[-1].right
    mean = Box(centre=((left + right) / 2, _row(row)), width=right - left, height=_BOX_HEIGHT_IN)
    for box in below:
        draw_arrow(axes, box.top, (box.centre[0], mean.bottom[1]))
    draw_box(axes, mean, f"mean over the {embedding.length} characters: {layers[-1].channels}")
    scores = Box(centre=(mean.centre[0], _row(row + 1)), width=1.0, height=_BOX_HEIGHT_IN)
    draw_arrow(axes, mean.top, scores.bottom)
    draw_box(axes, scores, f"linear: {head.channels}")
    _name(axes, row, "mean")
    _name(axes, row + 1, "classes")
    _draw_cell(axes, hidden=layers[0].channels // 2, middle=height / 2)
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
        for left, right in pairwise(boxes):
            # From each state to the next in reading order, broken where characters are left out.
            (begin, height), (end, _) = left.right, right.left
            stops = [begin, end]
            if right is boxes[-1]:
                middle = (begin + end) / 2
                stops = [begin, middle - 0.1, middle + 0.1, end]
                write(axes, (middle, height), "\N{HORIZONTAL ELLIPSIS}")
            for piece in zip(stops[::2], stops[1::2], strict=True):
                first_x, last_x = reversed(piece) if shift > 0 else piece
                draw_arrow(axes, (first_x, height), (last_x, height), color=style.BLUE)
        direction = "backwards" if shift > 0 else "forwards"
        _name(axes, row, f"layer {number + 1}, {direction}")
    return above


def _draw_cell(axes: Axes, *, hidden: int, middle: float) -> None:
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
        draw_box(axes, Box(centre=(across, gate), **_FUNCTION), text, fill=_FORWARDS, parse_math=True)
    draw_box(axes, Box(centre=(last, product), **_FUNCTION), "tanh", parse_math=True)
    for point, sign in (
        *(((forget, memory), r"$\times$"), ((candidate, memory), "$+$")),
        *(((candidate, product), r"$\times$"), ((last, gate), r"$\times$")),
    ):
        axes.add_patch(Circle(point, _SIGN_IN, facecolor="white", edgecolor=style.INK, linewidth=0.8, zorder=2.5))
        write(axes, point, sign, parse_math=True)
    write(axes, ((left + right) / 2, memory + 0.3), "a cell of layer 1, forwards")
    write(axes, ((left + right) / 2 + 0.2, bus - 0.36), f"{hidden} units in each gate")


def _unet_figure(model: Network) -> Figure:
    """Draw the network; a box is higher the larger its picture is, and wider the more channels it has."""
    picture, *path, head = model.stages
    levels = (len(path) + 1) // 2
    boxes, height = _level_boxes(levels)
    figure, axes = new_sheet(height_in=height)
    mirrored = [
        Box(centre=(_mirror(box.centre[0]), box.centre[1]), width=box.width, height=box.height) for box in boxes
    ]
    for above, below in pairwise(boxes):
        draw_elbow(axes, [above.bottom, (above.centre[0], below.centre[1]), below.left])
    rising = [boxes[-1], *reversed(mirrored[:-1])]
    for below, above in pairwise(rising):
        draw_elbow(axes, [below.right, (above.centre[0], below.centre[1]), above.bottom])
    for stage, box in zip(path[:levels], boxes, strict=True):
        draw_box(axes, box, str(stage.channels), fill=_DOWN)
        size = f"{stage.length} \N{MULTIPLICATION SIGN} {stage.length}"
        write(axes, (0.0, box.centre[1]), size, ha="left", color=style.QUIET)
    for stage, box in zip(path[levels:], rising[1:], strict=True):
        draw_box(axes, box, str(stage.channels), fill=_UP)
    for number, (left, right) in enumerate(zip(boxes[:-1], mirrored[:-1], strict=True)):
        channels = path[number].channels
        words = f"{channels}" if number else f"skip connection: {channels} channels joined"
        draw_arrow(axes, left.right, right.left, linestyle=(0, (4, 2)), color=style.BLUE)
        write(axes, (style.TEXT_WIDTH_IN / 2, left.centre[1] + 0.03), words, va="bottom", color=style.BLUE)
    # The picture that goes in and the scores that come out, with the classifier on the arrow to them.
    ends = {"width": _END_WIDTH_IN, "height": boxes[0].height}
    (first, top), (last, _) = boxes[0].centre, mirrored[0].centre
    entry, scores = (Box(centre=(x, top), **ends) for x in (first - _END_DISTANCE_IN, last + _END_DISTANCE_IN))
    draw_box(axes, entry, str(picture.channels))
    draw_box(axes, scores, str(head.channels))
    draw_arrow(axes, entry.right, boxes[0].left)
    draw_arrow(axes, mirrored[0].right, scores.left)
    write(axes, (entry.centre[0], entry.top[1] + 0.03), "image", va="bottom")
    write(axes, (scores.centre[0], scores.top[1] + 0.03), "classes", va="bottom")
    times = "\N{MULTIPLICATION SIGN}"
    write(axes, (scores.left[0], scores.bottom[1] - 0.03), f"1{times}1 convolution", ha="left", va="top")
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


def _write_legend(axes: Axes, lowest_pair: Box) -> None:
    """What boxes and arrows stand for, in the free corners below the U."""
    times = "\N{MULTIPLICATION SIGN}"
    left, top = 0.6, lowest_pair.top[1]
    draw_box(axes, Box(centre=(left + 0.07, top - 0.07), width=0.14, height=0.12))
    block = f"block: two 3{times}3 convolutions,\neach with batch\nnormalization and ReLU"
    write(axes, (left + 0.22, top), block, ha="left", va="top")
    left = _mirror(lowest_pair.left[0]) + 0.45
    for line, (words, end) in enumerate(
        ((f"2{times}2 max pooling", -0.06), (f"2{times}2 transposed\nconvolution", 0.06)),
    ):
        middle = top - 0.08 - 0.2 * line
        draw_arrow(axes, (left, middle - end), (left, middle + end))
        write(axes, (left + 0.1, top - 0.01 - 0.2 * line), words, ha="left", va="top")
