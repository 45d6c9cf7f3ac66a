"""How near a training comes to what its device reaches at most: the roofline of Williams, Waterman
and Patterson, as a rate, and for custom training loops as the bound of an iteration.

Record's work x throughput per device -> achieved FLOP/s
calibration -> peak and copy rate -> roof = min(peak, intensity x copies)
                                  -> floor of an iteration = max(bytes / copy rate, FLOPs / peak)

S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for
multicore architectures, Communications of the ACM 52 (2009).
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gpu_report.glossary import Row
from gpu_report.records.calibration import Calibration, Ceilings
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.study.options import is_bound, option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.tables.marks import SEPARATOR
from gpu_report.tables.operations import profiled
from gpu_report.tables.processes import brings_loop, flops_per_sample, values_by_seed
from gpu_report.tables.statistics import (
    DEVICE,
    VARIANT,
    WORKLOAD,
    ratio,
    summarise,
    summary_of,
)
from gpu_report.tables.variants import in_reading_order
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables

EFFICIENCY: Final = Table(
    name="efficiency",
    meaning=(
        "One row per variant whose step was counted, on a device that was calibrated: how near to "
        "its ceilings. Where several devices share the training, how near each of them is on "
        "average."
    ),
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text("precision", "Precision of the training's arithmetic."),
        text("optimization", "As in the table of variants."),
        number(
            "flops_per_sample",
            "FLOP",
            "Floating-point operations per training sample: by the workload's formula, else as "
            "counted.",
        ),
        number(
            "bytes_per_sample",
            "B",
            "Bytes that the eager operators read and write per training sample.",
        ),
        number("intensity", "FLOP/B", "Arithmetic intensity: the former over the latter."),
        *summary_of("achieved_flops_per_s"),
        number(
            "peak_flops_per_s",
            "FLOP/s",
            "Matrix products in the variant's precision on this device.",
        ),
        *summary_of("share_of_peak"),
        number(
            "roof_flops_per_s",
            "FLOP/s",
            "The lower of peak and intensity times the device's copy rate; missing for compiled "
            "code.",
        ),
        number(
            "share_of_roof",
            "1",
            "achieved over roof; missing where it is passed, as fused operations move less.",
        ),
        text("roof", "'compute' or 'memory': which of the two is lower; empty for compiled code."),
        text("uncounted", "Operators without a formula, separated by semicolons; empty if none."),
    ),
)


def tabulate_efficiency(
    records: Iterable[Record], calibration: Calibration | None
) -> Iterator[Row]:
    """The table EFFICIENCY in reading order.

    A variant is left out where it was not measured, its step was not counted or did nothing that
    counts; where it is a bound, its ranks share a CPU, or it splits its model or its weights
    (FSDP2), so that the bytes are not those of one device; where some layers compute in FP8, so
    that no one peak holds; where a loop of the workload's own trains it, which has a floor instead;
    or where the calibration lacks its device or its precision. A training can pass its roof: caches
    spare it bytes that the eager operators are counted with. A compiled step, which is spared most
    of them, has no roof.
    """
    by_device = {one.device: one for one in (calibration.ceilings if calibration else [])}
    for record in in_reading_order(records):
        variant = record.as_variant()
        work = record.profile.work if record.profile and record.status == "ok" else None
        ceilings = by_device.get(variant.device)
        peaks = peak_flops_per_s(ceilings, variant.precision) if ceilings else []
        is_whole = variant.strategy == SINGLE or (
            variant.strategy == "ddp" and variant.device_type != "cpu"
        )
        if (
            not (is_whole and ceilings and peaks and work and min(work.flops, work.bytes) >= 1)
            or is_bound(variant.options)
            or "fp8" in variant.options
            or brings_loop(record)
        ):
            continue
        needed, intensity = flops_per_sample(record), work.flops / work.bytes
        needed = work.flops / work.samples if math.isnan(needed) else needed
        achieved = {
            seed: needed * speed / variant.devices
            for seed, speed in values_by_seed(record, "throughput_per_s").items()
        }
        achieved_flops_per_s = summarise([*achieved.values()])
        peak = summarise(peaks).value
        memory_roof = intensity * summarise(ceilings.copy_bytes_per_s).value
        # Kernels that torch.compile fuses move fewer bytes than the operators that were counted.
        is_fused = "compile" in option_names(variant.options)
        roof = math.nan if is_fused else min(peak, memory_roof)
        of_peak = ratio(achieved, dict(enumerate(peaks)))
        of_roof = achieved_flops_per_s.value / roof
        yield {
            "variant": variant.slug,
            "workload": variant.workload,
            "device": variant.device,
            "precision": variant.precision,
            "optimization": variant.optimization,
            "flops_per_sample": needed,
            "bytes_per_sample": work.bytes / work.samples,
            "intensity": intensity,
            **achieved_flops_per_s.as_columns("achieved_flops_per_s"),
            "peak_flops_per_s": peak,
            **replace(of_peak, high=min(of_peak.high, max(1.0, of_peak.value))).as_columns(
                "share_of_peak"
            ),
            "roof_flops_per_s": roof,
            "share_of_roof": of_roof if of_roof <= 1 else math.nan,
            "roof": "" if is_fused else "compute" if peak <= memory_roof else "memory",
            "uncounted": SEPARATOR.join(work.uncounted_operators),
        }


def peak_flops_per_s(ceilings: Ceilings, precision: str) -> list[float]:
    """Rate of matrix products in this precision, one per process; none where it was not measured.

    The products of a training under autocast are in its short format, so that its peak is that
    format's own.
    """
    product = ceilings.peaks.get(precision)
    return product.flops_per_s if product else []


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
        number("times_floor", "1", "pass_us over floor_us; below 1 where caches hold the points."),
        text("final_parameters", "What the first process ended with, by name."),
        number(
            "reference_error",
            "1",
            "Largest relative error of parameters and losses in any process, against float64.",
        ),
    ),
)

_AXES: Final = ("optimization", "batch_size")
"""Along which loops of a workload's own are compared in figures and findings of their own."""

