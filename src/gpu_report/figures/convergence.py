"""How the trainings went: loss of each step and held-out quality after each epoch, and the gradient
scaler's factor.

losses, convergence -> panels (group) -> lines (device): mean over processes, band or bars from
lowest to highest
losses -> lines (variant), each the median over processes of the factor after every step
"""

import math
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpu_report.figures import labels, palette, style
from gpu_report.figures.declaration import (
    Shown,
    extremes_of,
    found_in,
    range_in,
    variant_figure,
    without_own_loops,
)
from gpu_report.figures.points import add_legend, draw_intervals
from gpu_report.figures.speed import repeats_crossover
from gpu_report.glossary import QUALITY

_Looks = dict[str, dict[str, Any]]
_MOST_COLUMNS: Final = 3
_MOST_POINTS: Final = 200
"""More points than that in a line of two inches are ink, not information; neighbouring steps are
averaged.
"""


def convergence_figure(shown: Shown) -> Figure:
    """Draw training loss above held-out quality, a column per group of variants that differ in the
    device only.
    """
    frame = shown.rows
    headings, looks = list(dict.fromkeys(frame["heading"])), style.device_looks(frame["device"])
    columns = min(len(headings), _MOST_COLUMNS)
    blocks = math.ceil(len(headings) / _MOST_COLUMNS)
    figure = style.new_figure(height_in=2.8 * blocks + 0.4)
    grid = figure.add_gridspec(2 * blocks, columns)
    for position, heading in enumerate(headings):
        block, column = divmod(position, _MOST_COLUMNS)
        group = frame[frame["heading"] == heading]
        upper = figure.add_subplot(grid[2 * block, column])
        lower = figure.add_subplot(grid[2 * block + 1, column])
        style.set_panel_title(upper, heading, columns=columns)
        _draw_losses(upper, group, shown.tables.losses, looks)
        _draw_quality(lower, group, shown.tables.convergence, looks)
        reasons = "\n".join(
            labels.status_text(row, name_device=True)
            for _, row in group[group["status"] != "ok"].iterrows()
        )
        style.note(upper, reasons, (0.98, 0.96), ha="right", va="top")
        if column == 0:
            upper.set_ylabel("Training loss")
        if (group["status"] == "ok").any() and not any(group["quality_name"]):
            lower.set_axis_off()
            style.note(lower, "not measured", (0.5, 0.5), ha="center", va="center")
        metrics = {name for name in group["quality_name"] if name}
        metric = labels.printable(metrics.pop()) if len(metrics) == 1 else "quality"
        lower.set_ylabel(f"Held-out {metric}", fontsize=style.FONT_SIZE_PT)
    add_legend(figure, looks.values())
    return figure


def _draw_losses(axes: Axes, group: pd.DataFrame, losses: pd.DataFrame, looks: _Looks) -> None:
    drawn: list[float] = []
    for position, (variant, device) in enumerate(
        zip(group["variant"], group["device"], strict=True)
    ):
        spread = _spread(losses[losses["variant"] == variant], "step", "train_loss")
        block = math.ceil(len(spread) / _MOST_POINTS)
        spread = spread.groupby(spread.index // max(block, 1) * max(block, 1)).mean()
        look = {**looks[device], **_layer(position, len(group))}
        if len(spread) > 12:  # more markers hide the line
            look["marker"] = ""
        axes.fill_between(
            spread.index,
            spread["low"],
            spread["high"],
            color=look["color"],
            alpha=0.25,
            linewidth=0,
        )
        axes.plot(spread.index, spread["value"], **look)
        drawn += [*spread["low"], *spread["high"]]
    style.set_scale(axes, "y", drawn)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("Step")


def _draw_quality(
    axes: Axes, group: pd.DataFrame, convergence: pd.DataFrame, looks: _Looks
) -> None:
    drawn: list[float] = []
    unlike = len(group[["epochs", "steps_per_epoch"]].drop_duplicates()) > 1
    by, first = ("samples_seen", 0) if unlike else ("epoch", 1)
    for position, (variant, device) in enumerate(
        zip(group["variant"], group["device"], strict=True)
    ):
        spread = _spread(convergence[convergence["variant"] == variant], by, "quality")
        look = {**looks[device], **_layer(position, len(group))}
        draw_intervals(axes, spread.index + first, spread, **look)
        drawn += [*spread["low"], *spread["high"]]
    style.set_scale(axes, "y", drawn, from_zero=False)
    # A dashed line at the quality that guessing reaches, with its name on it.
    chances = group["quality_chance"]
    for chance in sorted(set(chances.dropna())):
        style.level(axes, chance, "chance", at_left=False)
    bottom, top = axes.get_ylim()
    room = 0.08 * (top - bottom)
    axes.set_ylim(
        min([bottom, *(chances.dropna() - room)]), max([top, *(chances.dropna() + 2 * room)])
    )
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(style.tick_text))
    axes.margins(x=0.1)
    axes.set_xlabel("Samples seen" if unlike else "Epoch")


