"""What the wall time of a step went into: its parts as one stacked bar per variant, which add up to the whole.

step_shares -> rows (variant) -> segments (part), how busy and how launch-bound the device was at the right
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import style
from gpu_report.figures.operations import draw_categories
from gpu_report.number_format import share
from gpu_report.tables.bundle import Tables
from gpu_report.tables.profiled import first_profiled
from gpu_report.tables.trace_schema import STEP_PARTS

PART_COLORS: Final[Mapping[str, str]] = dict(
    zip(
        STEP_PARTS,
        (
            *(style.BLUE, style.ORANGE, style.YELLOW, style.VERMILLION),
            *(style.PURPLE, style.GREEN, style.SKY, style.OTHERS),
        ),
        strict=True,
    )
)
"""Neighbours differ in grey too; parts stand in the order in which a moment counts for them."""


def profiled_rows(variants: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The rows of the variants that `first_profiled` gives, in its order."""
    return variants.set_index("variant", drop=False).loc[first_profiled(tables)].reset_index(drop=True)


def draw_step_shares(frame: pd.DataFrame, shares: pd.DataFrame) -> Figure:
    """Draw what each variant's steps went into; rows as in `rows_figure`, one without all its parts is a gap."""
    rows = {str(row["variant"]): row for _, row in shares.iterrows()}
    parts = [_parts(variant, row) for variant, row in rows.items() if variant in set(frame["variant"])]
    reliable = pd.concat([each for each in parts if each["share"].notna().all()] or [parts[0].iloc[:0]])
    texts = {variant: _of_device(row) for variant, row in rows.items() if variant in set(frame["variant"])}
    return draw_categories(
        frame,
        reliable[reliable["share"] > 0],
        colors=PART_COLORS,
        texts=texts,
        text_heading="kernel-active, launch-bound (%)" if any(texts.values()) else "",
        axis_label="Share of the wall time of the profiled steps (%)",
        profiled=rows,
    )


def _parts(variant: str, row: "pd.Series[Any]") -> pd.DataFrame:
    shares = [float(row[f"{part}_share"]) for part in STEP_PARTS]
    return pd.DataFrame({"variant": variant, "category": STEP_PARTS, "share": shares})


def _of_device(row: "pd.Series[Any]") -> str:
    """Kernel-active time, and how long the device waited for launches where that is known; nothing on the CPU."""
    shares = [float(row[column]) for column in ("device_busy_share", "launch_bound_share")]
    return ", ".join(share(each).plain(unit=False) for each in shares if math.isfinite(each))
