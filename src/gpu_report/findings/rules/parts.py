"""The parts of a variant's step, as shares of it that rule each other out: at most one of them is more than half."""

import math
from typing import Final

from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.scope import CPU

COPIES: Final = "transfer"

_PROFILED_ON_CPU: Final = {
    "kernels": "operator_share",
    "communication": "communication_share",
    "host": "other_share",
}
"""Parts by the column of the table of shares that has them; on a CPU nothing goes on behind another part."""


def parts_of(row: Row) -> dict[str, Estimate]:
    """Each part with its share of the step; none where the trace does not have them all.

    Args:
        row: A variant with the row of its trace in the table of shares.
    """
    parts = _on_cpu(row) if row["device"] == CPU else _on_accelerator(row)
    return parts if all(share.known for share in parts.values()) else {}


def profiled_share(row: Row, column: str) -> Estimate:
    """A share of the profiled steps, of one run and so without an interval.

    Profiled time is only ever divided by profiled time: over the time of a timed step it can exceed the whole.
    """
    return _alone(float(row[column]))


def _on_accelerator(row: Row) -> dict[str, Estimate]:
    busy, copies, exchange, loader = (
        float(row[f"{name}_share"]) for name in ("device_busy", "exposed_copy", "exposed_communication", "loader")
    )
    shares = {
        "kernels": busy - copies - exchange,
        COPIES: copies,
        "communication": exchange,
        "loader": loader,
        "launch": 1 - busy - loader,
    }
    return {part: _alone(share) for part, share in shares.items()}


def _on_cpu(row: Row) -> dict[str, Estimate]:
    wait = estimate(row, "data_wait_share")
    if wait.against(0.5) == "above":
        return {"loader": wait}
    return {**{part: _alone(row[column]) for part, column in _PROFILED_ON_CPU.items()}, "loader": wait}


def _alone(share: float) -> Estimate:
    return Estimate(value=share, low=math.nan, high=math.nan, processes=0)
