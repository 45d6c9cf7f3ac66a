"""What one rank's trace shows of its exchange with the others: its collectives one by one, and when
it computed.

kernels that communicate, marks of gloo's threads -> PyTorch's note of each -> Collective ->
Exchange
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gpu_report.traces.attribution import (
    DeviceWork,
    HostCalls,
    at_positions,
    communicates,
    is_kernel,
    last_with_id,
    step_at,
)
from gpu_report.traces.categories import compiled, first_fit
from gpu_report.traces.grouping import Row, fits
from gpu_report.traces.nesting import Cover, cover_of, nearest
from gpu_report.traces.phases import EVALUATING
from gpu_report.traces.trace import MOST_RANKS, NONE, Integers, Trace

POINT_TO_POINT: Final = "point-to-point"
"""From one rank to another: a receive waits for what is sent, which is no rank's fault, and a send
for nobody.
"""

_OPERATIONS: Final = compiled(
    ("all-reduce", r"(?i)all_?reduce"),
    ("all-gather", r"(?i)all_?gather"),
    ("reduce-scatter", r"(?i)reduce_?scatter"),
    ("all-to-all", r"(?i)all_?to_?all"),
    ("broadcast", r"(?i)broadcast"),
    (POINT_TO_POINT, r"(?i)send|recv"),
    ("reduce", r"(?i)reduce"),
    ("gather", r"(?i)gather"),
    ("scatter", r"(?i)scatter"),
)
_ON_HOST: Final = re.compile(r"(gloo|mpi|ucc):")
"""Marks on the threads that communicate for a process, from taking a collective up to its end."""

_BYTES_OF: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
"""What PyTorch calls the types of elements in notes of collectives."""

Key = tuple[int, str, int]
"""Step, group and position."""


class Collective(NamedTuple):
    """One collective as one rank ran it; what the trace does not say is None or an empty text."""

    key: Key
    operation: str
    group_size: int | None
    size_bytes: int | None
    start_ns: int
    end_ns: int
    after_backward_ns: int | None

    @property
    def duration_ns(self) -> int:
        """With its wait for other ranks."""
        return self.end_ns - self.start_ns


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a rank's trace: its collectives in the order in which they began, and when it
    computed.

    `failed` are the checks of QUALITY that it failed, where its other tables are not kept.
    """

    rank: int | None
    ranks: int | None
    steps: Sequence[int]
    step_bounds: tuple[Integers, Integers]
    compute: Cover
    collectives: Sequence[Collective]
    failed: Sequence[Row] = ()


def exchange_of(trace: Trace, calls: HostCalls, work: DeviceWork) -> Exchange:
    """The collectives that the steps launched, whenever they ran."""
    if trace.device is None:
        compute = cover_of(calls.spans, ~calls.is_driver_call & ~calls.of_category("communication"))
    else:
        compute = cover_of(
            trace.work, is_kernel(trace, trace.work) & ~communicates(trace, trace.work)
        )
    info = trace.metadata.get("distributedInfo")
    size = info.get("world_size") if isinstance(info, dict) else None
    has_size = isinstance(size, int) and not isinstance(size, bool) and 0 < size <= MOST_RANKS
    return Exchange(
        rank=trace.rank,
        ranks=size if has_size else None,
        steps=[step.number for step in trace.steps],
        step_bounds=trace.step_bounds,
        compute=compute,
        collectives=_collectives(trace, calls, work),
    )


def _collectives(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Collective]:
    spans = work.spans
    marks = trace.marks.chosen(fits(trace.names, trace.marks.name, _ON_HOST.match))
    kernels = np.flatnonzero(is_kernel(trace, spans) & communicates(trace, spans))
    start_ns = np.append(spans.start_ns[kernels], marks.start_ns)
    end_ns = np.append(spans.end_ns[kernels], marks.end_ns)
    name = np.append(spans.name[kernels], marks.name)
    call = np.append(work.call[kernels], np.full(len(marks), NONE))
    if not len(call):
        return []
    step = step_at(
        trace, np.where(call == NONE, start_ns, at_positions(calls.spans.start_ns, call))
    )
    note = _notes(trace, calls, call)
    backward_end_ns = at_positions(_backward_ends(trace, calls, work), step, missing=NONE)
    counted: dict[tuple[int, str], int] = defaultdict(int)
    found = []
    for each in np.argsort(start_ns, kind="stable").tolist():
        if step[each] == NONE:
            continue
        group, operation, group_size, size_bytes = _noted(trace, int(note[each]))
        number = trace.steps[step[each]].number
        found.append(
            Collective(
                key=(number, group, counted[number, group]),
                operation=first_fit(operation or trace.names[name[each]], _OPERATIONS)
                or operation
                or "unknown",
                group_size=group_size,
                # of a note that several kernels share, each has a part that is not known
                size_bytes=size_bytes if (note == note[each]).sum() == 1 else None,
                start_ns=int(start_ns[each]),
                end_ns=int(end_ns[each]),
                after_backward_ns=None
                if backward_end_ns[each] == NONE
                else int(start_ns[each] - backward_end_ns[each]),
            )
        )
        counted[number, group] += 1
    return found


def _notes(trace: Trace, calls: HostCalls, call: Integers) -> Integers:
    """The position of the note that the call made of what it launched, NONE where it made none."""
    notes = trace.exchanges.external_id
    return last_with_id(
        at_positions(calls.spans.external_id, call, missing=NONE), notes, np.arange(len(notes))
    )


def _noted(trace: Trace, note: int) -> tuple[str, str, int | None, int | None]:
    """Group, operation, size of the group and bytes."""
    if note == NONE:
        return "", "", None, None
    of = trace.exchanges
    group, ranks, operation, dtype = (
        trace.texts[column[note]].strip('"')
        for column in (of.group, of.group_ranks, of.collective, of.dtype)
    )
    elements, group_size = (
        int(max(of.in_elements[note], of.out_elements[note])),
        int(of.group_size[note]),
    )
    element_bytes = _BYTES_OF.get(dtype)
    size_bytes = elements * element_bytes if element_bytes and elements > 0 else None
    return f"{group} {ranks}".strip(), operation, group_size if group_size > 0 else None, size_bytes


def _backward_ends(trace: Trace, calls: HostCalls, work: DeviceWork) -> Integers:
    """When the last of what autograd's functions compute in each step ends, NONE where there is
    none.

    What DistributedDataParallel does after them, such as copying a bucket back, waits for the
    collective itself.
    """
    evaluating = fits(trace.names, calls.spans.name, lambda name: name.startswith(EVALUATING))
    begun_ns, end_ns = calls.spans.start_ns[evaluating], calls.spans.end_ns[evaluating]
    if trace.device is not None:
        spans, inside = work.spans, nearest(calls.parent, evaluating) != NONE
        computes = is_kernel(trace, spans) & ~communicates(trace, spans)
        computes &= at_positions(inside, work.call, missing=False)
        begun_ns, end_ns = (
            at_positions(calls.spans.start_ns, work.call)[computes],
            spans.end_ns[computes],
        )
    step = step_at(trace, begun_ns)
    ends_ns = np.full(len(trace.steps), NONE)
    np.maximum.at(ends_ns, step[step != NONE], end_ns[step != NONE])
    return ends_ns
