"""The table of all variants: one row each, whether it was measured or not; and machines side by
side: each variant that others measured too, against the first machine.

Record -> process_values -> Summary per metric -> row
records of each machine -> pairs of records of one variant -> ratio of throughputs, and what else
differs between them

The ratio is between machines. It never enters a speedup, which compares variants within one
machine.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gpu_report.errors import RecordError
from gpu_report.glossary import PER_PROCESS, PRECISIONS, Row
from gpu_report.records.provenance import measures_alike
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.options import OPTIONS, option_names
from gpu_report.study.strategies import STRATEGIES
from gpu_report.study.study import Prices
from gpu_report.study.variant import Variant
from gpu_report.tables.marks import MEANINGS, SEPARATOR, Today, marks_of
from gpu_report.tables.processes import (
    brings_loop,
    class_of,
    data_sheet_flops_per_s,
    flops_per_sample,
    is_impossible,
    is_projected,
    loss_scale_last,
    optimizer_steps,
    other_software,
    preparation_cold_s,
    process_values,
    protocol_version,
    same_class,
    skipped_steps,
    speedup,
    values_of,
)
from gpu_report.tables.sessions import ONE_SESSION, SESSION, Sessions
from gpu_report.tables.statistics import (
    DEVICE,
    VARIANT,
    WORKLOAD,
    Summary,
    metric,
    summarise,
    summary,
    summary_of,
)

VARIANTS: Final = Table(
    name="variants",
    meaning="One row per variant of the study.",
    columns=(
        VARIANT,
        WORKLOAD,
        text("workload_title", "Its name for readers."),
        text("size", "Size of the model or its input; 'default' where there is one only."),
        DEVICE,
        whole("batch_size", "1", "Training samples per step."),
        whole("workers", "1", "DataLoader workers; 0 loads in the training process."),
        whole("accumulation", "1", "Parts of equal size in which a step goes through its batch."),
        text("precision", "Precision of the training's arithmetic."),
        text(
            "options",
            "What is switched on, by the names of gpu_report.study.options; 'none' without.",
        ),
        text(
            "strategy",
            "How devices share the training, by the names of gpu_report.study.strategies.",
        ),
        whole("devices", "1", "Devices that share it."),
        text(
            "parallelism",
            "Strategy and number of devices in one name, as 'ddp2'; 'single' for one plain "
            "process.",
        ),
        text(
            "optimization",
            "Workers, accumulation and options in one name; 'none' for the eager baseline. In the "
            "table of an experiment through precisions the name begins with the precision.",
        ),
        whole("epochs", "1", "Epochs trained, the first included."),
        number(
            "steps_per_epoch", "1", "Steps of an epoch; missing where it is the whole training set."
        ),
        number(
            "optimizer_steps",
            "1",
            "Steps of all these epochs together; missing unless the status is ok.",
        ),
        whole("seed", "1", "Seed of the first process."),
        flag(
            "begins_anew",
            "Every epoch and every profiled step is a whole training by a custom training loop.",
        ),
        text("status", "ok, oom, failed or skipped."),
        text(
            "reason",
            "Why there is no measurement, or no profile where the status is ok; else empty.",
        ),
        text("marks", "Quality flags, separated by semicolons; empty if none."),
        metric("parameters"),
        text(
            "flops_source",
            "What mfu rests on: the workload's formula with its numbers, or 'counted', the "
            "operations of an eager step; empty where neither is known. It says 'refused' where "
            "the mfu would be above 1: the operations are counted too high, or the training "
            "computes in another precision than its configuration says.",
        ),
        number(
            "data_sheet_flops_per_s",
            "FLOP/s",
            "What the data sheet gives in the training's precision for all of its devices; missing "
            "with FP8, where layers differ in precision.",
        ),
        whole("processes", "1", "Fresh processes that trained to the end."),
        *(column for name in PER_PROCESS for column in summary_of(name)),
        flag(
            "epoch_time_projected",
            "epoch_time_s follows from epochs that were not the whole training set.",
        ),
        text("quality_name", "The quality metric; empty where the workload could not be built."),
        number("quality_chance", "1", "Quality that guessing without looking reaches."),
        text("quality_better", "'higher' or 'lower': which values of it are better."),
        text(
            "memory_kind",
            "'allocator' (device memory) or 'resident set' (main memory), of the process.",
        ),
        metric("profile_overhead"),
        text("measured_at", "UTC, ISO 8601."),
        SESSION,
        text("commit", "Commit of the project that measured; empty where it is not known."),
        text(
            "commit_state",
            "'clean', or 'with changes' where files differed from it; empty where it is not known.",
        ),
        text("code_digest", "SHA-256 of the code that measures."),
        text("trace_sha256", "SHA-256 of the profiler's trace; empty without one."),
        text("torch", "Version of PyTorch that measured; empty where it is not known."),
        whole("protocol_version", "1", "Version of the protocol by which it was measured."),
        metric("preparation_cold_s"),
        metric("skipped_steps"),
        metric("loss_scale_last"),
        metric("memory_reserved_mib"),
        metric("memory_fragmented_mib"),
        metric("allocator_retries"),
        number("device_memory_mib", "MiB", "Memory that the device has; missing on the CPU."),
        number(
            "memory_asked_mib",
            "MiB",
            "Size of the allocation that failed; missing unless the status is oom.",
        ),
        number(
            "memory_free_mib",
            "MiB",
            "Memory of the device that was free then; missing unless the status is oom.",
        ),
        metric("energy_per_epoch_j"),
        number(
            "cost_per_epoch",
            "1",
            "Money for one epoch at the configured prices, in currency; missing without a price.",
        ),
        text("currency", "Currency of cost_per_epoch; empty without a price."),
        number(
            "price_per_kwh",
            "1",
            "Configured price of electricity, in cost_per_epoch; missing without one.",
        ),
        number(
            "price_per_device_hour",
            "1",
            "Of an hour of the machine with one GPU; missing as the one before.",
        ),
    ),
)

NO_PRICES: Final = Prices()
_JOULES_PER_KWH: Final = 3.6e6
_SECONDS_PER_HOUR: Final = 3600.0


def tabulate_variants(
    records: Iterable[Record],
    *,
    today: Today,
    prices: Prices = NO_PRICES,
    sessions: Sessions = ONE_SESSION,
) -> list[Row]:
    """The table VARIANTS in reading order, whatever the order of the records.

    The cost of an epoch is its energy and the device's time at the prices given; it is missing
    where neither is given, and where energy has a price and was not measured, as on the CPU.

    Raises:
        RecordError: two records are of one variant.
    """
    return [
        variant_row(record, today=today, prices=prices, sessions=sessions)
        for record in in_reading_order(records_by_variant(records).values())
    ]


def variant_row(
    record: Record,
    *,
    today: Today,
    prices: Prices = NO_PRICES,
    reference: Record | None = None,
    sessions: Sessions = ONE_SESSION,
) -> Row:
    """One row of the table VARIANTS; its numbers are NaN unless the status is ok, but for memory.

    `reference` is the record it is compared with, which may have been measured with other software,
    or in another of the machine's sessions.
    """
    values, variant, facts = process_values(record), record.as_variant(), record.workload
    ours = BUILT_IN_WORKLOADS.get(variant.workload)
    known_title = ours.title if ours else variant.workload
    formula = facts.flops_formula if facts else ""
    source = formula or ("" if math.isnan(flops_per_sample(record)) else "counted")
    summaries = {
        name: summarise(values[name], scale=figure.scale) for name, figure in PER_PROCESS.items()
    }
    marks = marks_of(
        record, summaries["throughput_per_s"], today, reference=reference, sessions=sessions
    )
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "size": variant.size,
        "device": variant.device,
        "batch_size": variant.batch_size,
        "workers": variant.workers,
        "accumulation": variant.accumulation,
        "precision": variant.precision,
        "options": variant.options,
        "strategy": variant.strategy,
        "devices": variant.devices,
        "parallelism": variant.parallelism,
        "optimization": variant.optimization,
        "epochs": variant.epochs,
        "steps_per_epoch": variant.steps_per_epoch,
        "seed": variant.seed,
        "memory_kind": record.repetitions[0].memory_kind if record.repetitions else "",
        "workload_title": facts.title if facts else known_title,
        "parameters": facts.parameters if facts else math.nan,
        "flops_source": f"refused, above the data sheet's peak: {source}"
        if is_impossible(record)
        else source,
        "data_sheet_flops_per_s": data_sheet_flops_per_s(record),
        "quality_name": facts.quality_name if facts else "",
        "quality_chance": facts.quality_chance if facts else math.nan,
        "quality_better": facts.quality_better if facts else "higher",
        "optimizer_steps": optimizer_steps(record),
        "begins_anew": brings_loop(record),
        "status": record.status,
        "reason": record.reason,
        "marks": SEPARATOR.join(marks),
        "processes": len(record.repetitions),
        **{
            column: value
            for name in PER_PROCESS
            for column, value in summaries[name].as_columns(name).items()
        },
        "epoch_time_projected": record.status == "ok" and is_projected(record),
        "profile_overhead": record.profile_overhead,
        "measured_at": record.provenance.measured_at,
        "session": sessions.numbers.get(record.provenance.measured_at, 1),
        "commit": record.provenance.git_commit or "",
        "commit_state": {None: "", False: "clean", True: "with changes"}[
            record.provenance.git_dirty
        ],
        "code_digest": record.provenance.code_digest,
        "trace_sha256": record.profile.trace_sha256 if record.profile else "",
        "torch": str(record.environment.get("torch") or ""),
        "protocol_version": protocol_version(record),
        "preparation_cold_s": preparation_cold_s(record),
        "skipped_steps": skipped_steps(record),
        "loss_scale_last": loss_scale_last(record),
        **_device_memory(record),
        **_energy_and_cost(record, summaries, prices),
    }


def records_by_variant(records: Iterable[Record]) -> dict[str, Record]:
    """Each record under its variant's name.

    Raises:
        RecordError: two records are of one variant, for instance of two machines.
    """
    by_variant: dict[str, Record] = {}
    for record in records:
        known = by_variant.setdefault(record.variant, record)
        if known is not record:
            raise RecordError(
                f"variant {record.variant} has two records, of machines {known.machine} and "
                f"{record.machine}; "
                "give the records of one machine"
            )
    return by_variant


def in_reading_order(records: Iterable[Record]) -> list[Record]:
    """Ordered by workload, size from small to large, device with the CPU first, then the other
    axes.
    """
    return sorted(records, key=lambda record: _reading_key(record.as_variant()))


def _reading_key(variant: Variant) -> tuple[Any, ...]:
    built_in = BUILT_IN_WORKLOADS.get(variant.workload)
    sizes = built_in.sizes if built_in else ()
    return (
        variant.workload,
        _position(variant.size, sizes),
        variant.size,
        variant.device != "cpu",
        variant.device,
        variant.batch_size,
        _position(variant.precision, PRECISIONS),
        variant.precision,
        variant.workers,
        variant.accumulation,
        [list(OPTIONS).index(name) for name in option_names(variant.options)],
        list(STRATEGIES).index(variant.strategy),
        variant.devices,
        variant.epochs,
        variant.steps_per_epoch or math.inf,
        variant.seed,
    )


def _position(value: str, order: Sequence[str]) -> int:
    return order.index(value) if value in order else len(order)


def _device_memory(record: Record) -> Row:
    allocator, failed = record.profile and record.profile.allocator, record.out_of_memory
    installed_gib = record.environment.get("accelerator_memory_gib")
    known_mib = 1024 * installed_gib if isinstance(installed_gib, int | float) else math.nan
    return {
        "memory_reserved_mib": allocator.reserved_peak_mib if allocator else math.nan,
        "memory_fragmented_mib": allocator.inactive_split_peak_mib if allocator else math.nan,
        "allocator_retries": allocator.retries if allocator else math.nan,
        "device_memory_mib": math.nan
        if record.as_variant().device_type == "cpu"
        else failed.total_mib
        if failed
        else known_mib,
        "memory_asked_mib": failed.asked_mib if failed else None,
        "memory_free_mib": failed.free_mib if failed else None,
    }


def _energy_and_cost(record: Record, summaries: Mapping[str, Summary], prices: Prices) -> Row:
    samples = record.workload.train_samples if record.workload else math.nan
    energy_j = summaries["energy_per_sample_j"].value * samples
    device_s = record.as_variant().devices * summaries["epoch_time_s"].value
    is_priced = (prices.per_kwh, prices.per_device_hour) != (None, None)
    return {
        "energy_per_epoch_j": energy_j,
        "cost_per_epoch": cost_of(prices, energy_j=energy_j, device_s=device_s),
        "currency": prices.currency if is_priced else "",
        "price_per_kwh": prices.per_kwh,
        "price_per_device_hour": prices.per_device_hour,
    }


def cost_of(prices: Prices, *, energy_j: float, device_s: float) -> float:
    """What this energy and this time of a device cost, as far as they have a price; NaN where
    neither has, and where energy has one and was not measured.
    """
    parts = [
        price * amount
        for price, amount in (
            (prices.per_kwh, energy_j / _JOULES_PER_KWH),
            (prices.per_device_hour, device_s / _SECONDS_PER_HOUR),
        )
        if price is not None
    ]
    return sum(parts) if parts else math.nan


COMPARISON: Final = Table(
    name="comparison",
    meaning="One row per variant that two machines measured, and pair of them; the ratio is "
    "between machines.",
    columns=(
        VARIANT,
        WORKLOAD,
        text("workload_title", "Its name for readers."),
        DEVICE,
        text("machine", "The machine that is compared."),
        text(
            "reference_machine",
            "The machine it is compared with, the first in the report's order that has it.",
        ),
        *summary("throughput_per_s", "1/s", "Training samples per second on the machine"),
        *summary(
            "reference_throughput_per_s",
            "1/s",
            "Training samples per second on the reference machine",
        ),
        *summary("ratio", "1", "The former over the latter"),
        number(
            "busy_share",
            "1",
            "Share of a timed step in which the GPU had work, on the machine where it is less; "
            "empty without a reliable trace of both.",
        ),
        text(
            "differences",
            "What else differs, such as 'PyTorch 2.11.0 and 2.15.0' or 'protocol 1 and 2'; or "
            "empty.",
        ),
        text(
            "marks", "Quality flags of either measurement, separated by semicolons; empty if none."
        ),
    ),
)


def tabulate_comparison(
    records_by_machine: Mapping[str, Sequence[Record]],
    *,
    today: Today,
    busy_shares: Mapping[str, Mapping[str, float]],
) -> list[Row]:
    """The table COMPARISON of the variants that the first machine and another measured to the end,
    in reading order; `busy_shares` are those of their traces, by machine and variant.

    Raises:
        RecordError: a machine has two records of one variant.
    """
    measured = {
        machine: {
            slug: record
            for slug, record in records_by_variant(records).items()
            if record.status == "ok"
        }
        for machine, records in records_by_machine.items()
    }
    if not measured:
        return []
    (reference, own), *others = measured.items()
    return [
        {
            **_comparison_row(machine, records[slug], reference, record, today),
            # Missing where either is.
            "busy_share": float(
                np.min([busy_shares[each].get(slug, math.nan) for each in (machine, reference)])
            ),
        }
        for record in in_reading_order(list(own.values()))
        for machine, records in others
        if (slug := record.variant) in records
    ]


def _comparison_row(
    machine: str, record: Record, reference_machine: str, reference: Record, today: Today
) -> Row:
    variant, facts = record.as_variant(), record.workload
    throughput, reference_throughput = (
        summarise(values_of(each, "throughput_per_s")) for each in (record, reference)
    )
    marks = {
        *marks_of(record, throughput, today, reference=reference),
        *marks_of(reference, reference_throughput, today),
    }
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "workload_title": facts.title if facts else variant.workload,
        "device": variant.device,
        "machine": machine,
        "reference_machine": reference_machine,
        **throughput.as_columns("throughput_per_s"),
        **reference_throughput.as_columns("reference_throughput_per_s"),
        **speedup(record, reference).as_columns("ratio"),
        "differences": f"{SEPARATOR} ".join(_differences(record, reference)),
        "marks": SEPARATOR.join(mark for mark in MEANINGS if mark in marks),
    }


def _differences(record: Record, reference: Record) -> Iterator[str]:
    """What differs besides the machine, in words, the compared machine's value first."""
    yield from other_software(record, reference)
    version, reference_version = protocol_version(record), protocol_version(reference)
    if version != reference_version:
        yield f"protocol {version} and {reference_version}, so that no ratio is formed"
    code, reference_code = record.provenance, reference.provenance
    if not measures_alike(code.code_digest, reference_code.code_digest):
        yield "measuring code"
    if not same_class(record, reference):
        yield f"class {class_of(record)[0]}, so that no ratio is formed"
    settings, reference_settings = (
        each.measurement["workload"]["settings"] for each in (record, reference)
    )
    for key in sorted({*settings, *reference_settings}):
        if settings.get(key) != reference_settings.get(key):
            yield f"{key} {settings.get(key, 'none')} and {reference_settings.get(key, 'none')}"
