"""How near a training comes to what its device reaches at most: the roofline of Williams, Waterman
and Patterson.

Record's work x throughput per device -> achieved FLOP/s
calibration -> peak and copy rate -> roof = min(peak, intensity x copies)

S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for
multicore architectures, Communications of the ACM 52 (2009).
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.calibration import Calibration, Ceilings
from gpu_report.records.record import Record, Work
from gpu_report.storage.columns import Table, number, text
from gpu_report.study.options import is_bound
from gpu_report.study.strategies import SINGLE
from gpu_report.study.variant import Variant
from gpu_report.tables.column_kinds import DEVICE, VARIANT, WORKLOAD, summary_of
from gpu_report.tables.marks import SEPARATOR
from gpu_report.tables.processes import brings_loop, values_by_seed
from gpu_report.tables.statistics import BySeed, ratio, summarise
from gpu_report.tables.variants import in_reading_order

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
            "flops_per_sample", "FLOP", "Floating-point operations per training sample, as counted."
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
            "The lower of peak and intensity times the device's copy rate.",
        ),
        number(
            "share_of_roof",
            "1",
            "achieved over roof; missing where it is passed, as fused operations move less.",
        ),
        text("roof", "'compute' or 'memory': which of the two is lower."),
        text("uncounted", "Operators without a formula, separated by semicolons; empty if none."),
    ),
)

_COMPUTE: Final = "compute"
_MEMORY: Final = "memory"


def tabulate_efficiency(records: Iterable[Record], calibration: Calibration | None) -> list[Row]:
    """The table EFFICIENCY in reading order.

    A variant is left out where it was not measured, its step was not counted or did nothing that
    counts; where it is a bound, its ranks share a CPU, or it splits its model or its weights
    (FSDP2), so that the bytes are not those of one device; where a loop of the workload's own
    trains it, which has a floor instead; or where the calibration lacks its device or its
    precision. A training can pass its roof: a compiled step, or caches, spare it bytes that the
    eager operators are counted with.
    """
    by_device = {one.device: one for one in (calibration.ceilings if calibration else [])}
    rows = []
    for record in in_reading_order(records):
        variant, work = record.as_variant(), _work(record)
        ceilings = by_device.get(variant.device)
        peaks = peak_flops_per_s(ceilings, variant.precision) if ceilings else []
        is_whole = variant.strategy == SINGLE or (
            variant.strategy == "ddp" and variant.device_type != "cpu"
        )
        if (
            not (is_whole and ceilings and peaks and work)
            or is_bound(variant.options)
            or brings_loop(record)
        ):
            continue
        rows.append(
            _row(variant, work, values_by_seed(record, "throughput_per_s"), peaks, ceilings)
        )
    return rows


def peak_flops_per_s(ceilings: Ceilings, precision: str) -> list[float]:
    """Rate of matrix products in this precision, one per process; none where it was not measured.

    The products of a training under autocast are in its short format, so that its peak is that
    format's own.
    """
    return next(
        (one.flops_per_s for one in ceilings.matrix_products if one.precision == precision), []
    )


def _work(record: Record) -> Work | None:
    work = record.profile.work if record.profile and record.status == "ok" else None
    return work if work and work.flops >= 1 and work.bytes >= 1 else None


def _row(
    variant: Variant, work: Work, throughput_per_s: BySeed, peaks: list[float], ceilings: Ceilings
) -> Row:
    flops_per_sample, intensity = work.flops / work.samples, work.flops / work.bytes
    achieved = {
        seed: flops_per_sample * speed / variant.devices for seed, speed in throughput_per_s.items()
    }
    achieved_flops_per_s = summarise([*achieved.values()])
    peak = summarise(peaks).value
    memory_roof = intensity * summarise(ceilings.copy_bytes_per_s).value
    roof = min(peak, memory_roof)
    of_peak = ratio(achieved, dict(enumerate(peaks)))
    of_roof = achieved_flops_per_s.value / roof
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "device": variant.device,
        "precision": variant.precision,
        "optimization": variant.optimization,
        "flops_per_sample": flops_per_sample,
        "bytes_per_sample": work.bytes / work.samples,
        "intensity": intensity,
        **achieved_flops_per_s.as_columns("achieved_flops_per_s"),
        "peak_flops_per_s": peak,
        **replace(of_peak, high=min(of_peak.high, max(1.0, of_peak.value))).as_columns(
            "share_of_peak"
        ),
        "roof_flops_per_s": roof,
        "share_of_roof": of_roof if of_roof <= 1 else math.nan,
        "roof": _COMPUTE if peak <= memory_roof else _MEMORY,
        "uncounted": SEPARATOR.join(work.uncounted_operators),
    }
