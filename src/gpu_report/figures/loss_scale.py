"""How the gradient scaler's factor went: one line per fp16 training, along its steps.

losses -> lines (variant), each the median over processes of the factor after every step
"""

from itertools import cycle
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gpu_report.figures import labels, style

_HEIGHT_IN: Final = 2.0
_LEGEND_ROW_IN: Final = 0.2
_LINES: Final = ("-", "--", ":", "-.")


def scaled_rows(rows: pd.DataFrame, losses: pd.DataFrame) -> pd.DataFrame:
    """The trainings whose loss was scaled."""
    return rows[rows["variant"].isin(losses.dropna(subset="loss_scale")["variant"])]


def draw_loss_scales(frame: pd.DataFrame, losses: pd.DataFrame) -> Figure:
    """Draw the factor after every step; the columns `heading` and `label` are those of the rows."""
    figure = style.new_figure(height_in=_HEIGHT_IN + len(frame) * _LEGEND_ROW_IN)
    axes = figure.subplots()
    for (_, row), color, line in zip(frame.iterrows(), cycle(style.PALETTE), cycle(_LINES), strict=False):
        scales = losses[losses["variant"] == row["variant"]].groupby("step")["loss_scale"].median()
        exponents = np.log2(scales.where(scales > 0))
        name = labels.joined(row["heading"], row["label"])
        axes.step(scales.index + 1, exponents, where="post", color=color, linestyle=line, label=name)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("Training step")
    axes.set_ylabel("Loss scale (power of 2)")
    figure.legend(loc="outside upper left", borderaxespad=0.2)
    return figure
