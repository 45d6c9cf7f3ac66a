"""Which shapes an operation was called with, how long these calls took, and how much arithmetic they did a second.

HostCalls -> rows of equal name and shapes -> their calls, time and work -> SHAPES
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from gpu_report.traces.attribution import DeviceWork, HostCalls
from gpu_report.traces.flops import FORMULAS, flop_of_call
from gpu_report.traces.grouping import NS_PER_MS, counts, evenly_spaced, fits, grouped, sums
from gpu_report.traces.operations import counted_around, lies_in_its_like, outwards
from gpu_report.traces.spans import NONE, Flags, Floats, Integers
from gpu_report.traces.trace import Trace

_GFLOP_PER_TFLOP: Final = 1e3


def shape_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[dict[str, Any]]:
    """The rows of SHAPES: the longest time on the device first, then on the host, then by name and shapes.

    Where one operation with a formula lies in another, as a matrix product in a linear layer, only the outer counts its
    arithmetic, so that nothing counts twice. A row has no arithmetic where that of one of its calls cannot be told.
    """
    is_described = _is_described(trace, calls)
    if not is_described.any():
        return []
    keys, row_of_call = _rows_of_calls(trace, calls, is_described)
    sums_of_rows = _sums_of_rows(trace, calls, work, row_of_call, len(keys))
    return list(_rows(trace, keys, sums_of_rows))


class _Sums(NamedTuple):
    """One number per row in each column; `flop` is NaN where no call has a formula, or one that cannot be used.

    `counted_host_ns` and `counted_device_ns` are of the calls whose arithmetic counts.
    """

    calls: Integers
    host_ns: Integers
    device_ns: Integers
    pieces: Integers
    flop: Floats
    counted_host_ns: Integers
    counted_device_ns: Integers


def _is_described(trace: Trace, calls: HostCalls) -> Flags:
    """Whether a call is in a step and its inputs' shapes are recorded."""
    has_shapes = np.array([bool(text) for text in trace.texts], dtype=np.bool_)
    return calls.in_step & has_shapes[calls.spans.shapes] if len(has_shapes) else np.zeros_like(calls.in_step)


def _rows_of_calls(trace: Trace, calls: HostCalls, is_described: Flags) -> tuple[Integers, Integers]:
    """What each row stands for, name and shapes in one number, and the row of each call, NONE where it has none."""
    spans = calls.spans
    keys, row = grouped((spans.name * len(trace.texts) + spans.shapes)[is_described])
    row_of_call = np.full(len(spans), NONE)
    row_of_call[is_described] = row
    return keys, row_of_call


def _sums_of_rows(trace: Trace, calls: HostCalls, work: DeviceWork, row_of_call: Integers, rows: int) -> _Sums:
    duration_ns = calls.spans.duration_ns
    described = np.flatnonzero(row_of_call != NONE)
    row = row_of_call[described]
    is_outer = ~lies_in_its_like(calls, row_of_call)[described]
    launched, launched_ns, pieces = _launched(work)
    around = counted_around(calls, launched, row_of_call[launched], row_of_call)
    flop = _flop_of_calls(trace, calls, row_of_call)
    counted = np.flatnonzero((flop >= 0) & ~_lies_in_one_that_counts(calls, flop))
    device_ns = sums(around.caller, launched_ns[around.piece], len(duration_ns))
    return _Sums(
        calls=counts(row, rows),
        host_ns=sums(row, duration_ns[described] * is_outer, rows),
        device_ns=sums(around.key, launched_ns[around.piece], rows),
        pieces=sums(around.key, pieces[around.piece], rows),
        flop=_flop_of_rows(row_of_call, flop, counted, rows),
        counted_host_ns=sums(row_of_call[counted], duration_ns[counted], rows),
        counted_device_ns=sums(row_of_call[counted], device_ns[counted], rows),
    )


def _launched(work: DeviceWork) -> tuple[Integers, Integers, Integers]:
    """The calls that launched work, its run time, and the number of its pieces."""
    is_launched = work.call != NONE
    launching, group = grouped(work.call[is_launched])
    duration_ns = sums(group, work.spans.duration_ns[is_launched], len(launching))
    return launching, duration_ns, counts(group, len(launching))


def _flop_of_calls(trace: Trace, calls: HostCalls, row_of_call: Integers) -> Floats:
    """By formula, once for all calls with the same inputs; NaN without one, NONE where the trace tells too little."""
    spans = calls.spans
    found = np.flatnonzero(fits(trace.names, spans.name, FORMULAS.__contains__) & (row_of_call != NONE))
    columns = np.stack([spans.name[found], spans.shapes[found], spans.inputs[found]])
    distinct, which = np.unique(columns, axis=1, return_inverse=True)
    values = (
        flop_of_call(trace.names[name], trace.texts[shapes], trace.texts[inputs])
        for name, shapes, inputs in distinct.T.tolist()
    )
    flop = np.full(len(spans), np.nan)
    flop[found] = np.array([NONE if value is None else value for value in values], dtype=np.float64)[which.reshape(-1)]
    return flop


def _lies_in_one_that_counts(calls: HostCalls, flop: Floats) -> Flags:
    """Whether a call whose arithmetic is known lies around each call whose own is known."""
    found = np.zeros(len(flop), dtype=np.bool_)
    inner = np.flatnonzero(flop >= 0)
    for outer in outwards(calls, inner):
        inner, around = inner[outer != NONE], outer[outer != NONE]
        found[inner] |= flop[around] >= 0
    return found


def _flop_of_rows(row_of_call: Integers, flop: Floats, counted: Integers, rows: int) -> Floats:
    row = row_of_call[counted]
    found = np.bincount(row, weights=flop[counted], minlength=rows)
    is_known = counts(row, rows) > 0
    is_known[row_of_call[flop == NONE]] = False
    return np.where(is_known, found, np.nan)


def _rows(trace: Trace, keys: Integers, found: _Sums) -> Iterator[dict[str, Any]]:
    names, texts = (keys // len(trace.texts)).tolist(), (keys % len(trace.texts)).tolist()
    kept = np.flatnonzero((found.pieces > 0) | ~np.isnan(found.flop)).tolist()
    for row in sorted(
        kept,
        key=lambda row: (-found.device_ns[row], -found.host_ns[row], trace.names[names[row]], trace.texts[texts[row]]),
    ):
        ran_on_device = found.pieces[row] > 0
        counted_ns = int((found.counted_device_ns if ran_on_device else found.counted_host_ns)[row])
        flop = None if np.isnan(found.flop[row]) else float(found.flop[row])
        yield {
            "name": trace.names[names[row]],
            "shapes": evenly_spaced(trace.texts[texts[row]]),
            "calls": int(found.calls[row]),
            "host_ms": int(found.host_ns[row]) / NS_PER_MS,
            "device_ms": int(found.device_ns[row]) / NS_PER_MS if ran_on_device else None,
            "flop": flop,
            "tflop_per_s": flop / counted_ns / _GFLOP_PER_TFLOP if flop is not None and counted_ns else None,
        }
