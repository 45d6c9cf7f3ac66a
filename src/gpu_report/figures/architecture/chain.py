"""The picture of networks whose stages follow each other: a row of boxes for each size of the network.

Chain -> row -> boxes (what comes out of a stage), its name above the first row, its parameters below -> Figure
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from matplotlib.figure import Figure

from gpu_report.figures import style
from gpu_report.figures.architecture.models import Chain
from gpu_report.figures.boxes import Box, draw_arrow, draw_box, new_sheet, write
from gpu_report.number_format import count

_NAMES_IN: Final = 0.34
_ROW_IN: Final = 0.5
_BOX_HEIGHT_IN: Final = 0.24
_ROW_NAME_IN: Final = 0.55
_ARROW_IN: Final = 0.2
_FILLS: Final = (style.SKY, style.YELLOW)
"""For what has a place, in a picture or a text, and for vectors."""


def draw_chain(models: Mapping[str, Chain]) -> Figure:
    """Draw networks of the same stages by the name of their size; one alone is not named."""
    height = _NAMES_IN + len(models) * _ROW_IN
    figure, axes = new_sheet(height_in=height)
    begin = _ROW_NAME_IN if len(models) > 1 else 0.0
    columns = len(next(iter(models.values())).stages)
    pitch = (style.TEXT_WIDTH_IN - begin) / columns
    for row, (size, model) in enumerate(models.items()):
        middle = height - _NAMES_IN - row * _ROW_IN - _BOX_HEIGHT_IN / 2
        boxes = [
            Box(centre=(begin + (column + 0.5) * pitch, middle), width=pitch - _ARROW_IN, height=_BOX_HEIGHT_IN)
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
