"""The figures of networks: a row of boxes for each size, drawn from the stages that network_models
lists.

records -> networks by workload and size -> boxes (what comes out of a stage), arrows, skip
connections; layers as CSV
"""

import csv
import io
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from gpu_report.figures import style
from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.network_models import Network, model_of
from gpu_report.printing.number_format import count
from gpu_report.records.record import Record

_NAMES_IN: Final = 0.34
_ROW_IN: Final = 0.56
_BOX_HEIGHT_IN: Final = 0.3
_SIZE_NAME_IN: Final = 0.55
_ARROW_IN: Final = 0.17
_SKIP_IN: Final = 0.11
"""Between the lines of two skip connections, which are below the boxes."""
_PARAMETERS_IN: Final = 0.18
_MOST_IN_ONE_LINE: Final = 8
"""Stages side by side whose sizes fit into their boxes in one line."""


def network_figures(records: Sequence[Record]) -> list[FigureSpec]:
    """One figure for each workload whose network is known here, in the order of the records.

    A workload of the user's own has none, nor has one whose parameters are not those of the network
    known here. Sizes that differ in the image alone are drawn with the largest.
    """
    found: dict[tuple[str, str], dict[str, Network]] = {}
    for record in records:
        variant, facts = record.as_variant(), record.workload
        if facts is None:
            continue
        model = model_of(
            source_file=facts.source_file,
            workload=variant.workload,
            size=variant.size,
            parameters=facts.parameters,
        )
        if model is not None:
            found.setdefault((variant.workload, facts.title), {}).setdefault(variant.size, model)
    return [
        _network_figure(workload, title, _drawn(models))
        for (workload, title), models in found.items()
    ]


def _drawn(models: Mapping[str, Network]) -> dict[str, Network]:
    """The smallest network first; of those with equal parameters the one with the largest image."""
    by_image = sorted(models.items(), key=lambda item: item[1].stages[0].length)
    largest = {model.parameters: (size, model) for size, model in by_image}
    return dict(largest[parameters] for parameters in sorted(largest))


def _network_figure(
    workload: str, workload_title: str, models: Mapping[str, Network]
) -> FigureSpec:
    title = f"Architecture of the {workload_title}"
    size, first = next(iter(models.items()))
    path = ", ".join(f"{_on_one_line(stage.name)} {stage.output}" for stage in first.stages)
    sizes = (
        "channels and pixels" if first.stages[0].is_image else "characters and the numbers for each"
    )
    caption = (
        f"{title}{'' if size == 'default' or len(models) > 1 else f' in size {size}'}. A box has "
        f"what comes out of a stage, {sizes}; below are its parameters, which add up to those "
        "counted in the trained network."
        f"{' Dashed lines are skip connections.' if first.skips else ''}"
    )
    # The stages of the networks: what each gives, and its parameters.
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["size", "stage", "channels", "length", "parameters"])
    for size, model in models.items():
        for stage in model.stages:
            writer.writerow(
                [size, _on_one_line(stage.name), stage.channels, stage.length, stage.parameters]
            )
    return FigureSpec(
        name=f"architecture_{workload}",
        subject=workload,
        kind="architecture",
        title=title,
        caption=caption,
        alt=f"The {workload_title} as boxes from its input to its scores: {path}.",
        csv=text.getvalue(),
        drawing=partial(_draw_networks, models),
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _draw_networks(models: Mapping[str, Network]) -> Figure:
    """Draw networks of the same stages by the name of their size, on axes that count inches; one
    alone is not named.
    """
    first = next(iter(models.values()))
    row_in = _ROW_IN + len(first.skips) * _SKIP_IN
    height = _NAMES_IN + len(models) * row_in
    figure = Figure(figsize=(style.TEXT_WIDTH_IN, height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set(xlim=(0, style.TEXT_WIDTH_IN), ylim=(0, height))
    begin = _SIZE_NAME_IN if len(models) > 1 else 0.0
    pitch = (style.TEXT_WIDTH_IN - begin) / len(first.stages)
    for row, (size, model) in enumerate(models.items()):
        middle = height - _NAMES_IN - row * row_in - _BOX_HEIGHT_IN / 2
        centres = [begin + (column + 0.5) * pitch for column in range(len(model.stages))]
        width = pitch - _ARROW_IN
        bottom, crowded = middle - _BOX_HEIGHT_IN / 2, len(centres) > _MOST_IN_ONE_LINE
        write = partial(
            _write, axes, fontsize=style.TINY_FONT_SIZE_PT if crowded else style.SMALL_FONT_SIZE_PT
        )
        for stage, centre in zip(model.stages, centres, strict=True):
            fill = (
                style.OTHERS
                if not stage.parameters
                else style.YELLOW
                if stage.length == 1
                else style.SKY
            )
            corner = (centre - width / 2, bottom)
            look: Any = {"facecolor": fill, "edgecolor": style.INK, "linewidth": 0.8}
            axes.add_patch(
                FancyBboxPatch(
                    corner, width, _BOX_HEIGHT_IN, boxstyle="round,pad=0,rounding_size=0.03", **look
                )
            )
            write(
                (centre, middle),
                stage.output.replace(" \N{MULTIPLICATION SIGN} ", "\n")
                if crowded
                else stage.output,
            )
            if stage.parameters:
                write((centre, bottom - 0.09), count(stage.parameters).plain())
            if row == 0:
                write((centre, bottom + _BOX_HEIGHT_IN + 0.04), stage.name, va="bottom")
        for left, right in pairwise(centres):
            arrow: Any = {
                "arrowstyle": "-|>,head_length=0.3,head_width=0.16",
                "shrinkA": 0,
                "shrinkB": 0,
                "color": style.INK,
            }
            axes.annotate(
                "",
                (right - width / 2, middle),
                (left + width / 2, middle),
                arrowprops={"lw": 0.8, **arrow},
            )
        for number, (source, target) in enumerate(reversed(model.skips), start=1):
            across = [centres[source], centres[source], centres[target], centres[target]]
            above, below = bottom - _PARAMETERS_IN, bottom - _PARAMETERS_IN - number * _SKIP_IN
            axes.plot(
                across,
                [above, below, below, above],
                color=style.BLUE,
                linestyle="--",
                linewidth=0.8,
            )
        if begin:
            _write(axes, (0.0, middle), size, ha="left", fontsize=style.SMALL_FONT_SIZE_PT)
    return figure


def _write(axes: Axes, point: tuple[float, float], text: str, **look: Any) -> None:
    axes.text(*point, text, **{"ha": "center", "va": "center", "linespacing": 1.1, **look})
