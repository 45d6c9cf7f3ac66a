"""Which operations took the time: on the host, and on the device what they launched; by name, and by category.

HostCalls -> sums per name and category -> OPERATIONS -> CATEGORY_TIMES
DeviceWork -> sums per launching call -> the calls around it
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from gpu_report.traces.attribution import CATEGORY_NAMES, DeviceWork, HostCalls
from gpu_report.traces.grouping import (
    NS_PER_MS,
    NS_PER_US,
    Quantiles,
    counts,
    grouped,
    quantiles,
    share,
    sums,
)
from gpu_report.traces.spans import NONE, Flags, Integers
from gpu_report.traces.trace import HOST, Trace

NO_LAUNCH: Final = "(launch not recorded)"
"""Stands for the operation of device work whose launch the trace does not hold."""

Row = dict[str, Any]


def operation_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of OPERATIONS: the host first, then the longest own time, then by name."""
    names = (*trace.names, NO_LAUNCH)
    host = _rows(_host_times(calls), names, HOST)
    return [*host, *_rows(_device_times(calls, work), names, trace.device or "")]


def category_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of CATEGORY_TIMES: the host first, then the longest own time."""
    host = _by_category(calls.category[calls.in_step], calls.self_ns[calls.in_step], HOST)
    return [*host, *_by_category(work.category, work.spans.duration_ns, trace.device or "")]


class _Times(msgspec.Struct, frozen=True, kw_only=True):
    """Sums and quantiles per name and category, one number per pair in each column."""

    name: Integers
    category: Integers
    calls: Integers
    total_ns: Integers
    self_ns: Integers
    p10_ns: Integers
    median_ns: Integers
    p90_ns: Integers

    def beside(self, other: "_Times") -> "_Times":
        """The pairs of both."""
        pairs = {column: (getattr(self, column), getattr(other, column)) for column in self.__struct_fields__}
        return _Times(**{column: np.concatenate(pair) for column, pair in pairs.items()})


def key_of(name: Integers, category: Integers) -> Integers:
    """One number for a name and a category, or for any other number in the place of the name."""
    return name * len(CATEGORY_NAMES) + category


def names_of(keys: Integers) -> Integers:
    """The names, or whatever stood in their place, of such numbers."""
    return keys // len(CATEGORY_NAMES)


def categories_of(keys: Integers) -> Integers:
    """The categories of such numbers."""
    return keys % len(CATEGORY_NAMES)


def _times(keys: Integers, calls: Integers, total_ns: Integers, self_ns: Integers, each_ns: Quantiles) -> _Times:
    return _Times(
        name=names_of(keys),
        category=categories_of(keys),
        calls=calls,
        total_ns=total_ns,
        self_ns=self_ns,
        p10_ns=each_ns.p10,
        median_ns=each_ns.median,
        p90_ns=each_ns.p90,
    )


def _host_times(calls: HostCalls) -> _Times:
    duration_ns = calls.spans.duration_ns[calls.in_step]
    keys, group = grouped(key_of(calls.spans.name, calls.category)[calls.in_step])
    is_outermost = ~lies_in_its_like(calls, calls.spans.name)[calls.in_step]
    return _times(
        keys,
        counts(group, len(keys)),
        sums(group, duration_ns * is_outermost, len(keys)),
        sums(group, calls.self_ns[calls.in_step], len(keys)),
        quantiles(group, duration_ns, len(keys)),
    )


def lies_in_its_like(calls: HostCalls, kind: Integers) -> Flags:
    """Whether a call of the same kind lies around each call; `kind` holds a number per call."""
    found = np.zeros(len(kind), dtype=np.bool_)
    inner = np.arange(len(kind))
    for outer in outwards(calls, inner):
        inner, around = inner[outer != NONE], outer[outer != NONE]
        found[inner] |= kind[around] == kind[inner]
    return found


def outwards(calls: HostCalls, positions: Integers) -> Iterator[Integers]:
    """Level by level the call around each position that still has one; NONE where it has none."""
    while len(positions):
        positions = calls.parent[positions]
        yield positions
        positions = positions[positions != NONE]


def _device_times(calls: HostCalls, work: DeviceWork) -> _Times:
    """What each operation launched, and what the operations inside it did; each piece counts once in a row."""
    launched = _launched(work)
    own_key = key_of(calls.spans.name[launched.call], launched.category)
    around = counted_around(calls, launched.call, own_key, key_of(calls.spans.name, calls.category))
    duration_ns = launched.duration_ns[around.piece]
    keys, row = grouped(around.key)
    every = max(len(calls.spans), 1)
    callers, caller = np.unique(row * every + around.caller, return_inverse=True)
    times = _times(
        keys,
        counts(callers // every, len(keys)),
        sums(row, duration_ns, len(keys)),
        sums(np.searchsorted(keys, own_key), launched.duration_ns, len(keys)),
        quantiles(callers // every, sums(caller, duration_ns, len(callers)), len(keys)),
    )
    return times.beside(_without_launch(work))


class _Launched(msgspec.Struct, frozen=True, kw_only=True):
    """Device work summed per call that launched it and category."""

    call: Integers
    category: Integers
    duration_ns: Integers


def _launched(work: DeviceWork) -> _Launched:
    is_launched = work.call != NONE
    keys, group = grouped(key_of(work.call[is_launched], work.category[is_launched]))
    return _Launched(
        call=names_of(keys),
        category=categories_of(keys),
        duration_ns=sums(group, work.spans.duration_ns[is_launched], len(keys)),
    )


def _without_launch(work: DeviceWork) -> _Times:
    """The rows of work whose launch is not in the trace; the name NONE stands for the last of the names."""
    is_unknown = work.call == NONE
    duration_ns = work.spans.duration_ns[is_unknown]
    keys, group = grouped(key_of(work.call[is_unknown], work.category[is_unknown]))
    total_ns = sums(group, duration_ns, len(keys))
    return _times(keys, counts(group, len(keys)), total_ns, total_ns, quantiles(group, duration_ns, len(keys)))


class CountedAround(NamedTuple):
    """Each piece of work beside each key that it counts in, and the innermost call of that key around it."""

    piece: Integers
    key: Integers
    caller: Integers


def counted_around(calls: HostCalls, launching: Integers, own_key: Integers, key: Integers) -> CountedAround:
    """The keys that pieces of work count in, each once: their own, and those of the calls around their launching call.

    `launching` and `own_key` hold a number per piece, `key` one per call; NONE is no key.
    """
    pieces, keys, callers = [np.arange(len(launching))], [own_key], [launching]
    for outer in outwards(calls, launching):
        pieces.append(pieces[-1][outer != NONE])
        callers.append(outer[outer != NONE])
        keys.append(key[callers[-1]])
    piece, of_piece, caller = np.concatenate(pieces), np.concatenate(keys), np.concatenate(callers)
    _, first = np.unique(piece * (of_piece.max(initial=0) + 2) + of_piece, return_index=True)
    first = first[of_piece[first] != NONE]
    return CountedAround(piece[first], of_piece[first], caller[first])


def _rows(times: _Times, names: Sequence[str], device: str) -> Iterator[Row]:
    all_ns = int(times.self_ns.sum())
    for index in ordered(times.self_ns, times.name, times.category, names):
        self_ns = int(times.self_ns[index])
        yield {
            "name": names[times.name[index]],
            "device": device,
            "category": CATEGORY_NAMES[times.category[index]],
            "calls": int(times.calls[index]),
            "total_ms": int(times.total_ns[index]) / NS_PER_MS,
            "self_ms": self_ns / NS_PER_MS,
            "self_share": share(self_ns, all_ns),
            "p10_us": int(times.p10_ns[index]) / NS_PER_US,
            "median_us": int(times.median_ns[index]) / NS_PER_US,
            "p90_us": int(times.p90_ns[index]) / NS_PER_US,
        }


def ordered(time_ns: Integers, name: Integers, category: Integers, names: Sequence[str]) -> list[int]:
    """Positions by time, the longest first, then by name and category."""
    keys = [
        (-time, names[position], CATEGORY_NAMES[number])
        for time, position, number in zip(time_ns.tolist(), name.tolist(), category.tolist(), strict=True)
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _by_category(category: Integers, self_ns: Integers, device: str) -> Iterator[Row]:
    found, group = grouped(category)
    number, time_ns = counts(group, len(found)), sums(group, self_ns, len(found))
    all_ns = int(time_ns.sum())
    for index in ordered(time_ns, np.zeros_like(found), found, [""]):
        yield {
            "device": device,
            "category": CATEGORY_NAMES[found[index]],
            "calls": int(number[index]),
            "self_ms": int(time_ns[index]) / NS_PER_MS,
            "share": share(int(time_ns[index]), all_ns),
        }
