"""What the ranks of one training exchange: how much of it compute hides, who waits for whom, how
fast each transfer is.

kernels that communicate, marks of gloo's threads -> PyTorch's note of each -> Exchange of each
rank -> collectives of all ranks in order -> the least duration of each -> waits -> RANKS,
COLLECTIVES
rows of these tables -> the slow rank, and medians over the steps

A kernel of NCCL begins as soon as its own rank is ready, and then waits on the GPU for the others,
so that its duration contains the wait (https://github.com/NVIDIA/nccl/issues/470). The rank that
comes last waits for nobody: the least duration over the ranks is that of the transfer, and what
another rank's takes longer is its wait. No clock of one rank is compared with another's. With gloo
a thread on the host waits in the same way.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec
import numpy as np

from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.traces.attribution import (
    DeviceWork,
    HostCalls,
    at_positions,
    is_kernel,
    is_of,
    last_with_id,
    step_at,
)
from gpu_report.traces.grouping import NS_PER_MS, STEP, Row, fits, rows_of
from gpu_report.traces.nesting import Cover, cover, cover_of, nearest
from gpu_report.traces.trace import MOST_RANKS, NONE, Integers, Trace
from gpu_report.traces.vendors import compiled, first_fit

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


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a rank's trace: its collectives in the order in which they began, and when it
    computed.

    `collectives` are rows of COLLECTIVES as far as one rank's trace shows them, with `start_ns` and
    `end_ns`. `checks` are the rows of its QUALITY, where its other tables are not kept.
    """

    rank: int | None
    ranks: int | None
    steps: Sequence[int]
    step_bounds: tuple[Integers, Integers]
    compute: Cover
    collectives: Sequence[Row]
    checks: Sequence[Row] = ()


def exchange_of(trace: Trace, calls: HostCalls, work: DeviceWork) -> Exchange:
    """The collectives that the steps launched, whenever they ran."""
    if trace.device is None:
        compute = cover_of(
            calls.spans, ~calls.is_driver_call & ~is_of(calls.category, "communication")
        )
    else:
        compute = cover_of(
            calls.work, is_kernel(trace, calls.work) & ~is_of(calls.work.category, "communication")
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
        collectives=[*_collectives(trace, calls, work)],
    )


def _collectives(trace: Trace, calls: HostCalls, work: DeviceWork) -> Iterator[Row]:
    marks = trace.marks.chosen(fits(trace.names, trace.marks.name, _ON_HOST.match))
    kernels = np.flatnonzero(is_kernel(trace, work) & is_of(work.category, "communication"))
    start_ns = np.append(work.start_ns[kernels], marks.start_ns)
    end_ns = np.append(work.end_ns[kernels], marks.end_ns)
    name = np.append(work.name[kernels], marks.name)
    call = np.append(work.call[kernels], np.full(len(marks), NONE))
    if not len(call):
        return
    launch = np.append(_asked_by(work)[kernels], np.full(len(marks), NONE))
    step = step_at(
        trace, np.where(launch == NONE, start_ns, at_positions(calls.spans.start_ns, launch))
    )
    # The note that the call made of what it launched.
    ids, notes = (
        at_positions(calls.spans.external_id, call, missing=NONE),
        trace.exchanges.external_id,
    )
    note = last_with_id(ids, notes, np.arange(len(notes)))
    # An all-to-all runs as the kernel of sends and receives; the operation around has its name.
    names_it = is_of(calls.category, "communication") & fits(
        trace.names, calls.spans.name, lambda text: first_fit(text, _OPERATIONS)
    )
    around = at_positions(nearest(calls.parent, names_it), call, missing=NONE)
    asked_by = at_positions(calls.spans.name, around, missing=NONE)
    backward_end_ns = at_positions(_backward_ends(trace, calls, work), step, missing=NONE)
    counted: dict[tuple[int, str], int] = defaultdict(int)
    for each in np.argsort(start_ns, kind="stable").tolist():
        if step[each] == NONE:
            continue
        group, operation, group_size, size_bytes = _noted(trace, int(note[each]))
        if not operation and asked_by[each] != NONE:
            operation = trace.names[asked_by[each]]
        number = trace.steps[step[each]].number
        yield {
            "step": number,
            "group": group,
            "position": counted[number, group],
            "operation": first_fit(operation or trace.names[name[each]], _OPERATIONS)
            or operation
            or "unknown",
            "group_size": group_size,
            # of a note that several kernels share, each has a part that is not known
            "bytes": size_bytes if (note == note[each]).sum() == 1 else None,
            "begin_after_backward_ms": None
            if backward_end_ns[each] == NONE
            else float(start_ns[each] - backward_end_ns[each]) / NS_PER_MS,
            "start_ns": int(start_ns[each]),
            "end_ns": int(end_ns[each]),
        }
        counted[number, group] += 1


