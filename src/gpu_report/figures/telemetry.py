"""What the accelerator's driver told while a few variants trained: power, utilisation and clock over time.

telemetry, variants -> columns (variant), rows (quantity) -> a line per process
"""

from typing import Final

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gpu_report.figures import labels, style
from gpu_report.variant import AXIS_FIELDS

_PANEL_HEIGHT_IN: Final = 0.9
_MOST_VARIANTS: Final = 3
QUANTITIES: Final = {
    "power_w": "Power (W)",
    "utilisation_percent": "GPU utilization\n(NVML, %)",
    "sm_clock_mhz": "Clock (MHz)",
}
"""Column -> label of what is drawn, as far as the driver told it."""


def draw_telemetry(telemetry: pd.DataFrame, variants: pd.DataFrame) -> Figure:
    """Draw, of each of a few workloads, the variant that took most power; a line is a process."""
    chosen = _most_powerful(variants[variants["variant"].isin(telemetry["variant"])])
    quantities = {name: label for name, label in QUANTITIES.items() if telemetry[name].notna().any()}
    figure = style.new_figure(height_in=len(quantities) * _PANEL_HEIGHT_IN + 0.7)
    grid = figure.subplots(len(quantities), len(chosen), squeeze=False, sharey="row", sharex="col")
    for column, (_, variant) in zip(grid.T, chosen.iterrows(), strict=True):
        own = telemetry[telemetry["variant"] == variant["variant"]]
        style.set_panel_title(column[0], variant["title"], columns=max(2, len(chosen)))
        for axes, name in zip(column, quantities, strict=True):
            for _, process in own.groupby("repetition"):
                axes.plot(process["moment_s"], process[name], color=style.BLUE, linewidth=0.8, alpha=0.7)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        column[-1].set_xlabel("Time (s)")
    for row, (name, label) in zip(grid, quantities.items(), strict=True):
        row[0].set_ylabel(label)
        highest = telemetry.loc[telemetry["variant"].isin(chosen["variant"]), name].max()
        row[0].set_ylim(0, 1.1 * highest if highest > 0 else 1)
        row[0].yaxis.set_major_locator(MaxNLocator(nbins=4))
    return figure


def _most_powerful(variants: pd.DataFrame) -> pd.DataFrame:
    """A variant per workload, those of most power first, with the column `title`."""
    ordered = variants.sort_values("power_w", ascending=False, kind="stable").drop_duplicates("workload")
    chosen = labels.with_labels(ordered.head(_MOST_VARIANTS), without=AXIS_FIELDS["optimization"])
    optimizations = [labels.field_label("short_optimization", name) for name in chosen["optimization"]]
    parts = zip(chosen["heading"], chosen["precision"], optimizations, strict=True)
    return chosen.assign(title=[labels.joined(*words) for words in parts])
