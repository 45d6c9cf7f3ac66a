"""Trainings by custom loops: the time of an iteration over the points, and its bound on the device.

Record, calibration, trace tables -> time, launches and bytes of a pass -> floor = max(bytes / copy
rate, FLOPs / peak)

The floor is the bound of the roofline (Williams, Waterman and Patterson 2009) as a time.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gpu_report.glossary import Row
from gpu_report.records.calibration import Calibration, Ceilings
from gpu_report.records.record import Record, Work
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.study.options import is_bound
from gpu_report.tables.column_kinds import DEVICE, VARIANT, WORKLOAD, summary_of
from gpu_report.tables.efficiency import peak_flops_per_s
from gpu_report.tables.processes import brings_loop, built_in
from gpu_report.tables.profiled import profiled
from gpu_report.tables.statistics import summarise
from gpu_report.tables.variants import in_reading_order
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.steps import STEPS

if TYPE_CHECKING:
    from gpu_report.traces.tables import TraceTables

OWN_LOOPS: Final = Table(
    name="own_loops",
    meaning="One row per measured variant with a custom training loop: an iteration over its "
    "points, and its bound.",
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text("optimization", "As in the table of variants; the loop's name."),
        flag("is_bound", "The loop leaves out most of the work and is there as a bound."),
        whole("points", "1", "Training samples, all of them in every pass."),
        whole("passes", "1", "Passes of one training, from the initial weights."),
        *summary_of("training_ms"),
        *summary_of("pass_us"),
        number(
            "work_per_pass",
            "1",
            "Kernels, copies and fills of the device in a pass, from the trace.",
        ),
        number(
            "bytes_per_point",
            "B",
            "Moved at least in a pass: of PyTorch's operators, or as the loop is written.",
        ),
        number(
            "floor_us",
            "us",
            "Least time of a pass: its bytes at the device's copy rate, or its operations at the "
            "peak.",
        ),
        text(
            "floor",
            "'memory' or 'compute': which of the two takes longer; empty where none is known.",
        ),
        number("times_floor", "1", "pass_us over floor_us; below 1 where caches hold the points."),
        number(
            "reading_us",
            "us",
            "Time to read all points once at the device's copy rate; for workloads of ours.",
        ),
        number("readings", "1", "pass_us over reading_us."),
        text("learnt", "What the first process learned, by name."),
        number(
            "reference_error",
            "1",
            "Largest relative error of parameters and losses in any process, against float64.",
        ),
    ),
)

_AXES: Final = ("optimization", "batch_size")
"""Along which loops of a workload's own are compared in figures and findings of their own."""

BYTES_OF_POINT: Final = 8
"""What is read of a point once: input and target in float32."""

_US: Final = 1e6
_MS: Final = 1e3


def compares_own_loops(rows: Sequence[Mapping[str, Any]], axis: str) -> bool:
    """Whether an experiment is about loops that its workloads bring: all of its measured variants
    were trained by one.

    What the others bring may not be known; they decide where none was measured.
    """
    if axis not in _AXES or not rows:
        return False
    return all(row["begins_anew"] for row in [row for row in rows if row["status"] == "ok"] or rows)


def tabulate_own_loops(
    records: Iterable[Record], calibration: Calibration | None, traces: "Mapping[str, TraceTables]"
) -> list[Row]:
    """The table OWN_LOOPS in reading order; without a calibration of the device no floor is
    known.
    """
    by_device = {one.device: one for one in (calibration.ceilings if calibration else [])}
    # Kernels, copies and memsets per profiled call; the profiler's slowdown does not change them.
    # NaN on the CPU.
    launched = {
        each.variant.slug: sum(row["calls"] for row in each.rows(KERNELS, "calls"))
        / max(len(each.tables[STEPS]), 1)
        or math.nan
        for each in profiled(traces)
    }
    return [
        _row(
            record,
            by_device.get(record.as_variant().device),
            launched.get(record.variant, math.nan),
        )
        for record in in_reading_order(records)
        if brings_loop(record) and record.status == "ok"
    ]


def _row(record: Record, ceilings: Ceilings | None, launches: float) -> Row:
    variant = record.as_variant()
    passes = variant.steps_per_epoch or 1
    trainings_s = [
        statistics.median(epoch.wall_time_s for epoch in repetition.timed_epochs)
        for repetition in record.repetitions
    ]
    a_pass = summarise([_US * time_s / passes for time_s in trainings_s])
    floor_us = _floors_us(record, ceilings)
    reading_us = (
        _US * BYTES_OF_POINT * variant.batch_size / _copy_rate(ceilings)
        if built_in(record)
        else math.nan
    )
    errors = [each.reference_error for each in record.repetitions]
    known = [error for error in errors if error is not None]
    kind = max(floor_us, key=floor_us.__getitem__, default="")
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "device": variant.device,
        "optimization": variant.optimization,
        "is_bound": is_bound(variant.options),
        "points": variant.batch_size,
        "passes": passes,
        **summarise([_MS * time_s for time_s in trainings_s]).as_columns("training_ms"),
        **a_pass.as_columns("pass_us"),
        "work_per_pass": launches / passes,
        "bytes_per_point": work.bytes / work.samples if (work := _work(record)) else math.nan,
        "floor_us": floor_us.get(kind, math.nan),
        "floor": kind,
        "times_floor": a_pass.value / floor_us[kind] if kind else math.nan,
        "reading_us": reading_us,
        "readings": a_pass.value / reading_us,
        "learnt": ", ".join(
            f"{name} {value:.7g}" for name, value in record.repetitions[0].learnt.items()
        ),
        # NaN as soon as one process was not compared, or diverged.
        "reference_error": max(known) if len(known) == len(record.repetitions) else math.nan,
    }


def _floors_us(record: Record, ceilings: Ceilings | None) -> Mapping[str, float]:
    """Of a pass by what takes it; empty where its work was not counted, or the device was not
    calibrated.
    """
    work, peaks = (
        _work(record),
        peak_flops_per_s(ceilings, record.as_variant().precision) if ceilings else [],
    )
    if work is None or not peaks:
        return {}
    return {
        "memory": _US * work.bytes / _copy_rate(ceilings),
        "compute": _US * work.flops / summarise(peaks).value,
    }


def _work(record: Record) -> Work | None:
    return record.profile.work if record.profile else None


def _copy_rate(ceilings: Ceilings | None) -> float:
    return summarise(ceilings.copy_bytes_per_s).value if ceilings else math.nan
