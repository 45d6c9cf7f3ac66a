"""Which operations took the time: on the host, and on the device what they launched; by name, and
by category.

HostCalls -> sums per name and category -> OPERATIONS -> CATEGORY_TIMES
DeviceWork -> sums per launching call -> the calls around it
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.traces.attribution import CATEGORY_NAMES, DeviceWork, HostCalls
from gpu_report.traces.categories import CATEGORY
from gpu_report.traces.grouping import (
    DEVICE,
    NS_PER_MS,
    NS_PER_US,
    Row,
    counts,
    grouped,
    quantiles,
    rows_of,
    shares,
    sums,
)
from gpu_report.traces.nesting import lies_in_its_like, outwards
from gpu_report.traces.trace import HOST, NONE, Integers, Trace

OPERATIONS: Final = Table(
    name="operations",
    meaning=(
        "One row per operation name, device and category, over all profiled steps. On the host: "
        "operations, and calls into the accelerator's driver. On an accelerator: the work that "
        "the operation launched."
    ),
    columns=(
        text("name", "The operation's name as in the trace."),
        DEVICE,
        CATEGORY,
        whole("calls", "1", "Calls; on an accelerator those that launched work there."),
        number(
            "total_ms",
            "ms",
            "Time in the calls with all they call; calls nested in the same name count once.",
        ),
        number("self_ms", "ms", "Time in the calls themselves, without what they call."),
        number("self_share", "1", "self_ms over the sum of self_ms on that device."),
        number(
            "p10_us", "us", "A tenth of the calls took at most so long, each with all it calls."
        ),
        number(
            "median_us", "us", "Half of the calls took at most so long, each with all it calls."
        ),
        number(
            "p90_us", "us", "Nine tenths of the calls took at most so long, each with all it calls."
        ),
    ),
)
CATEGORY_TIMES: Final = Table(
    name="categories",
    meaning="One row per device and category: the sums of the table operations.",
    columns=(
        DEVICE,
        CATEGORY,
        whole("calls", "1", "Calls of operations on the host; pieces of device work."),
        number("self_ms", "ms", "Sum of self_ms."),
        number("share", "1", "self_ms over the sum of self_ms on that device."),
    ),
)
NO_LAUNCH: Final = "(launch not recorded)"
"""The operation of device work whose launch the trace does not hold."""


def operation_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of OPERATIONS: the host first, then the longest own time, then by name."""
    names = (*trace.names, NO_LAUNCH)
    duration_ns = calls.spans.duration_ns[calls.in_step]
    keys, group = grouped(key_of(calls.spans.name, calls.category)[calls.in_step])
    is_outermost = ~lies_in_its_like(calls.parent, calls.spans.name)[calls.in_step]
    on_host = _rows(
        keys,
        calls=counts(group, len(keys)),
        total_ns=sums(group, duration_ns * is_outermost, len(keys)),
        self_ns=sums(group, calls.self_ns[calls.in_step], len(keys)),
        quantiles_ns=quantiles(group, duration_ns, len(keys)),
        names=names,
        device=HOST,
    )
    return [*on_host, *_device_rows(trace, calls, work, names)]


def category_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of CATEGORY_TIMES: the host first, then the longest own time."""
    host = _by_category(calls.category[calls.in_step], calls.self_ns[calls.in_step], HOST)
    return [*host, *_by_category(work.category, work.duration_ns, trace.device or "")]


def key_of(name: Integers, category: Integers) -> Integers:
    """One number for a name and a category, or for any other number in the place of the name."""
    return name * len(CATEGORY_NAMES) + category


def of_keys(keys: Integers) -> tuple[Integers, Integers]:
    """The names, or whatever stood in their place, and the categories of such numbers."""
    return np.divmod(keys, len(CATEGORY_NAMES))


def _device_rows(
    trace: Trace, calls: HostCalls, work: DeviceWork, names: Sequence[str]
) -> list[Row]:
    """What each operation launched, and what the operations inside it did; each piece counts once
    in a row.

    Work whose launch is not in the trace counts as if a call of the last name launched each piece.
    An operation of a graph counts as called by each replay.
    """
    unlaunched = np.flatnonzero(work.call == NONE)
    launcher = work.call.copy()
    launcher[unlaunched] = len(calls.spans) + np.arange(len(unlaunched))
    name = np.append(calls.spans.name, np.full(len(unlaunched), len(names) - 1))
    parent = np.append(calls.parent, np.full(len(unlaunched), NONE))
    launches, replay = np.unique(np.where(work.in_graph, work.launch, NONE), return_inverse=True)
    replays = max(len(launches), 1)
    own_key, piece = grouped(key_of(launcher * replays + replay, work.category))
    launched_ns = sums(piece, work.duration_ns, len(own_key))
    launched, category = of_keys(own_key)
    call, again = np.divmod(launched, replays)
    own_key = key_of(name[call], category)
    key_of_call = key_of(calls.spans.name, calls.category)
    pieces, keys_around, callers_around = [np.arange(len(call))], [own_key], [call]
    for outer in outwards(parent, call):
        pieces.append(pieces[-1][outer != NONE])
        callers_around.append(outer[outer != NONE])
        keys_around.append(key_of_call[callers_around[-1]])
    around, key = np.concatenate(pieces), np.concatenate(keys_around)
    _, first = np.unique(around * (key.max(initial=0) + 1) + key, return_index=True)
    duration_ns = launched_ns[around[first]]
    keys, row = grouped(key[first])
    every = max(len(name), 1) * replays
    callers, caller = np.unique(
        row * every + np.concatenate(callers_around)[first] * replays + again[around[first]],
        return_inverse=True,
    )
    return _rows(
        keys,
        calls=counts(callers // every, len(keys)),
        total_ns=sums(row, duration_ns, len(keys)),
        self_ns=sums(np.searchsorted(keys, own_key), launched_ns, len(keys)),
        quantiles_ns=quantiles(
            callers // every, sums(caller, duration_ns, len(callers)), len(keys)
        ),
        names=names,
        device=trace.device or "",
    )


def _rows(
    keys: Integers,
    *,
    calls: Integers,
    total_ns: Integers,
    self_ns: Integers,
    quantiles_ns: tuple[Integers, Integers, Integers],
    names: Sequence[str],
    device: str,
) -> list[Row]:
    name, category = of_keys(keys)
    p10_ns, median_ns, p90_ns = quantiles_ns
    rows = rows_of(
        range(len(keys)),
        name=[names[position] for position in name.tolist()],
        device=[device] * len(name),
        category=[CATEGORY_NAMES[position] for position in category.tolist()],
        calls=calls,
        total_ms=total_ns / NS_PER_MS,
        self_ms=self_ns / NS_PER_MS,
        self_share=shares(self_ns),
        p10_us=p10_ns / NS_PER_US,
        median_us=median_ns / NS_PER_US,
        p90_us=p90_ns / NS_PER_US,
    )
    return sorted(rows, key=lambda row: (-row["self_ms"], row["name"], row["category"]))


def _by_category(category: Integers, self_ns: Integers, device: str) -> list[Row]:
    found, group = grouped(category)
    time_ns = sums(group, self_ns, len(found))
    rows = rows_of(
        range(len(found)),
        device=[device] * len(found),
        category=[CATEGORY_NAMES[position] for position in found.tolist()],
        calls=counts(group, len(found)),
        self_ms=time_ns / NS_PER_MS,
        share=shares(time_ns),
    )
    return sorted(rows, key=lambda row: (-row["self_ms"], row["category"]))