def _layer(position: int, count: int) -> dict[str, Any]:
    """The first device broad and below, the next ones thin and above it, so that lines that agree
    are both seen.
    """
    if count == 1:
        return {}
    return (
        {"linewidth": 3.0, "markersize": 6, "alpha": 0.7}
        if position == 0
        else {"linewidth": 1.0, "markersize": 3.5}
    )


def _spread(values: pd.DataFrame, by: str, column: str) -> pd.DataFrame:
    grouped = values.dropna(subset=[column]).groupby(by)[column]
    return pd.DataFrame({"value": grouped.mean(), "low": grouped.min(), "high": grouped.max()})


def _of_one_course(shown: Shown) -> pd.DataFrame:
    """Without what begins anew in every epoch, so that its epochs are no course of one training."""
    rows = without_own_loops(shown.rows)
    return found_in("convergence", replace(shown, rows=rows))


CONVERGENCE: Final = partial(
    variant_figure,
    name="convergence",
    title="Convergence by {axis}",
    caption=(
        "Training loss of each step and held-out quality after each epoch, by {axis}: lines are "
        "means over processes, bands and bars reach from the lowest to the highest. Devices that "
        "agree lie on each other; where one trained less, quality is drawn over the samples seen."
    ),
    along=("device",),
    rows=_of_one_course,
    draw=convergence_figure,
    groups_on_page=2 * _MOST_COLUMNS,
    sentences=(extremes_of(QUALITY),),
    unless=(repeats_crossover,),
    tables=("losses", "convergence"),
    has_own_section=True,
)


def _scaled(shown: Shown) -> pd.DataFrame:
    """All with a factor where that of one changed more than once in most processes; otherwise, the
    table says as much.
    """
    losses = shown.tables.losses.dropna(subset="loss_scale").sort_values("step")
    process = [losses["variant"], losses["repetition"]]
    changes = losses.groupby(process)["loss_scale"].diff().fillna(0) != 0
    moves = changes.groupby(process).sum()
    typical = shown.rows["variant"].map(moves.groupby("variant").median())
    return shown.rows[typical.notna()] if (typical > 1).any() else shown.rows.iloc[:0]


def loss_scale_figure(shown: Shown) -> Figure:
    """Draw the factor after every step."""
    losses = shown.tables.losses
    figure = style.new_figure(height_in=1.5 + 0.2 * len(shown.rows))
    axes = figure.subplots()
    for (_, row), color, line in zip(
        shown.rows.iterrows(), cycle(palette.PALETTE), cycle(("-", "--", ":", "-.")), strict=False
    ):
        scales = losses[losses["variant"] == row["variant"]].groupby("step")["loss_scale"].median()
        exponents = np.log2(scales.where(scales > 0))
        axes.step(
            scales.index + 1,
            exponents,
            where="post",
            color=color,
            linestyle=line,
            label=labels.joined(row["heading"], row["label"]),
        )
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("Training step")
    axes.set_ylabel("Loss scale (power of 2)")
    figure.legend(loc="outside upper left", borderaxespad=0.2)
    return figure


LOSS_SCALE: Final = partial(
    variant_figure,
    name="loss_scale",
    title="History of the loss scale",
    caption=(
        "Factor of the gradient scaler after each step of the fp16 trainings, medians over "
        "processes. A step whose gradients overflow is skipped and halves the factor."
    ),
    along=("precision",),
    rows=_scaled,
    draw=loss_scale_figure,
    sentences=(partial(range_in, "losses", "loss_scale", what="The factors", unit=""),),
    tables=("losses",),
)
