"""What devices that share a training gain and lose against one plain process, and what their
communication costs.

records -> a row per variant that devices share -> weak efficiency X / (n X_1), strong speedup X /
X_b

X is the throughput of n devices together, X_1 that of one base with as many samples per step as
each of them has, X_b that of a plain process with the samples of all. There are two bases X_1: a
plain process measured in turn with each repetition, and one that was measured by itself.

records -> a shared variant and its bound, which exchanges no gradients -> time of communication
that nothing hides

A model in p parts, whose batch goes through in m micro-batches one behind the other, keeps each
device waiting for (p - 1) / (m + p - 1) of its time at least: the bubble (Huang et al., GPipe,
2019). The formula takes micro-batches to be free: it knows neither what sending activations takes,
nor parts that take unequal times, nor that small micro-batches fill a GPU less. What is measured
beside it is 1 - S / p, with the speedup S over the base that is measured in turn: one device that
goes through the samples of each device (all of them where the model is in parts) in as many parts.
Both sides then have micro-batches of one size, so that it holds the bubble, the sending and the
unequal parts, or the exchange of gradients, and not the size of the micro-batches.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import mul
from statistics import fmean, median
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.study.options import BUCKETS_MIB, OPTIONS, is_bound, joined, option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.study.variant import Variant
from gpu_report.tables.operations import profiled
from gpu_report.tables.processes import (
    are_comparable,
    over_base,
    quality_change,
    speedup,
    values_by_seed,
    values_of,
)
from gpu_report.tables.sessions import ONE_SESSION, Sessions
from gpu_report.tables.statistics import (
    DEVICE,
    NOT_MEASURED,
    VARIANT,
    WORKLOAD,
    BySeed,
    Summary,
    metric,
    ratio,
    summarise,
    summary_of,
)
from gpu_report.tables.variants import in_reading_order, records_by_variant
from gpu_report.traces.ranks import RANKS
from gpu_report.traces.tables import TraceTables

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
        *summary_of("strong_speedup"),
        *summary_of("strong_efficiency"),
        *summary_of("memory_allocated_most_mib"),
        text("quality_name", "The quality metric."),
        *summary_of("quality"),
        *summary_of("strong_quality_change"),
    ),
)


def tabulate_scaling(records: Iterable[Record], sessions: Sessions = ONE_SESSION) -> list[Row]:
    """The table SCALING in reading order; a comparison with what was not measured is missing.

    A base measured in turn is compared repetition by repetition, others by seed. Where a strategy
    does not divide the batch, each device has all samples: there is no weak efficiency, and the
    speedup over the base says what it gains.
    """
    measured = {
        slug: each for slug, each in records_by_variant(records).items() if each.status == "ok"
    }
    return [
        _row(record, record.as_variant(), measured, sessions)
        for record in in_reading_order(measured.values())
        if record.as_variant().strategy != SINGLE
    ]


def compared_with(variant: Variant, measured: Collection[str]) -> Row:
    """The columns about what a shared training is compared with, of the variants that were
    measured.
    """
    base = variant.base

    def found(one: Variant, *, is_wanted: bool) -> str:
        return one.slug if is_wanted and one.slug in measured else ""

    plain = found(base, is_wanted=variant.divides_batch)
    strong = found(replace(base, batch_size=variant.batch_size), is_wanted=variant.devices > 1)
    return {
        "batch_per_device": base.batch_size,
        "is_weak": variant.divides_batch and (bool(plain) or not strong),
        "is_strong": bool(strong),
        "plain_variant": plain,
        "strong_variant": strong,
    }


def _row(
    record: Record, variant: Variant, measured: Mapping[str, Record], sessions: Sessions
) -> Row:
    devices, compared = variant.devices, compared_with(variant, measured)
    plain, strong = (measured.get(compared[f"{base}_variant"]) for base in ("plain", "strong"))
    bases = [each.base for each in record.repetitions if each.base is not None]
    gained, over_strong = over_base(record), speedup(record, strong, sessions)
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
        "weak_efficiency_plain": _per_device(speedup(record, plain, sessions), devices),
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


def _per_device(gained: Summary, devices: int) -> Summary:
    return gained.mapped(lambda gain: gain / devices)


MODEL_SPLITS: Final = Table(
    name="model_splits",
    meaning=(
        "One row per measured variant that several devices share, where one plain process with "
        "the same batch was measured, too."
    ),
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text(
            "plain", "Name of the variant of the plain process, which takes its batch in one part."
        ),
        whole("micro_batches", "1", "Parts in which a step goes through its batch."),
        number(
            "bubble_share",
            "1",
            "Share of its time for which a device with a part of the model waits at least: (p - "
            "1) / (m + p - 1) of m micro-batches in p parts, 1 - 1 / p without a pipeline; "
            "missing where each device has a whole model.",
        ),
        *summary_of("speedup_over_one"),
        *summary_of("lost_share"),
        *summary_of("memory_saved_share"),
    ),
)


def tabulate_model_splits(
    records: Iterable[Record], sessions: Sessions = ONE_SESSION
) -> Iterator[Row]:
    """The table MODEL_SPLITS in reading order; bounds, which are no trainings, are left out."""
    by_variant = records_by_variant(records)
    for record in in_reading_order(by_variant.values()):
        variant = record.as_variant()
        if variant.strategy == SINGLE or is_bound(variant.options) or record.status != "ok":
            continue
        plain = by_variant.get(
            replace(variant.base, batch_size=variant.batch_size, accumulation=1).slug
        )
        if plain is not None and plain.status == "ok":
            peaks_mib = (values_by_seed(each, "memory_peak_mib") for each in (record, plain))
            memory = ratio(*peaks_mib) if are_comparable(record, plain) else NOT_MEASURED
            reached = _per_device(over_base(record), variant.devices)
            yield {
                "variant": variant.slug,
                "workload": variant.workload,
                "device": variant.device,
                "plain": plain.variant,
                "micro_batches": variant.accumulation,
                "bubble_share": bubble_share(variant),
                **speedup(record, plain, sessions).as_columns("speedup_over_one"),
                **reached.mapped(lambda share: 1 - share).as_columns("lost_share"),
                **memory.mapped(lambda share: 1 - share).as_columns("memory_saved_share"),
            }


def bubble_share(variant: Variant) -> float | None:
    """What a model in parts, one on each device, keeps each of them waiting; None where each has a
    whole model.
    """
    if variant.divides_batch:
        return None
    parts, micro_batches = variant.devices, variant.accumulation if variant.has_ranks else 1
    return (parts - 1) / (micro_batches + parts - 1)


COMMUNICATION: Final = Table(
    name="communication",
    meaning=(
        "One row per measured variant of DistributedDataParallel with a measured twin that sends "
        "neither gradients nor buffers: how much longer its steps take. Options of "
        "DistributedDataParallel alone may differ between the two."
    ),
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text("bound", "Name of the twin without communication."),
        whole("bucket_mib", "MiB", "Most gradients that are averaged at a time."),
        *summary_of("step_wall_ms"),
        *summary_of("step_bound_ms"),
        *summary_of("exposed_ms"),
        *summary_of("exposed_share"),
        metric("exposed_in_trace_ms"),
    ),
)

NO_COMMUNICATION: Final = "nocomm"


def tabulate_communication(
    records: Iterable[Record],
    traces: Mapping[str, TraceTables],
    sessions: Sessions = ONE_SESSION,
) -> Iterator[Row]:
    """The table COMMUNICATION in reading order: 1 - t_bound / t of the wall time per step, process
    by process, and that share of the mean step.

    The bound, a twin with the option nocomm, leaves out what DistributedDataParallel sends: the
    gradients to be averaged, and BatchNorm's buffers of rank 0. No timer of one rank gives the
    difference: NCCL's kernels run beside those that compute, take streaming multiprocessors from
    them, and wait for other ranks inside themselves. The comparison holds all of that. The trace's
    interval union, beside it, is the time in which a collective and no other kernel ran: what
    collectives slow down others by is not in it.
    """
    by_variant = records_by_variant(records)
    # Mean over ranks and profiled steps; on the CPU no kernel shows it.
    in_trace_ms = {
        each.variant.slug: fmean(
            [row["exposed_ms"] for row in each.rows(RANKS, "exposed_ms")] or [math.nan]
        )
        for each in profiled(traces)
        if each.variant.device_type != "cpu"
    }
    for record in in_reading_order(by_variant.values()):
        variant = record.as_variant()
        names = option_names(variant.options)
        if variant.strategy != "ddp" or NO_COMMUNICATION in names:
            continue
        kept = [name for name in names if not OPTIONS[name].ddp_only]
        bound = by_variant.get(replace(variant, options=joined([*kept, NO_COMMUNICATION])).slug)
        if (
            bound is not None
            and record.status == bound.status == "ok"
            and are_comparable(record, bound)
        ):
            steps_ms, bounds_ms = _steps_ms(record), _steps_ms(bound)
            # One side may have fewer processes, by a time budget.
            pairs = [
                {seed: one[seed] for seed in steps_ms if seed in bounds_ms}
                for one in (bounds_ms, steps_ms)
            ]
            spread = sessions.between(record, bound, *pairs)
            share = ratio(*pairs, spread=spread).mapped(lambda rest: 1 - rest)
            step_ms = summarise([*pairs[1].values()]).value
            buckets_mib = [BUCKETS_MIB[name] for name in names if name in BUCKETS_MIB]
            yield {
                "variant": variant.slug,
                "workload": variant.workload,
                "device": variant.device,
                "bound": bound.variant,
                "bucket_mib": next(iter(buckets_mib), 25),  # 25: DDP's without an option
                **summarise([*steps_ms.values()]).as_columns("step_wall_ms"),
                **summarise([*bounds_ms.values()]).as_columns("step_bound_ms"),
                **share.mapped(partial(mul, step_ms)).as_columns("exposed_ms"),
                **share.as_columns("exposed_share"),
                "exposed_in_trace_ms": in_trace_ms.get(record.variant, math.nan),
            }


def _steps_ms(record: Record) -> BySeed:
    """Wall time of an epoch over its steps, the median over the timed epochs of each process."""
    samples = record.as_variant().batch_size
    return {
        begin: 1e3 * samples / per_s
        for begin, per_s in values_by_seed(record, "throughput_per_s").items()
    }
