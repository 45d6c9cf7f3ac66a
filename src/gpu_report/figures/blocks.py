"""One training in one process, block by block: how long a step took, and how much memory was in
use.
"""

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gpu_report.figures import style
from gpu_report.tables.statistics import Summary

_HEIGHT_IN: Final = 1.9


def blocks_figure(
    times_ms: Sequence[float], in_use_mib: Sequence[float], *, mean_ms: Summary
) -> Figure:
    """Draw both against the number of the block, with the mean time and its interval behind the
    times.
    """
    blocks = range(1, len(times_ms) + 1)
    figure = style.new_figure(height_in=_HEIGHT_IN)
    left, right = figure.subplots(1, 2)
    left.axhspan(mean_ms.low, mean_ms.high, color=style.SKY, alpha=0.5, linewidth=0, zorder=0)
    left.axhline(mean_ms.value, color=style.BLUE, zorder=1)
    left.plot(blocks, times_ms, "o", color=style.BLUE)
    left.set_ylabel("Time per step (ms)")
    right.plot(blocks, in_use_mib, "s-", color=style.ORANGE)
    right.set_ylabel("Memory in use (MiB)")
    right.set_ylim(bottom=0, top=max(1.15 * max(in_use_mib), 1))
    for axes in (left, right):
        axes.set_xlabel("Timed block")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.ticklabel_format(axis="y", useOffset=False)
    return figure
