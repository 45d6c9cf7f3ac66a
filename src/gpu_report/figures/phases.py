"""What the device's time in a step went into: forward, loss, backward, optimizer, data, other; with its convolutions.

phases -> rows (variant) -> segments (phase), the shares of convolutions and of cuDNN at the right
"""

from collections.abc import Container, Mapping
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import style
from gpu_report.figures.operations import draw_categories
from gpu_report.number_format import share

PHASE_COLORS: Final[Mapping[str, str]] = {
    "forward": style.BLUE,
    "loss": style.PURPLE,
    "backward": style.ORANGE,
    "optimizer": style.GREEN,
    "data": style.SKY,
    "other": style.OTHERS,
}


def draw_phases(frame: pd.DataFrame, phases: pd.DataFrame, *, profiled: Container[str] = ()) -> Figure:
    """Draw the phases of every variant as one stacked bar; rows and `profiled` as in `draw_categories`."""
    shares = phases.rename(columns={"phase": "category"})
    texts = {str(variant): _inside(rows) for variant, rows in phases.groupby("variant")}
    return draw_categories(
        frame,
        shares,
        colors=PHASE_COLORS,
        texts=texts,
        text_heading="convolution, cuDNN (%)",
        profiled=profiled,
    )


def _inside(phases: pd.DataFrame) -> str:
    """The shares of all the variant's time that went into convolutions, and into cuDNN where that is known."""
    columns = ["convolution_share"] + ["cudnn_share"] * bool(phases["cudnn_share"].notna().any())
    sums = [float((phases["share"] * phases[column]).sum(skipna=True)) for column in columns]
    return ", ".join(share(total).plain(unit=False) for total in sums)
