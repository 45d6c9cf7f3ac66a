"""A trace's tables as of the timed step: kernels last as long under the profiler as without it, and
the gaps between them do not.

STEPS of the profiled steps, what a timed step took -> device work as measured, and the rest of the
timed step divided as the host's part of the profiled one is -> STEPS, DEVICES, IDLE and LAUNCHES of
timed steps
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.records.record import Record
from gpu_report.storage.columns import Table
from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.quality import QUALITY, Gate, row_of
from gpu_report.traces.steps import DEVICES, STEPS

_OF_HOST: Final = ("runtime", "loader", "operator", "other")
_OF_DEVICE: Final = ("kernel", "memcpy", "memset")
_MOST_BUSY: Final = 1.05
"""Device work of a profiled step up to here over the timed step of the slowest process: processes
of one training differ by some per cent.
"""


@dataclass(frozen=True)
class TimedStep:
    """What a step took without the profiler: the median process, and the slowest; of each process
    its median step.
    """

    median_ms: float
    slowest_ms: float

    @classmethod
    def of(cls, record: Record) -> "TimedStep | None":
        """None where no step was timed."""
        if record.status != "ok":
            return None
        by_process = [
            statistics.median(
                time_ms for epoch in process.timed_epochs for time_ms in epoch.step_times_ms
            )
            for process in record.repetitions
        ]
        return cls(statistics.median(by_process), max(by_process))


def of_timed_steps(
    tables: Mapping[Table, Sequence[Row]], timed: TimedStep
) -> Mapping[Table, Sequence[Row]]:
    """The tables with the times of STEPS and IDLE, and the shares of DEVICES, IDLE and LAUNCHES, as
    of timed steps.

    Device work keeps its time. What is left of the timed step goes to the host's parts, and to the
    gaps, in the ratio in which they were profiled. Tables without trusted device work stay as they
    are: what the profiler adds to an operation on a CPU is not known.
    """
    steps = Gate(tables).rows(STEPS, "device_busy_ms", "wall_ms")
    busy_ms = sum(_known(row["device_busy_ms"]) for row in steps)
    rest_ms = sum(row["wall_ms"] for row in steps) - busy_ms
    if not busy_ms:
        return tables
    timed_ms = len(steps) * timed.median_ms
    factor = max(timed_ms - busy_ms, 0.0) / rest_ms if rest_ms > 0 else 0.0
    rows = {row["step"]: _timed_step(row, factor) for row in tables[STEPS]}
    wall_ms = {row["step"]: row["wall_ms"] for row in tables[STEPS]}
    all_ms = sum(row["wall_ms"] for row in rows.values())
    return {
        **tables,
        STEPS: [*rows.values()],
        DEVICES: [
            {**row, "idle_share": 1 - row["busy_ms"] / rows[row["step"]]["wall_ms"]}
            for row in tables[DEVICES]
        ],
        IDLE: [
            {
                **row,
                "total_ms": factor * row["total_ms"],
                "share": factor * row["total_ms"] / all_ms,
            }
            for row in tables[IDLE]
        ],
        LAUNCHES: [
            {
                **row,
                "launch_bound_share": factor
                * row["launch_bound_share"]
                * wall_ms[row["step"]]
                / rows[row["step"]]["wall_ms"],
            }
            for row in tables[LAUNCHES]
        ],
        QUALITY: [
            *tables[QUALITY],
            row_of(
                "busy within a timed step",
                busy_ms / len(steps) / timed.slowest_ms,
                _MOST_BUSY,
                passed=busy_ms / len(steps) <= _MOST_BUSY * timed.slowest_ms,
                text=f"the accelerator worked for {busy_ms / len(steps):.4g} ms of a profiled step "
                f"and a timed step took at most {timed.slowest_ms:.4g} ms",
                invalidates=("steps", "devices", "idle", "launches"),
            ),
        ],
    }


def _timed_step(row: Row, factor: float) -> Row:
    """A row of STEPS whose time without device work is this much of what was profiled."""
    busy_ms = _known(row["device_busy_ms"])
    wall_ms = busy_ms + factor * (row["wall_ms"] - busy_ms)
    on_device_ms = busy_ms - sum(_known(row[f"{part}_ms"]) for part in _OF_DEVICE)
    on_host_ms = max(_known(row["communication_ms"]) - on_device_ms, 0.0)
    return {
        **row,
        **{f"{part}_ms": factor * row[f"{part}_ms"] for part in _OF_HOST},
        "communication_ms": row["communication_ms"] - (1 - factor) * on_host_ms,
        "wall_ms": wall_ms,
        "host_busy_ms": row["host_busy_ms"] * wall_ms / row["wall_ms"],
        "device_idle_share": 1 - busy_ms / wall_ms,
    }


def _known(time_ms: float | None) -> float:
    """A missing time is None in tables as they are made, and NaN in those that were read."""
    return 0.0 if time_ms is None or math.isnan(time_ms) else time_ms