def _asked_by(work: DeviceWork) -> Integers:
    """The call whose step is that of each piece of work: its operation, or the launch of its graph,
    since the operations of a graph ran before it was captured.
    """
    return np.where(work.in_graph, work.launch, work.call)


def _noted(trace: Trace, note: int) -> tuple[str, str, int | None, int | None]:
    """Group, operation, size of the group and bytes."""
    if note == NONE:
        return "", "", None, None
    of = trace.exchanges
    group, ranks, operation, dtype = (
        trace.texts[column[note]].strip('"')
        for column in (of.group, of.group_ranks, of.collective, of.dtype)
    )
    elements = int(max(of.in_elements[note], of.out_elements[note], 0))
    size_bytes = elements * _BYTES_OF.get(dtype, 0) or None
    group_size = int(of.group_size[note])
    return f"{group} {ranks}".strip(), operation, group_size if group_size > 0 else None, size_bytes


def _backward_ends(trace: Trace, calls: HostCalls, work: DeviceWork) -> Integers:
    """When the last of what autograd's functions compute in each step ends, NONE where there is
    none.

    What DistributedDataParallel does after them, such as copying a bucket back, waits for the
    collective itself.
    """
    evaluating = calls.backward == np.arange(len(calls.spans))
    begun_ns, end_ns = calls.spans.start_ns[evaluating], calls.spans.end_ns[evaluating]
    if trace.device is not None:
        computes = is_kernel(trace, work) & ~is_of(work.category, "communication")
        computes &= at_positions(calls.backward, work.call, missing=NONE) != NONE
        begun_ns = calls.spans.start_ns[_asked_by(work)[computes]]
        end_ns = work.end_ns[computes]
    step = step_at(trace, begun_ns)
    ends_ns = np.full(len(trace.steps), NONE)
    np.maximum.at(ends_ns, step[step != NONE], end_ns[step != NONE])
    return ends_ns


_RANK: Final = whole("rank", "1", "Number of the process among those that share the training.")

RANKS: Final = Table(
    name="ranks",
    meaning="One row per rank and profiled step, of a training that several processes share; "
    "without them no rows.",
    columns=(
        _RANK,
        STEP,
        number("wall_ms", "ms", "From the begin to the end of the step on the host."),
        number(
            "compute_ms",
            "ms",
            "A kernel runs that does not communicate; without an accelerator, an operation.",
        ),
        number("communication_ms", "ms", "A collective runs, waits for other ranks included."),
        number("hidden_ms", "ms", "Of communication_ms, while compute_ms runs too."),
        number("exposed_ms", "ms", "Of communication_ms, the rest."),
        number(
            "wait_ms",
            "ms",
            "Of communication_ms, the waits for other ranks: what each collective took longer "
            "than on the rank where it was shortest. Missing where the ranks' collectives do not "
            "correspond, or a rank has no trace.",
        ),
    ),
)
COLLECTIVES: Final = Table(
    name="collectives",
    meaning="One row per step, collective and rank, in the order in which the first of the ranks "
    "began them.",
    columns=(
        STEP,
        text("group", "Process group as in the trace; empty where it names none."),
        whole("position", "1", "0 for the first collective of the step in that group."),
        _RANK,
        text("operation", "all-reduce, all-gather and so on."),
        number("group_size", "1", "Ranks that take part; missing where the trace does not say."),
        number(
            "bytes",
            "B",
            "Of the whole result, or of the whole input of a reduce-scatter; missing likewise.",
        ),
        number(
            "begin_after_backward_ms",
            "ms",
            "Begin on that rank since the end of autograd's last kernel, or without an "
            "accelerator its last function, in the step; negative before it.",
        ),
        number("duration_ms", "ms", "On that rank, its wait for the others included."),
        number(
            "exposed_ms",
            "ms",
            "Of duration_ms, while no other kernel runs, or without an accelerator no operation.",
        ),
        number(
            "transfer_ms",
            "ms",
            "The least duration over the ranks; missing as wait_ms of the table ranks.",
        ),
        number(
            "bus_bandwidth_gb_per_s",
            "GB/s",
            "Bus bandwidth as nccl-tests defines it, of bytes in transfer_ms.",
        ),
    ),
)

