"""The parts of a variant's step, as shares of it that rule each other out: at most one of them is more than half."""

import math
from typing import Final

from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.scope import CPU

COPIES: Final = "transfer"
_MS_PER_S: Final = 1000.0

_PROFILED_ON_CPU: Final = {
    "kernels": "operator_share",
    "communication": "communication_share",
    "host": "other_share",
}
"""Parts by the column of the table of shares that tells them; on a CPU nothing goes on behind another part."""


def parts_of(row: Row) -> dict[str, Estimate]:
    """Each part with the share of the step that it took at least; none where the trace does not tell them.

    Args:
        row: A variant with the row of its trace in the table of shares.
    """
    parts = _on_cpu(row) if row["device"] == CPU else _on_accelerator(row)
    return parts if all(share.known for share in parts.values()) else {}


def share_of_step(row: Row, column: str) -> Estimate:
    """A time of the accelerator in a profiled step over the time of a timed one, with the interval of the latter."""
    return _of_step(row, float(row[column]))


def _on_accelerator(row: Row) -> dict[str, Estimate]:
    copies_ms, exchange_ms = float(row["exposed_copy_ms"]), float(row["exposed_communication_ms"])
    busy, wait = share_of_step(row, "device_busy_ms"), estimate(row, "data_wait_share")
    return {
        "kernels": _of_step(row, row["device_busy_ms"] - copies_ms - exchange_ms),
        COPIES: _of_step(row, copies_ms),
        "communication": _of_step(row, exchange_ms),
        "loader": wait.minus(busy),
        "launch": wait.mapped(lambda share: 1 - share).minus(busy),
    }


def _on_cpu(row: Row) -> dict[str, Estimate]:
    wait = estimate(row, "data_wait_share")
    if wait.against(0.5) == "above":
        return {"loader": wait}
    return {**{part: _alone(row[column]) for part, column in _PROFILED_ON_CPU.items()}, "loader": wait}


def _of_step(row: Row, time_ms: float) -> Estimate:
    """A profiled step of a workload's own loop is a whole training, which goes over the batch again and again."""
    batches = row["steps_per_epoch"] if row["begins_anew"] and not math.isnan(row["steps_per_epoch"]) else 1
    per_sample_s = time_ms / _MS_PER_S / (batches * row["batch_size"])
    return estimate(row, "throughput_per_s").mapped(lambda samples_per_s: samples_per_s * per_sample_s)


def _alone(share: float) -> Estimate:
    """A share of one profiled run, which has no interval."""
    return Estimate(value=share, low=math.nan, high=math.nan, processes=0)
