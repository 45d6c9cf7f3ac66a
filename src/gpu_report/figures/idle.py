"""How long the accelerator did nothing, and why: the gaps of each variant's steps as one stacked bar, by cause.

idle_causes, step_shares -> rows (variant) -> segments (cause), the whole idle share and the longest gap at the right
"""

from collections.abc import Mapping
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import style
from gpu_report.figures.operations import draw_categories
from gpu_report.figures.step_shares import profiled_rows
from gpu_report.number_format import duration, share
from gpu_report.tables.bundle import Tables

CAUSE_COLORS: Final[Mapping[str, str]] = {
    "launch": style.PURPLE,
    "host": style.SKY,
    "loader": style.GREEN,
    "synchronisation": style.YELLOW,
    "unknown": style.OTHERS,
}
"""Where a cause is a part of the step too, as that is drawn; all differ in grey too."""


def first_on_accelerators(variants: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The variants of the figure of steps, those on the CPU left out, which has no gaps."""
    rows = profiled_rows(variants, tables)
    return rows[rows["device"] != "cpu"]


def draw_idle(frame: pd.DataFrame, causes: pd.DataFrame, shares: pd.DataFrame) -> Figure:
    """Draw the gaps of each variant; rows as in `rows_figure`, one whose gaps or causes are not known is a gap."""
    idle = dict(zip(shares["variant"], shares["device_idle_share"], strict=True))
    own = causes[causes["variant"].isin([variant for variant, idle_share in idle.items() if idle_share >= 0])]
    gaps_of = own.rename(columns={"cause": "category"})[["variant", "category", "share"]]
    without = [variant for variant, idle_share in idle.items() if idle_share == 0]
    none = pd.DataFrame({"variant": without, "category": "launch", "share": 0.0})
    return draw_categories(
        frame,
        pd.concat([gaps_of, none]).groupby(["variant", "category"], as_index=False, sort=False).sum(),
        colors=CAUSE_COLORS,
        texts={str(variant): _text(idle[variant], gaps) for variant, gaps in own.groupby("variant")},
        text_heading="idle (%), longest gap",
        axis_label="Share of the wall time of the profiled steps (%)",
        profiled=idle,
    )


def _text(idle_share: float, gaps: pd.DataFrame) -> str:
    longest = duration(float(gaps["longest_us"].max()) / 1e6).plain()
    return f"{share(idle_share).plain(unit=False)}, {longest}"
