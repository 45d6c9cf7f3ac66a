"""How the trainings went, device beside device: the loss of each step and the held-out quality after each epoch.

losses, convergence -> panels (group) -> lines (device): mean over processes, band or bars from lowest to highest
"""

import math
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpu_report.figures import labels, style
from gpu_report.figures.curves import add_legend, draw_chance

_PANEL_HEIGHT_IN: Final = 1.4
_LEGEND_HEIGHT_IN: Final = 0.4
MOST_COLUMNS: Final = 3
_MOST_POINTS: Final = 200
"""More points than that in a line of two inches are ink, not information; neighbouring steps are averaged."""
_MOST_MARKED_POINTS: Final = 12


def draw_convergence(frame: pd.DataFrame, losses: pd.DataFrame, convergence: pd.DataFrame) -> Figure:
    """Draw training loss above held-out quality, a column per group of variants that differ in the device only.

    The table has the column `heading` of `with_row_labels` along the device.
    """
    headings, devices = list(dict.fromkeys(frame["heading"])), list(dict.fromkeys(frame["device"]))
    columns = min(len(headings), MOST_COLUMNS)
    blocks = math.ceil(len(headings) / MOST_COLUMNS)
    figure = style.new_figure(height_in=2 * blocks * _PANEL_HEIGHT_IN + _LEGEND_HEIGHT_IN)
    grid = figure.add_gridspec(2 * blocks, columns)
    for position, heading in enumerate(headings):
        block, column = divmod(position, MOST_COLUMNS)
        group = frame[frame["heading"] == heading]
        upper = figure.add_subplot(grid[2 * block, column])
        lower = figure.add_subplot(grid[2 * block + 1, column])
        style.set_panel_title(upper, heading, columns=columns)
        _draw_losses(upper, group, losses, devices)
        _draw_quality(lower, group, convergence, devices)
        _note_missing(upper, group)
        if column == 0:
            upper.set_ylabel("Training loss")
        lower.set_ylabel(labels.quality_label(group["quality_name"]), fontsize=style.FONT_SIZE_PT)
    add_legend(figure, devices)
    return figure


def _draw_losses(axes: Axes, group: pd.DataFrame, losses: pd.DataFrame, devices: list[str]) -> None:
    drawn: list[float] = []
    for position, (variant, device) in enumerate(zip(group["variant"], group["device"], strict=True)):
        spread = _spread(losses[losses["variant"] == variant], "step", "train_loss")
        block = math.ceil(len(spread) / _MOST_POINTS)
        spread = spread.groupby(spread.index // max(block, 1) * max(block, 1)).mean()
        color, marker = style.device_look(device, devices)
        few = len(spread) <= _MOST_MARKED_POINTS
        axes.fill_between(spread.index, spread["low"], spread["high"], color=color, alpha=0.25, linewidth=0)
        axes.plot(
            spread.index, spread["mean"], color=color, marker=marker if few else "", **_layer(position, len(group))
        )
        drawn += [*spread["low"], *spread["high"]]
    style.set_scale(axes, "y", drawn)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("Step")


def _draw_quality(axes: Axes, group: pd.DataFrame, convergence: pd.DataFrame, devices: list[str]) -> None:
    drawn: list[float] = []
    unlike = len(group[["epochs", "steps_per_epoch"]].drop_duplicates()) > 1
    by, first = ("samples_seen", 0) if unlike else ("epoch", 1)
    for position, (variant, device) in enumerate(zip(group["variant"], group["device"], strict=True)):
        spread = _spread(convergence[convergence["variant"] == variant], by, "quality")
        color, marker = style.device_look(device, devices)
        axes.errorbar(
            spread.index + first,
            spread["mean"],
            yerr=[spread["mean"] - spread["low"], spread["high"] - spread["mean"]],
            color=color,
            marker=marker,
            elinewidth=0.8,
            capthick=0.8,
            **_layer(position, len(group)),
        )
        drawn += [*spread["low"], *spread["high"]]
    style.set_scale(axes, "y", drawn, from_zero=False)
    draw_chance(axes, group["quality_chance"])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(style.tick_text))
    axes.margins(x=0.1)
    axes.set_xlabel("Samples seen" if unlike else "Epoch")


def _layer(position: int, count: int) -> dict[str, Any]:
    """The first device broad and below, the next ones thin and above it, so that lines that agree are both seen."""
    if count == 1:
        return {}
    return {"linewidth": 3.0, "markersize": 6, "alpha": 0.7} if position == 0 else {"linewidth": 1.0, "markersize": 3.5}


def _spread(values: pd.DataFrame, by: str, column: str) -> pd.DataFrame:
    """Mean, lowest and highest over the processes, by step or epoch."""
    grouped = values.dropna(subset=[column]).groupby(by)[column]
    return pd.DataFrame({"mean": grouped.mean(), "low": grouped.min(), "high": grouped.max()})


def _note_missing(axes: Axes, group: pd.DataFrame) -> None:
    missing = group[group["status"] != "ok"]
    text = "\n".join(labels.device_status(row) for _, row in missing.iterrows())
    axes.text(
        0.98,
        0.96,
        text,
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=style.TINY_FONT_SIZE_PT,
        color=style.QUIET,
    )
