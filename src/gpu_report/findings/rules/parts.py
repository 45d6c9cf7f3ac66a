"""The parts of a variant's profiled step, as shares of it that sum to 1: at most one of them is more than half.

A time of the profiled step is held against that step alone: the step without the profiler is another one, and shorter.
"""

import math
from typing import Final

from gpu_report.findings.estimate import Estimate, Row
from gpu_report.findings.scope import CPU
from gpu_report.tables.trace_schema import STEP_PARTS

COPIES: Final = "transfer"
_OF_THE_STEP: Final = {
    "kernels": ("kernel", "memset"),
    COPIES: ("memcpy",),
    "communication": ("communication",),
    "loader": ("loader",),
    "launch": ("runtime", "operator", "other"),
}
_OF_THE_STEP_ON_CPU: Final = {
    "kernels": ("operator",),
    "communication": ("communication",),
    "loader": ("loader",),
    "host": tuple(part for part in STEP_PARTS if part not in ("operator", "communication", "loader")),
}
"""Parts by those of the table of shares; on a CPU nothing goes on behind another part."""


def parts_of(row: Row) -> dict[str, Estimate]:
    """Each part with its share of the profiled step; none where the trace does not tell them.

    Args:
        row: A variant with the row of its trace in the table of shares.
    """
    parts = _OF_THE_STEP_ON_CPU if row["device"] == CPU else _OF_THE_STEP
    shares = {name: sum(float(row[f"{one}_share"]) for one in of_table) for name, of_table in parts.items()}
    return {} if any(map(math.isnan, shares.values())) else {name: of_one_run(share) for name, share in shares.items()}


def of_one_run(share: float) -> Estimate:
    """A share of one profiled run, which has no interval."""
    return Estimate(value=share, low=math.nan, high=math.nan, processes=0)
