"""In which phase of the step each variant spent its time, and how much of it in convolutions.

trace tables, one per variant -> rows on the variant's own device -> PHASES
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpu_report.tables.operations import on_own_device
from gpu_report.tables.schema import PHASES

if TYPE_CHECKING:
    import pandas as pd


def tabulate_phases(phases: "Mapping[str, pd.DataFrame]") -> "pd.DataFrame":
    """The table PHASES from each variant's table of phases; a variant without a trace has no rows."""
    return PHASES.from_rows(
        {
            **identity,
            **{name: row[name] for name in ("phase", "self_ms", "share")},
            "convolution_share": _part(row["convolution_ms"], row["self_ms"]),
            "cudnn_share": _part(row["cudnn_ms"], row["self_ms"]),
        }
        for identity, frame in on_own_device(phases)
        for row in frame.to_dict("records")
    )


def _part(part_ms: float, all_ms: float) -> float:
    return part_ms / all_ms if all_ms else math.nan
