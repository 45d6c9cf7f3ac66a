"""A trace's tables as of the timed step: kernels and copies last as long under the profiler as
without it, and the gaps between them do not.

A collective waits for the slowest rank, also for one that the profiler slows, and its kernel takes
part of the GPU from others meanwhile. So kernels and the exchange that nothing hides are those of
the rank that waited least in each step, and waits are stretched like gaps: the GPU is not busy in
them. Where the waits are not known, all exposed exchange is.

STEPS and RANKS of the profiled steps -> kernels, copies and exchange as they are, or shortened to
the timed step; all else of the step in the ratio in which it was profiled -> STEPS, IDLE and
LAUNCHES of steps as long as timed ones
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from gpu_report.records.record import Record
from gpu_report.storage.columns import Table
from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES, OTHER_RANKS
from gpu_report.traces.quality import AHEAD, AS_TIMED, QUALITY, Gate, invalidated, row_of
from gpu_report.traces.ranks import RANKS
from gpu_report.traces.steps import STEPS

_FIXED: Final = ("kernel", "memcpy", "memset")
_REST: Final = ("communication", "runtime", "loader", "operator", "other")
_MOST_BUSY: Final = 1.05
"""Kernels and copies of a profiled step up to here over the timed step of the slowest process:
processes of one training differ by some per cent.
"""
_LEAST_REST: Final = 1e-4
"""Of the kernels and copies of a step, in what is no such part; less is lost in the rounding of
tables.
"""


@dataclass(frozen=True)
class TimedStep:
    """What a step took without the profiler: the median step, as every table of step times has it,
    on average over the processes; and the mean step of the slowest process.

    The few steps that wait long for data are not in the median: no profile of a few steps shows
    them. The mean is that of the median epoch, without its first step, which waits for the loader
    to begin: the profiled steps may be among the longer ones.
    """

    median_ms: float
    slowest_ms: float

    @classmethod
    def of(cls, record: Record) -> "TimedStep | None":
        """None where no step was timed, or where an epoch is a whole training."""
        if record.status != "ok" or record.workload is None or record.workload.begins_anew:
            return None
        by_process = [
            statistics.median(
                chain.from_iterable(epoch.step_times_ms for epoch in process.timed_epochs)
            )
            for process in record.repetitions
        ]
        if min(by_process) <= 0:
            return None
        slowest_ms = max(
            statistics.median(
                statistics.fmean(epoch.step_times_ms[1:] or epoch.step_times_ms)
                for epoch in process.timed_epochs
            )
            for process in record.repetitions
        )
        return cls(statistics.geometric_mean(by_process), slowest_ms)


def of_timed_steps(
    tables: Mapping[Table, Sequence[Row]], timed: TimedStep
) -> Mapping[Table, Sequence[Row]]:
    """The tables with the times of STEPS and IDLE, and the shares of IDLE and LAUNCHES, as of timed
    steps. The others stay as profiled.

    Tables without trusted device work stay as they are: what the profiler adds to an operation on a
    CPU is not known.
    """
    parts = _parts(tables)
    steps = [
        row for row in Gate(tables).rows(STEPS, "device_busy_ms", "wall_ms") if row["step"] in parts
    ]
    fixed_ms = sum(sum(parts[row["step"]].fixed_ms.values()) for row in steps)
    rest_ms = sum(sum(parts[row["step"]].rest_ms.values()) for row in steps)
    timed_ms = len(steps) * timed.median_ms
    if not (fixed_ms > 0 and (fixed_ms > timed_ms or rest_ms > _LEAST_REST * fixed_ms)):
        return tables
    scale = min(timed_ms / fixed_ms, 1.0)  # processes differ by some per cent
    factor = 0.0 if scale < 1 else (timed_ms - fixed_ms) / rest_ms
    before = {row["step"]: row for row in tables[STEPS]}
    rows = {
        step: _timed_step(row, parts[step], factor, scale) if step in parts else row
        for step, row in before.items()
    }
    all_ms = sum(rows[row["step"]]["wall_ms"] for row in steps)
    a_step_ms = fixed_ms / len(steps)
    known = [parts[row["step"]].rest_ms for row in steps if parts[row["step"]].has_waits]
    waits_ms = factor * sum(rest_ms["communication"] for rest_ms in known)
    return {
        **tables,
        STEPS: [*rows.values()],
        IDLE: [
            *(_idle(row, factor * row["total_ms"], all_ms) for row in tables[IDLE]),
            *([_idle(_WAITS, waits_ms, all_ms)] if waits_ms > _LEAST_REST * fixed_ms else []),
        ],
        LAUNCHES: [
            {
                **row,
                "launch_bound_share": factor
                * row["launch_bound_share"]
                * before[row["step"]]["wall_ms"]
                / rows[row["step"]]["wall_ms"],
            }
            for row in tables[LAUNCHES]
        ],
        QUALITY: [
            # How long the device idles in a timed step is known; what caused the gaps is not.
            *(
                row_of(
                    AS_TIMED,
                    row["value"],
                    row["limit"],
                    passed=row["passed"],
                    text=row["text"],
                    invalidates=[
                        name for name in invalidated(row) if name != "steps.device_idle_share"
                    ],
                )
                if row["check"] == AS_TIMED
                else row
                for row in tables[QUALITY]
                if row["check"] != AHEAD
            ),
            row_of(
                "busy within a timed step",
                a_step_ms / timed.slowest_ms,
                _MOST_BUSY,
                passed=a_step_ms <= _MOST_BUSY * timed.slowest_ms,
                text=f"kernels and copies of a profiled step took {a_step_ms:.4g} ms and a timed "
                f"step on average at most {timed.slowest_ms:.4g} ms",
                invalidates=("steps", "idle", "launches"),
            ),
        ],
    }


_WAITS: Final[Row] = {"cause": OTHER_RANKS, "operation": "", "gaps": 0, "longest_us": math.nan}
"""Waits for other ranks are idle time in kernels, so that no gap has them."""


def _idle(row: Row, total_ms: float, all_ms: float) -> Row:
    return {**row, "total_ms": total_ms, "share": total_ms / all_ms}


@dataclass(frozen=True)
class _Parts:
    """What a profiled step consists of: the milliseconds that last as long without the profiler,
    and those that do not, by part; and whether `rest_ms` has all waits for other ranks.
    """

    fixed_ms: dict[str, float]
    rest_ms: dict[str, float]
    has_waits: bool


def _parts(tables: Mapping[Table, Sequence[Row]]) -> dict[int, _Parts]:
    """Of each step with device work."""
    ranks = Gate(tables).rows(RANKS) if RANKS in tables else []
    least: dict[int, Row] = {}
    if all(row["wait_ms"] == _known(row["wait_ms"]) for row in ranks):  # none is missing
        for row in sorted(ranks, key=lambda row: -row["wait_ms"]):
            least[row["step"]] = row
    found = {}
    for row in tables[STEPS]:
        fixed_ms = {part: _known(row[f"{part}_ms"]) for part in _FIXED}
        rest_ms = {part: _known(row[f"{part}_ms"]) for part in _REST}
        if not any(fixed_ms.values()):
            continue
        if rank := least.get(row["step"]):
            exchange_ms = min(rank["exposed_ms"], rank["communication_ms"] - rank["wait_ms"])
            waits_ms = (
                fixed_ms["kernel"] + rest_ms["communication"] - rank["compute_ms"] - exchange_ms
            )
            fixed_ms |= {"kernel": rank["compute_ms"], "communication": exchange_ms}
            rest_ms["communication"] = max(waits_ms, 0.0)
        found[row["step"]] = _Parts(fixed_ms, rest_ms, has_waits=row["step"] in least)
    return found


def _timed_step(row: Row, parts: _Parts, factor: float, scale: float) -> Row:
    """A row of STEPS whose fixed parts are `scale` of what was profiled, and whose others are
    `factor` of it.
    """
    fixed_ms = sum(parts.fixed_ms.values())
    times_ms = {
        part: scale * parts.fixed_ms.get(part, 0.0) + factor * parts.rest_ms.get(part, 0.0)
        for part in (*_FIXED, *_REST)
    }
    busy_ms, exposed_ms = scale * fixed_ms, times_ms["communication"]
    wall_ms = busy_ms + factor * sum(parts.rest_ms.values())  # busy throughout: exactly the same
    if not parts.has_waits:
        busy_ms += factor * max(row["device_busy_ms"] - fixed_ms, 0.0)
        exposed_ms = factor * _known(row["exposed_communication_ms"])
    return {
        **row,
        **{f"{part}_ms": time_ms for part, time_ms in times_ms.items()},
        "exposed_copy_ms": row["exposed_copy_ms"] and scale * row["exposed_copy_ms"],
        "exposed_communication_ms": exposed_ms,
        "wall_ms": wall_ms,
        "host_busy_ms": row["host_busy_ms"] * wall_ms / row["wall_ms"],
        "device_busy_ms": busy_ms,
        "device_idle_share": 1 - busy_ms / wall_ms,
    }


def _known(time_ms: float | None) -> float:
    """A missing time is None in tables as they are made, and NaN in those that were read."""
    return 0.0 if time_ms is None or math.isnan(time_ms) else time_ms
