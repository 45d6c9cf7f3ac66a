"""The numbers of samples that batch-size searches tried, with the three answers marked.

SearchRecord -> a row per number of samples, in growing order: throughput over the timed blocks of
one process, memory
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final

from gpu_report.glossary import METRICS, Row
from gpu_report.printing.number_format import count
from gpu_report.records.batch_sizes import SearchRecord
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.search import NEAR, RESOLUTION
from gpu_report.tables.statistics import (
    DEVICE,
    FEWEST_FOR_INTERVAL,
    NOT_MEASURED,
    WORKLOAD,
    metric,
    summarise,
)

_RATE: Final = METRICS["throughput_per_s"]

BATCH_SIZES: Final = Table(
    name="batch_sizes",
    meaning="One row per batch-size search and number of samples that it tried, each in one fresh "
    "process.",
    columns=(
        text("search", "Name of the search, that of its file."),
        WORKLOAD,
        text("workload_title", "The workload in words."),
        text("size", "The workload's size."),
        DEVICE,
        text("precision", "Precision of the arithmetic."),
        text("optimization", "What is switched on; 'none' is the eager baseline."),
        whole("samples", "1", "Samples of one batch."),
        text("status", "'ok' where they fit, or 'oom', 'failed' or 'skipped'."),
        text("reason", "Why they do not fit or were not trained; empty where they fit."),
        flag("is_largest", "Whether they are the largest batch that fits."),
        flag(
            "is_resolved",
            "Whether a batch failed that is larger than the largest by no more than "
            f"{count(100 * (RESOLUTION - 1), '%').plain()}.",
        ),
        flag(
            "is_fastest",
            "Whether they reach the most samples per second of all tried; none where other "
            "programs used the CPU meanwhile.",
        ),
        flag(
            "is_smallest_near_fastest",
            "Whether they are the smallest tried whose mean reaches "
            f"{count(100 * NEAR, '%').plain()} of that.",
        ),
        number(
            "throughput_per_s",
            _RATE.unit,
            "Training samples per second; geometric mean over blocks of steps.",
        ),
        number(
            "throughput_per_s_low",
            _RATE.unit,
            "Lower end of its 95 % interval, over the blocks of one process; missing of a step "
            "too slow for blocks.",
        ),
        number("throughput_per_s_high", _RATE.unit, "Upper end of it."),
        whole(
            "throughput_per_s_count", "1", "Blocks that it is the mean of; 0 where they do not fit."
        ),
        metric("memory_peak_mib"),
        text(
            "memory_kind",
            "'allocator' (PyTorch's, on the device) or 'resident set'; empty where nothing fits.",
        ),
        number(
            "memory_limit_mib",
            "MiB",
            "Memory that the process might take; missing where they do not fit.",
        ),
        number(
            "headroom_share",
            "1",
            "Share of that memory which PyTorch did not take; missing where they do not fit.",
        ),
    ),
)


def tabulate_batch_sizes(records: Iterable[SearchRecord]) -> Iterator[Row]:
    """The table BATCH_SIZES: searches in the order given, each by number of samples."""
    for record in records:
        search, answers, near = record.search, record.answers, _smallest_near_fastest(record)
        ours = BUILT_IN_WORKLOADS.get(search.workload)
        for tried in sorted(record.tries, key=lambda each: each.samples):
            yield {
                "search": search.slug,
                "workload": search.workload,
                "workload_title": ours.title if ours else search.workload,
                "size": search.size,
                "device": search.device,
                "precision": search.precision,
                "optimization": search.optimization,
                "samples": tried.samples,
                "status": tried.status,
                "reason": tried.reason,
                "is_largest": answers is not None and tried.samples == answers.largest,
                "is_resolved": answers is not None and answers.is_resolved,
                "is_fastest": answers is not None and tried.samples == answers.fastest,
                "is_smallest_near_fastest": tried.samples == near,
                **(summarise(tried.throughputs_per_s) if tried.fits else NOT_MEASURED).as_columns(
                    "throughput_per_s"
                ),
                "memory_peak_mib": tried.memory_peak_mib,
                "memory_kind": record.memory_kind or "",
                "memory_limit_mib": tried.memory_limit_mib,
                "headroom_share": math.nan
                if tried.memory_taken_mib is None or tried.memory_limit_mib is None
                else 1 - tried.memory_taken_mib / tried.memory_limit_mib,
            }


def _smallest_near_fastest(record: SearchRecord) -> int | None:
    """The smallest number of samples whose mean throughput reaches 95 % of the fastest's, of those
    that have an interval if that has one; None without a fastest.
    """
    rates = {each.samples: summarise(each.throughputs_per_s) for each in record.tries if each.fits}
    fastest = rates.get(record.answers.fastest or 0) if record.answers else None
    if fastest is None:
        return None
    least = min(fastest.count, FEWEST_FOR_INTERVAL)
    return min(
        samples
        for samples, rate in rates.items()
        if rate.count >= least and rate.value >= NEAR * fastest.value
    )