SLOW_FROM: Final = 0.2
"""Share of a step, the median over steps, that every other rank waits longer than the slow one.

A rank that is late is awaited in each collective that another's compute does not wait for. On two
H100 a delay of a tenth of the step in one rank of U-Net made 0.19 to 0.33 in 37 runs of nine steps,
and less than 0.2 in two of them; 34 runs without a delay had 0.00 to 0.18, since batches were
loaded in the training process. Where a step has one collective or two, a tenth is too little.
"""

LEAST_STEPS: Final = 5
"""Profiled steps from which a slow rank is named: of three, the median was above SLOW_FROM in two
of these 14 runs.
"""

BUS_FACTORS: Final[Mapping[str, Callable[[int], float]]] = {
    "all-reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    **dict.fromkeys(
        ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter"),
        lambda ranks: (ranks - 1) / ranks,
    ),
    **dict.fromkeys(("broadcast", "reduce", POINT_TO_POINT), lambda _: 1.0),
}
"""Operation -> what bytes over time are to be multiplied by, for bus bandwidth: the bytes per
second that the slowest connection carries in one direction, whatever the number of ranks, as
doc/PERFORMANCE.md of https://github.com/NVIDIA/nccl-tests derives it.
"""


def tabulate_ranks(exchanges: Sequence[Exchange]) -> dict[Table, list[Row]]:
    """The rows of RANKS and COLLECTIVES of one training; none where a rank is not known or nothing
    is exchanged.
    """
    ranks = {each.rank for each in exchanges}
    if (
        None in ranks
        or len(ranks) < len(exchanges)
        or not any(each.collectives for each in exchanges)
    ):
        return {RANKS: [], COLLECTIVES: []}
    exchanges = sorted(exchanges, key=lambda each: each.rank or 0)
    # A collective's transfer is its least duration; not known of a group in a step where its ranks
    # do not correspond or pass on.
    members: dict[Key, list[Row]] = defaultdict(list)
    for each in exchanges:
        for collective in each.collectives:
            members[_key(collective)].append(collective)
    world = max(len(exchanges), *(each.ranks or 1 for each in exchanges))
    differing = {
        key[:2]
        for key, found in members.items()
        if len(found) != (found[0]["group_size"] or world)
        or len({(one["operation"], one["bytes"]) for one in found}) > 1
        or found[0]["operation"] == POINT_TO_POINT
    }
    transfers_ns = {
        key: min(one["end_ns"] - one["start_ns"] for one in found)
        for key, found in members.items()
        if key[:2] not in differing
    }
    return {
        RANKS: [row for each in exchanges for row in _rank_rows(each, transfers_ns)],
        COLLECTIVES: sorted(
            (row for each in exchanges for row in _collective_rows(each, transfers_ns)),
            key=lambda row: (row["step"], row["position"], row["group"], row["rank"]),
        ),
    }


def _rank_rows(each: Exchange, transfers_ns: Mapping[Key, int]) -> list[Row]:
    times_ns = [
        (one["start_ns"], one["end_ns"], transfers_ns.get(_key(one), 0)) for one in each.collectives
    ]
    start_ns, end_ns, transfer_ns = np.array(times_ns, dtype=np.int64).reshape(-1, 3).T
    unknown = {one["step"] for one in each.collectives if _key(one) not in transfers_ns}
    begins_ns, ends_ns = each.step_bounds
    communication = cover(start_ns, end_ns)
    communication_ns = communication.within(begins_ns, ends_ns)
    exposed_ns = communication.exposed_within(begins_ns, ends_ns, hiding=each.compute)
    wait_ns = cover(start_ns, end_ns - transfer_ns).within(begins_ns, ends_ns)
    return rows_of(
        range(len(each.steps)),
        rank=[each.rank] * len(each.steps),
        step=each.steps,
        wall_ms=(ends_ns - begins_ns) / NS_PER_MS,
        compute_ms=each.compute.within(begins_ns, ends_ns) / NS_PER_MS,
        communication_ms=communication_ns / NS_PER_MS,
        hidden_ms=(communication_ns - exposed_ns) / NS_PER_MS,
        exposed_ms=exposed_ns / NS_PER_MS,
        wait_ms=np.where([step in unknown for step in each.steps], np.nan, wait_ns / NS_PER_MS),
    )


