"""What devices gain that share a training, over one plain process: with the samples of one device,
or with all of them.

records -> a row per variant that devices share -> weak efficiency X / (n X_1), strong speedup X /
X_b

X is the throughput of n devices together, X_1 that of one base with as many samples per step as
each of them has, X_b that of a plain process with the samples of all. There are three bases X_1: a
plain process measured in turn with each repetition, one that was measured by itself, and
DistributedDataParallel on one device.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from statistics import median
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.study.strategies import SINGLE
from gpu_report.study.variant import Variant
from gpu_report.tables.column_kinds import DEVICE, VARIANT, WORKLOAD, summary_of
from gpu_report.tables.pairs import over_base, quality_change, speedup
from gpu_report.tables.processes import values_of
from gpu_report.tables.statistics import Summary, summarise
from gpu_report.tables.variants import in_reading_order, records_by_variant

SCALING: Final = Table(
    name="scaling_efficiency",
    meaning="One row per variant that devices share and that was measured: what they gain over "
    "one plain process.",
    columns=(
        VARIANT,
        WORKLOAD,
        text("size", "Size of the model or its input; 'default' where there is one only."),
        DEVICE,
        text("precision", "Precision of the training's arithmetic."),
        text("optimization", "As in the table of variants."),
        text(
            "strategy",
            "How devices share the training, by the names of gpu_report.study.strategies.",
        ),
        whole("devices", "1", "Devices that share it."),
        whole("batch_size", "1", "Training samples per step, of all devices together."),
        whole(
            "batch_per_device",
            "1",
            "Those that one device has; all of them where the strategy divides no batch.",
        ),
        flag(
            "is_weak",
            "Compared at equal samples per device; also where no other comparison was measured.",
        ),
        flag(
            "is_strong",
            "Compared at equal samples per step of all devices: strong_variant was measured.",
        ),
        text(
            "plain_variant",
            "The plain process with the samples of one device; empty where it was not measured.",
        ),
        text(
            "ddp1_variant",
            "DistributedDataParallel on one device with these; empty where it was not measured.",
        ),
        text(
            "strong_variant",
            "The plain process with the samples of all; empty where it was not measured.",
        ),
        whole(
            "agents",
            "1",
            "torchrun's agents that started its ranks; 0 of a strategy without ranks.",
        ),
        whole("hosts", "1", "Hosts that these ran on."),
        number(
            "threads",
            "1",
            "Of each rank, and of the base measured in turn; missing without such a base.",
        ),
        *summary_of("throughput_per_s"),
        *summary_of("throughput_per_device_per_s"),
        *summary_of("step_time_ms"),
        *summary_of("base_throughput_per_s"),
        *summary_of("base_step_time_ms"),
        *summary_of("base_speedup"),
        *summary_of("weak_efficiency"),
        *summary_of("weak_efficiency_plain"),
        *summary_of("weak_efficiency_ddp1"),
        *summary_of("strong_speedup"),
        *summary_of("strong_efficiency"),
        *summary_of("memory_allocated_most_mib"),
        text("quality_name", "The quality metric."),
        *summary_of("quality"),
        *summary_of("strong_quality_change"),
    ),
)


def tabulate_scaling(records: Iterable[Record]) -> list[Row]:
    """The table SCALING in reading order; a comparison with what was not measured is missing.

    A base measured in turn is compared repetition by repetition, others by seed. Where a strategy
    does not divide the batch, each device has all samples: there is no weak efficiency, and the
    speedup over the base says what it gains.
    """
    measured = {
        slug: each for slug, each in records_by_variant(records).items() if each.status == "ok"
    }
    return [
        _row(record, record.as_variant(), measured)
        for record in in_reading_order(measured.values())
        if record.as_variant().strategy != SINGLE
    ]


def compared_with(variant: Variant, measured: Collection[str]) -> Row:
    """The columns about what a shared training is compared with, of the variants that were
    measured.
    """
    base, is_shared = variant.base, variant.devices > 1

    def found(one: Variant, *, is_wanted: bool) -> str:
        return one.slug if is_wanted and one.slug in measured else ""

    plain = found(base, is_wanted=variant.divides_batch)
    strong = found(replace(base, batch_size=variant.batch_size), is_wanted=is_shared)
    return {
        "batch_per_device": base.batch_size,
        "is_weak": variant.divides_batch and (bool(plain) or not strong),
        "is_strong": bool(strong),
        "plain_variant": plain,
        "ddp1_variant": found(
            replace(base, strategy="ddp", devices=1), is_wanted=variant.divides_batch and is_shared
        ),
        "strong_variant": strong,
    }


def _row(record: Record, variant: Variant, measured: Mapping[str, Record]) -> Row:
    devices, compared = variant.devices, compared_with(variant, measured)
    plain, ddp1, strong = (
        measured.get(compared[f"{base}_variant"]) for base in ("plain", "ddp1", "strong")
    )
    bases = [each.base for each in record.repetitions if each.base is not None]
    gained, over_strong = over_base(record), speedup(record, strong)
    efficiency = gained if variant.divides_batch else summarise([])
    throughputs = values_of(record, "throughput_per_s")
    facts = record.workload
    ranks = record.repetitions[0].ranks
    summaries = {
        "throughput_per_s": summarise(throughputs),
        "throughput_per_device_per_s": summarise([value / devices for value in throughputs]),
        "step_time_ms": summarise(values_of(record, "step_time_ms")),
        "base_throughput_per_s": summarise([base.throughput_per_s for base in bases]),
        "base_step_time_ms": summarise(
            [
                median(
                    chain.from_iterable(
                        epoch.step_times_ms for epoch in base.epochs[base.warm_up_epochs :]
                    )
                )
                for base in bases
            ]
        ),
        "base_speedup": gained,
        "weak_efficiency": _per_device(efficiency, devices),
        "weak_efficiency_plain": _per_device(speedup(record, plain), devices),
        "weak_efficiency_ddp1": _per_device(speedup(record, ddp1), devices),
        "strong_speedup": over_strong,
        "strong_efficiency": _per_device(over_strong, devices),
        "memory_allocated_most_mib": summarise(values_of(record, "memory_peak_mib")),
        "quality": summarise(values_of(record, "quality"), scale="share"),
        "strong_quality_change": quality_change(record, strong),
    }
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "size": variant.size,
        "device": variant.device,
        "precision": variant.precision,
        "optimization": variant.optimization,
        "strategy": variant.strategy,
        "devices": devices,
        "batch_size": variant.batch_size,
        **compared,
        "agents": len({rank.agent for rank in ranks}),
        "hosts": len({rank.host for rank in ranks}),
        "threads": next((base.threads for base in bases), math.nan),
        "quality_name": facts.quality_name if facts else "",
        **{
            column: value
            for name, found in summaries.items()
            for column, value in found.as_columns(name).items()
        },
    }


def _per_device(found: Summary, devices: int) -> Summary:
    return replace(
        found, value=found.value / devices, low=found.low / devices, high=found.high / devices
    )
