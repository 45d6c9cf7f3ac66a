"""Which kernels, copies and fills took the device's time: how long, how soon after their launch, and where from.

work within the steps -> groups by name and category -> times, delays, launch sizes; origins -> KERNELS
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from gpu_report.traces.attribution import CATEGORY_NAMES, DeviceWork, HostCalls, driver_launches, work_within_steps
from gpu_report.traces.grouping import (
    NS_PER_MS,
    NS_PER_US,
    Grouped,
    counts,
    evenly_spaced,
    grouped,
    heaviest,
    known_or_none,
    medians,
    quantiles,
    share,
    sums,
)
from gpu_report.traces.libraries import library_of, on_tensor_cores
from gpu_report.traces.operations import categories_of, key_of, names_of, ordered
from gpu_report.traces.sources import module_name, origins
from gpu_report.traces.spans import NONE, Floats, Integers
from gpu_report.traces.trace import Trace

_PERCENT = 100


def kernel_rows(trace: Trace, calls: HostCalls, _: DeviceWork) -> list[dict[str, Any]]:
    """The rows of KERNELS, the longest time first, then by name and category.

    They count the work that STEPS counts, where it ran, so that the totals of both agree.
    """
    work, within_ns = work_within_steps(trace, calls)
    rows = grouped(key_of(work.spans.name, work.category))
    columns = _Columns(
        **_times(work, within_ns, rows),
        **_launch_sizes(trace, work, rows),
        **_origins(trace, calls, work, rows),
        delay_us=_delays_us(calls, work, rows),
        occupancy=medians(rows.group, work.spans.occupancy_percent, len(rows.keys)) / _PERCENT,
    )
    return list(_rows(trace, rows.keys, columns))


class _Columns(msgspec.Struct, frozen=True, kw_only=True):
    """One number per row in each column; `grid` and `block` are positions of texts, the last three of names."""

    runs: Integers
    total_ns: Integers
    p10_ns: Integers
    median_ns: Integers
    p90_ns: Integers
    delay_us: Floats
    grid: Integers
    block: Integers
    occupancy: Floats
    operation: Integers
    module: Integers
    function: Integers


def _times(work: DeviceWork, within_ns: Integers, rows: Grouped) -> dict[str, Integers]:
    each_ns = quantiles(rows.group, work.spans.duration_ns, len(rows.keys))
    return {
        "runs": counts(rows.group, len(rows.keys)),
        "total_ns": sums(rows.group, within_ns, len(rows.keys)),
        "p10_ns": each_ns.p10,
        "median_ns": each_ns.median,
        "p90_ns": each_ns.p90,
    }


def _delays_us(calls: HostCalls, work: DeviceWork, rows: Grouped) -> Floats:
    """Medians, NaN where no launching call is recorded; work that starts before its call returns has not waited."""
    launch = driver_launches(work.spans, calls)
    known = np.flatnonzero(launch != NONE)
    delay_ns = work.spans.start_ns[known] - calls.spans.end_ns[launch[known]]
    return medians(rows.group[known], np.maximum(delay_ns, 0) / NS_PER_US, len(rows.keys))


def _launch_sizes(trace: Trace, work: DeviceWork, rows: Grouped) -> dict[str, Integers]:
    """Grid and block of each row's most frequent pair; of pairs as frequent the first in the order of their texts."""
    grid, block = work.spans.grid, work.spans.block
    used, place = np.unique(np.concatenate([grid, block]), return_inverse=True)
    by_text = np.array(sorted(range(len(used)), key=lambda index: trace.texts[used[index]]), dtype=np.int64)
    rank = np.argsort(by_text)[place]
    pairs, pair = grouped(rank[: len(grid)] * len(used) + rank[len(grid) :])
    found = pairs[heaviest(rows.group, pair, np.ones_like(pair), len(rows.keys))]
    in_text_order = used[by_text]
    return {"grid": in_text_order[found // max(len(used), 1)], "block": in_text_order[found % max(len(used), 1)]}


def _origins(trace: Trace, calls: HostCalls, work: DeviceWork, rows: Grouped) -> dict[str, Integers]:
    """The operation that launched most of each row's time; of that part the module, and of that the function.

    Of those that tie, the first by name.
    """
    known = np.flatnonzero(work.call != NONE)
    launching, which = grouped(work.call[known])
    origin = origins(trace, calls, launching)
    by_name = np.array(sorted(range(len(trace.names)), key=trace.names.__getitem__), dtype=np.int64)
    rank = np.append(np.argsort(by_name), NONE)
    found: dict[str, Integers] = {}
    columns = {"operation": calls.spans.name[launching], "module": origin.module, "function": origin.function}
    for column, name_of_call in columns.items():
        value, group = rank[name_of_call][which], rows.group[known]
        best = heaviest(group, value, work.spans.duration_ns[known], len(rows.keys))
        found[column] = np.where(best == NONE, NONE, by_name[best])
        is_best = value == best[group]
        known, which = known[is_best], which[is_best]
    return found


def _rows(trace: Trace, keys: Integers, columns: _Columns) -> Iterator[dict[str, Any]]:
    name, category = names_of(keys), categories_of(keys)
    texts, names = (*trace.texts, ""), (*trace.names, "")
    all_ns = int(columns.total_ns.sum())
    for index in ordered(columns.total_ns, name, category, trace.names):
        total_ns, runs = int(columns.total_ns[index]), int(columns.runs[index])
        kernel = trace.names[name[index]]
        yield {
            "name": kernel,
            "category": CATEGORY_NAMES[category[index]],
            "calls": runs,
            "total_ms": total_ns / NS_PER_MS,
            "mean_us": total_ns / NS_PER_US / runs,
            "share": share(total_ns, all_ns),
            "p10_us": int(columns.p10_ns[index]) / NS_PER_US,
            "median_us": int(columns.median_ns[index]) / NS_PER_US,
            "p90_us": int(columns.p90_ns[index]) / NS_PER_US,
            "launch_delay_us": known_or_none(columns.delay_us[index]),
            "library": library_of(kernel),
            "tensor_cores": on_tensor_cores(kernel),
            "grid": evenly_spaced(texts[columns.grid[index]]),
            "block": evenly_spaced(texts[columns.block[index]]),
            "occupancy": known_or_none(columns.occupancy[index]),
            "operation": names[columns.operation[index]],
            "module": module_name(names[columns.module[index]]),
            "source": names[columns.function[index]],
        }