def _collective_rows(each: Exchange, transfers_ns: Mapping[Key, int]) -> Iterator[Row]:
    times_ns = np.array([(one["start_ns"], one["end_ns"]) for one in each.collectives])
    hidden_ns = each.compute.within(*times_ns.reshape(-1, 2).T).tolist()
    for one, of_it_hidden_ns in zip(each.collectives, hidden_ns, strict=True):
        duration_ns = one["end_ns"] - one["start_ns"]
        transfer_ns = transfers_ns.get(_key(one))
        yield {
            **{name: one[name] for name in COLLECTIVES.column_names if name in one},
            "rank": each.rank,
            "duration_ms": duration_ns / NS_PER_MS,
            "exposed_ms": (duration_ns - of_it_hidden_ns) / NS_PER_MS,
            "transfer_ms": None if transfer_ns is None else transfer_ns / NS_PER_MS,
            "bus_bandwidth_gb_per_s": _bus_bandwidth(one, transfer_ns),
        }


def _key(collective: Row) -> Key:
    return collective["step"], collective["group"], collective["position"]


def _bus_bandwidth(one: Row, transfer_ns: int | None) -> float | None:
    """A gigabyte per second is a byte per nanosecond."""
    factor_of, ranks = BUS_FACTORS.get(one["operation"]), one["group_size"] or 1
    if not (transfer_ns and one["bytes"] and factor_of) or ranks < 2:
        return None
    return factor_of(ranks) * float(one["bytes"]) / transfer_ns


def most_awaited(rows: Sequence[Row]) -> tuple[int, float] | None:
    """The rank that waits least, and the share of a step that every other rank waits longer, the
    median over steps.

    By rows of RANKS. None where a wait is missing, or there is one rank alone.
    """
    ranks = _groups(RANKS.checked(rows), "rank")
    if len(ranks) < 2 or len({tuple(row["step"] for row in of_rank) for of_rank in ranks}) > 1:
        return None
    shares = {
        int(of_rank[0]["rank"]): np.array([row["wait_ms"] / row["wall_ms"] for row in of_rank])
        for of_rank in ranks
    }
    if np.isnan([*shares.values()]).any():
        return None
    awaited = min(shares, key=lambda rank: float(np.median(shares[rank])))
    others = (each for rank, each in shares.items() if rank != awaited)
    return awaited, min(float(np.median(each - shares[awaited])) for each in others)


def slow_rank(rows: Sequence[Row]) -> int | None:
    """The rank that all others wait for, in the median step for at least SLOW_FROM of it.

    None where there is none, or fewer than LEAST_STEPS.
    """
    found = most_awaited(rows) if len({row["step"] for row in rows}) >= LEAST_STEPS else None
    return found[0] if found and found[1] >= SLOW_FROM else None


def median_ranks(rows: Sequence[Row]) -> list[Row]:
    """For each rank the medians of the columns of RANKS over the steps, and of wait_ms over wall_ms
    as wait_share.
    """
    times = [column.name for column in RANKS.columns if column not in (_RANK, STEP)]
    return [
        {
            "rank": of_rank[0]["rank"],
            **_medians(of_rank, *times),
            "wait_share": _median([row["wait_ms"] / row["wall_ms"] for row in of_rank]),
            "steps": len(of_rank),
        }
        for of_rank in _groups(RANKS.checked(rows), "rank")
    ]


def median_collectives(rows: Sequence[Row]) -> list[Row]:
    """The collectives of a step in order, each with medians over the steps that have it, by rows of
    COLLECTIVES.

    Of each step the rank counts where it was shortest, since that one waited least; longest_ms is
    from the rank that waited longest.
    """
    same = ("position", "group", "operation", "bytes")
    shortest = [
        {
            **min(of_ranks, key=itemgetter("duration_ms")),
            "longest_ms": max(row["duration_ms"] for row in of_ranks),
        }
        for of_ranks in _groups(COLLECTIVES.checked(rows), *same, "step")
    ]
    return [
        {
            **{column: of_steps[0][column] for column in same},
            **_medians(
                of_steps,
                "begin_after_backward_ms",
                "transfer_ms",
                "exposed_ms",
                "bus_bandwidth_gb_per_s",
                "longest_ms",
            ),
            "steps": len(of_steps),
            # Missing only where no step names it.
            "group_size": float(np.fmin.reduce([row["group_size"] for row in of_steps])),
        }
        for of_steps in _groups(shortest, *same)
    ]


def _groups(rows: Sequence[Row], *columns: str) -> list[list[Row]]:
    """The rows that have the same in these columns, in the order of what they have; numbers that
    are missing, NaN, are the same and come last.
    """
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        key = (row[column] for column in columns)
        groups[tuple(math.inf if value != value else value for value in key)].append(row)
    return [group for _, group in sorted(groups.items())]


def _medians(rows: Sequence[Row], *columns: str) -> Row:
    return {column: _median([row[column] for row in rows]) for column in columns}


def _median(values: Sequence[float]) -> float:
    """Missing where any of them is."""
    return float(np.median(values))