_US: Final = 1e6


def compares_own_loops(rows: Sequence[Mapping[str, Any]], axis: str) -> bool:
    """Whether an experiment is about loops that its workloads bring: all of its measured variants
    were trained by one.

    What the others bring may not be known; they decide where none was measured.
    """
    if axis not in _AXES or not rows:
        return False
    return all(row["begins_anew"] for row in [row for row in rows if row["status"] == "ok"] or rows)


def tabulate_own_loops(
    records: Iterable[Record], calibration: Calibration | None, traces: Mapping[str, TraceTables]
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
        _loop_row(
            record,
            by_device.get(record.as_variant().device),
            launched.get(record.variant, math.nan),
        )
        for record in in_reading_order(records)
        if brings_loop(record) and record.status == "ok"
    ]


def _loop_row(record: Record, ceilings: Ceilings | None, launches: float) -> Row:
    variant = record.as_variant()
    passes = variant.steps_per_epoch or 1
    trainings_s = [
        statistics.median(epoch.wall_time_s for epoch in repetition.timed_epochs)
        for repetition in record.repetitions
    ]
    a_pass = summarise([_US * time_s / passes for time_s in trainings_s])
    work = record.profile.work if record.profile else None
    peaks = peak_flops_per_s(ceilings, variant.precision) if ceilings else []
    floor_us = math.nan  # where its work was not counted, or the device was not calibrated
    if work and ceilings and peaks:
        copying_s = work.bytes / summarise(ceilings.copy_bytes_per_s).value
        floor_us = _US * max(copying_s, work.flops / summarise(peaks).value)
    known = [
        each.reference_error for each in record.repetitions if each.reference_error is not None
    ]
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "device": variant.device,
        "optimization": variant.optimization,
        "is_bound": is_bound(variant.options),
        "points": variant.batch_size,
        "passes": passes,
        **summarise([1e3 * time_s for time_s in trainings_s]).as_columns("training_ms"),
        **a_pass.as_columns("pass_us"),
        "work_per_pass": launches / passes,
        "bytes_per_point": work.bytes / work.samples if work else math.nan,
        "floor_us": floor_us,
        "times_floor": a_pass.value / floor_us,
        "final_parameters": ", ".join(
            f"{name} {value:.7g}" for name, value in record.repetitions[0].learnt.items()
        ),
        # Missing as soon as one process was not compared, or diverged.
        "reference_error": max(known) if len(known) == len(trainings_s) else math.nan,
    }
