"""In which phase of the step each variant spent its time, and how much of it in convolutions.

trace tables, one set per variant -> rows on the variant's own device -> PHASES
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpu_report.tables.profiled import profiled
from gpu_report.tables.schema import PHASES
from gpu_report.traces.phases import PHASES as TRACE_PHASES

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.traces.tables import TraceTables


def tabulate_phases(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table PHASES; a variant without a trace, or with one that the gate spoils, has no rows."""
    return PHASES.from_rows(
        {
            **each.identity,
            **{name: row[name] for name in ("phase", "self_ms", "share")},
            "convolution_share": _part(row["convolution_ms"], row["self_ms"]),
            "cudnn_share": _part(row["cudnn_ms"], row["self_ms"]),
        }
        for each in profiled(traces)
        for row in each.rows_on_own_device(TRACE_PHASES)
    )


def _part(part_ms: float, all_ms: float) -> float:
    return part_ms / all_ms if all_ms else math.nan
