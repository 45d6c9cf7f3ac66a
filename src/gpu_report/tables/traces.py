"""What the traces of all variants say of a step: its parts, gaps, kernels, the advice, the doubts
and a timeline.

trace tables, one set per variant -> rows of columns that passed the checks -> tables
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gpu_report.glossary import Row
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.tables.bundle import grouped
from gpu_report.tables.operations import (
    OPERATION_MEMORY,
    PHASES,
    TOP,
    TOP_OPERATIONS,
    Profiled,
    operation_memory,
    phases,
    profiled,
    quotient,
    top_operations,
)
from gpu_report.tables.statistics import PROFILED
from gpu_report.traces import ranks
from gpu_report.traces.advice import ABOUT_IDLE_TIME, ADVICE, ADVICE_OF, UNANSWERED
from gpu_report.traces.categories import OTHER, category_by_name
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.operations import CATEGORY_TIMES
from gpu_report.traces.quality import AS_TIMED, QUALITY, Gate
from gpu_report.traces.steps import SHARES, STEPS
from gpu_report.traces.tables import TraceTables
from gpu_report.traces.timeline import TIMELINE
from gpu_report.traces.trace import HOST

_MOST_SLOWED: Final = 1.1
"""A profiled step over a timed one, up to which a rank that the others wait for is slow by itself
and not by the profiler, which slows the host of one more than that of another.
"""
STEP_PARTS: Final[tuple[str, ...]] = (*SHARES, "other")
"""What the wall time of a step is shared out to: each moment counts once, for the first of these
that goes on in it.
"""

STEP_SHARES: Final = Table(
    name="step_shares",
    meaning=(
        "One row per profiled variant: what the time of its timed steps went into; of its profiled "
        "ones on a CPU, with a custom training loop, and where no device work is reliable. A GPU's "
        "kernels, copies and exposed exchange last as long as in the profiled steps, on the rank "
        "that waited least; the rest of the timed step, waits for other ranks included, is divided "
        "as the rest of the profiled one. Where kernels and copies took longer than a timed step, "
        "the shares are of their time. The shares from kernel_share "
        "to other_share sum to 1; of the GPU's parts the CPU has 0. Waits for other ranks are in "
        "communication_share and in device_idle_share."
    ),
    columns=(
        *PROFILED,
        whole("steps", "1", "Profiled steps."),
        number("wall_ms", "ms", "Time of the step that the shares are of."),
        *(
            number(
                f"{part}_share",
                "1",
                f"{part}_ms of the trace table steps over the step's time.",
            )
            for part in STEP_PARTS
        ),
        number(
            "host_busy_share",
            "1",
            "host_busy_ms of the trace table steps over the step's time.",
        ),
        number(
            "device_busy_share",
            "1",
            "GPU busy: device_busy_ms likewise; missing on the CPU.",
        ),
        number("device_idle_share", "1", "1 - device_busy_share; missing on the CPU."),
        number("exposed_copy_share", "1", "exposed_copy_ms likewise; missing on the CPU."),
        number(
            "exposed_communication_share",
            "1",
            "exposed_communication_ms likewise; missing on the CPU.",
        ),
        number("launches_per_step", "1", "Pieces of work launched in a step; missing on the CPU."),
        number("short_share", "1", "Share of them that ran for less than 10 us."),
        number(
            "mean_queue",
            "1",
            "Work launched and not yet started, on average over the time of the steps.",
        ),
        number(
            "launch_bound_share",
            "1",
            "Share of the time in which the device waited for the next launch.",
        ),
    ),
)

STEP_CATEGORIES: Final = Table(
    name="step_categories",
    meaning=(
        "One row per profiled variant and category of the device's work, the longest first, and "
        "one for the time in which it had none: what a step consists of, on a GPU a timed one. "
        "Kernels, copies and memsets that ran at the same time share it, so that the times sum to "
        "the step; communication has the time in which nothing else ran, and waits for other "
        "ranks are idle where they are known. That of a custom training loop is a whole training, "
        "as profiled. No rows where the checks of the trace find the times of its steps not "
        "reliable."
    ),
    columns=(
        *PROFILED,
        text("category", "Category of operations, layout conversion or idle."),
        number("ms_per_step", "ms", "Time of a step in which this ran."),
        number("share", "1", "ms_per_step over the step time."),
    ),
)
LAYOUT_CONVERSION: Final = "layout conversion"
"""What cuDNN does around a convolution whose data are in another memory format than its kernel
wants; such kernels are not in the category convolution here.
"""
IDLE_TIME: Final = "idle"
COMMUNICATION: Final = "communication"

IDLE_CAUSES: Final = Table(
    name="idle_causes",
    meaning=(
        "One row per variant, cause and host operation: gaps in which the GPU did nothing. Of "
        "each cause the three longest operations, and all others in a row whose operation is "
        "(others). No rows where the gaps or their causes are not reliable."
    ),
    columns=(
        *PROFILED,
        text(
            "cause",
            "launch, host, loader, synchronisation, allocator, other ranks or unknown, as in the "
            "table idle.",
        ),
        text(
            "operation",
            "The operation on the host in the middle of the gap; empty where none ran; or "
            "(others).",
        ),
        whole("gaps", "1", "Number of gaps in the profiled steps."),
        number(
            "total_ms",
            "ms",
            "Idle time of the timed steps, divided as the sums of the profiled gaps.",
        ),
        number(
            "longest_us",
            "us",
            "The longest profiled gap, also of (others); missing for other ranks, whose waits are "
            "no gaps.",
        ),
        number("share", "1", "total_ms over the time of the timed steps."),
    ),
)

TOP_KERNELS: Final = Table(
    name="top_kernels",
    meaning=(
        "One row per variant and rank: the ten kernels, copies and memsets that ran longest on "
        "its GPU. No rows where their times are not reliable."
    ),
    columns=(
        *PROFILED,
        whole("rank", "1", "1 for the kernel with the longest total."),
        text("name", "The kernel's name as in the trace."),
        text("category", "Kind of work, by the name where the launch is not reliable."),
        whole("calls", "1", "How often it ran in the profiled steps."),
        number("total_ms", "ms", "Sum of its run times."),
        number("share", "1", "total_ms over that of all kernels, copies and memsets."),
        number("median_us", "us", "Half of the runs took at most so long."),
        number("launch_delay_us", "us", "Median time from the launch to the start."),
        text("library", "cuDNN, cuBLAS, CUTLASS, Triton, NCCL, native, driver, or unknown."),
        text("tensor_cores", "yes, no, or unknown, from the name."),
        number(
            "occupancy",
            "1",
            "The profiler's estimate of occupied warps; missing where none is written.",
        ),
        text(
            "operation",
            "The operation that launched most of its time; empty where no launch is known.",
        ),
        text("module", "The module of the model around that operation; empty without stacks."),
        text("source", "The line of the user's own code around it; empty without stacks."),
    ),
)

TRACE_ADVICE: Final = Table(
    name="trace_advice",
    meaning="One row per variant and rule that applies: what limits its step and what to try, the "
    "most severe first.",
    columns=(
        *PROFILED,
        whole("rank", "1", "1 for the rule with the most time of the step at stake."),
        text("rule", "Name of the rule, as in the trace table advice."),
        text("finding", "What was found, in a sentence."),
        text("advice", "What to try."),
        number("value", "unit", "What was found."),
        number("threshold", "unit", "From where on the rule applies."),
        text("unit", "Unit of value and threshold."),
        text("place", "Source line or operation, where the trace has one."),
    ),
)

TRACE_UNANSWERED: Final = Table(
    name="trace_unanswered",
    meaning="One row per variant and rule of the advice whose answer is not in its trace.",
    columns=(
        *PROFILED,
        text("rule", "Name of the rule, as in the trace table unanswered."),
        text("reason", "Why, as a clause."),
    ),
)

TRACE_DOUBTS: Final = Table(
    name="trace_doubts",
    meaning="One row per variant and failed check of its trace: which numbers are not reliable, "
    "and why.",
    columns=(
        *PROFILED,
        text("check", "Name of the check, as in the trace table quality."),
        whole("step", "1", "Number of the step; -1 where the check is of the whole trace."),
        number("value", "see text", "What was found."),
        number("limit", "see text", "What may be found at most, or at least; the text says which."),
        text("text", "What was found, in a sentence."),
        text("spoils", "Trace tables and columns whose numbers are left out for it."),
    ),
)

TIMELINES: Final = Table(
    name="timelines",
    meaning="One row per variant, lane and stretch of one profiled step: what went on there, as "
    "in the trace table.",
    columns=(
        *PROFILED,
        whole(
            "step",
            "1",
            "Number of the step in the profiler's schedule: the one of median wall time.",
        ),
        number("wall_ms", "ms", "Its wall time."),
        text(
            "lane",
            "phases, a thread of the host such as host 1, a stream of the device such as stream "
            "7, or other streams.",
        ),
        number("begin_ms", "ms", "Since the begin of the step."),
        number("end_ms", "ms", "Since the begin of the step."),
        text(
            "category",
            "Phase of the step, or category of the work that took most of the stretch; empty "
            "where it is not reliable.",
        ),
        number("busy_share", "1", "Share of the stretch in which anything went on in the lane."),
    ),
)

RANKS: Final = Table(
    name="ranks",
    meaning=(
        "One row per variant and rank of those that several processes share: medians over its "
        "profiled steps. No rows where a trace failed a check that they depend on."
    ),
    columns=(
        *PROFILED,
        whole("rank", "1", "Number of the process among those that share the training."),
        whole("steps", "1", "Profiled steps."),
        number("wall_ms", "ms", "Wall time of the step, the profiler's own work included."),
        number(
            "compute_ms",
            "ms",
            "Time in which a kernel ran that does not communicate; on CPUs an operation.",
        ),
        number(
            "communication_ms",
            "ms",
            "Time in which a collective ran, waits for other ranks included.",
        ),
        number("hidden_ms", "ms", "Of communication_ms, while compute_ms went on."),
        number("exposed_ms", "ms", "Of communication_ms, the rest."),
        number(
            "wait_ms",
            "ms",
            "Of communication_ms, waits for other ranks; missing where they are not known.",
        ),
        number("wait_share", "1", "wait_ms over wall_ms; missing as wait_ms."),
        flag(
            "is_slow",
            f"Every other rank waited at least {ranks.SLOW_FROM:.0%} of the median step longer "
            f"than this one, in steps that the profiler made at most {_MOST_SLOWED - 1:.0%} "
            "longer.",
        ),
    ),
)

COLLECTIVES: Final = Table(
    name="collectives",
    meaning=(
        "One row per variant and collective of a step, in order, of those that several processes "
        "share: medians over the steps, on the rank that waited least. No rows as in the table "
        "ranks."
    ),
    columns=(
        *PROFILED,
        text("group", "Process group as in the trace; empty where it names none."),
        whole("position", "1", "0 for the first collective of the step in that group."),
        whole("steps", "1", "Profiled steps that have it."),
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
            "Begin since the end of autograd's last kernel; negative before it.",
        ),
        number(
            "transfer_ms", "ms", "Duration on the rank where it was shortest, which waited least."
        ),
        number(
            "exposed_ms", "ms", "Of transfer_ms, while no other kernel ran; on CPUs no operation."
        ),
        number(
            "bus_bandwidth_gb_per_s", "GB/s", "As nccl-tests defines it, of bytes in transfer_ms."
        ),
        number("longest_ms", "ms", "Duration on the rank that waited longest."),
    ),
)

TOP_OF_CAUSE: Final = 3
"""Operations listed per cause of gaps; the others are one row."""

OTHERS: Final = "(others)"
"""What the operation of that one row is called; no operation of PyTorch has such a name."""

_OF_GPUS: Final = ("kernel", "memcpy", "memset")
_ON_GPUS: Final = (*_OF_GPUS, "device_busy", "exposed_copy", "exposed_communication")
_OF_THE_WHOLE: Final = ("wall_ms", "host_busy_ms")
"""Where these are not reliable no share is: a part of a step slowed by the profiler may be right,
the whole is not.
"""

_OF_KERNELS: Final = (
    "calls",
    "total_ms",
    "share",
    "median_us",
    "library",
    "tensor_cores",
    "occupancy",
)
_OF_STRETCHES: Final = ("step", "wall_ms", "lane", "begin_ms", "end_ms", "busy_share")
_OF_LAUNCHING_CALLS: Final = ("category", "operation", "module", "source")


def tabulate_profiles(table: Table, traces: Mapping[str, TraceTables]) -> list[Row]:
    """One of the tables of ROWS_OF_PROFILE; a variant without a trace has no rows."""
    return [
        {**each.identity, **row}
        for each in profiled(traces)
        for row in ROWS_OF_PROFILE[table](each)
    ]


def _step_shares(each: Profiled) -> Iterator[Row]:
    """A step with a number that is not reliable is left out of its sums; with no step left they are
    missing.
    """
    if each.tables[STEPS]:
        shares = shares_of_steps(each, on_cpu=each.variant.device_type == HOST)
        yield {
            "steps": len(each.tables[STEPS]),
            "wall_ms": _mean([row["wall_ms"] for row in each.rows(STEPS, "wall_ms")]),
            **shares,
            "device_idle_share": 1 - shares["device_busy_share"],
            **_launches(each),
        }


def trusted_timeline(each: Gate) -> Iterator[Row]:
    """In the order of the trace table; the category is empty where it is not reliable."""
    trusted = {(row["lane"], row["begin_ms"]) for row in each.rows(TIMELINE, "category")}
    for row in each.rows(TIMELINE, *_OF_STRETCHES):
        category = row["category"] if (row["lane"], row["begin_ms"]) in trusted else ""
        yield {**{column: row[column] for column in _OF_STRETCHES}, "category": category}


def _ranks(each: Profiled) -> Iterator[Row]:
    rows = each.rows(ranks.RANKS)
    is_slowed = any(
        row["check"] == AS_TIMED and row["value"] > _MOST_SLOWED for row in each.tables[QUALITY]
    )
    slow = None if is_slowed else ranks.slow_rank(rows)
    return ({**row, "is_slow": row["rank"] == slow} for row in ranks.median_ranks(rows))


def shares_of_steps(gate: Gate, *, on_cpu: bool) -> dict[str, float]:
    """Sums over the steps that the gate trusts, over their time; NaN where it trusts none.

    A trace table has no number for a GPU that did nothing; of the CPU's steps it did nothing is
    known. What the profiler added to the host's time changes no share of a GPU's work where that is
    of the timed step, in which the idle share is reliable.
    """
    shares = {}
    for name in (*STEP_PARTS, "host_busy", "device_busy", "exposed_copy", "exposed_communication"):
        whole = (
            ("wall_ms", "device_idle_share") if name in _ON_GPUS and not on_cpu else _OF_THE_WHOLE
        )
        rows = gate.rows(STEPS, *whole, f"{name}_ms")
        nothing = name in _OF_GPUS and on_cpu
        times_ms = [row[f"{name}_ms"] for row in rows]
        spent_ms = 0.0 if nothing else math.nan if None in times_ms else sum(times_ms)
        shares[f"{name}_share"] = quotient(spent_ms, sum(row["wall_ms"] for row in rows))
    return shares


def _launches(each: Profiled) -> dict[str, float]:
    """Means over the steps' time where a column is one over time, and over launches where it is one
    of launches.
    """
    wall_ms = {row["step"]: row["wall_ms"] for row in each.rows(STEPS, "wall_ms")}
    short = [row for row in each.rows(LAUNCHES, "launches", "short_share") if row["launches"]]
    found = {
        "launches_per_step": _mean([row["launches"] for row in each.rows(LAUNCHES, "launches")]),
        "short_share": quotient(
            sum(row["launches"] * row["short_share"] for row in short),
            sum(row["launches"] for row in short),
        ),
    }
    for column in ("mean_queue", "launch_bound_share"):
        rows = [row for row in each.rows(LAUNCHES, column) if row["step"] in wall_ms]
        found[column] = quotient(
            sum(row[column] * wall_ms[row["step"]] for row in rows),
            sum(wall_ms[row["step"]] for row in rows),
        )
    return found


def _idle_causes(each: Profiled) -> Iterator[Row]:
    """The cause with the longest gaps in all first, and the longest operations of each."""
    by_cause = grouped(each.rows(IDLE), lambda row: row["cause"])
    total_ms = {cause: sum(row["total_ms"] for row in rows) for cause, rows in by_cause.items()}
    for cause in sorted(by_cause, key=lambda cause: (-total_ms[cause], cause)):
        longest = sorted(by_cause[cause], key=lambda row: (-row["total_ms"], row["operation"]))
        yield from longest[:TOP_OF_CAUSE]
        if rest := longest[TOP_OF_CAUSE:]:
            yield {
                "cause": cause,
                "operation": OTHERS,
                **{
                    column: sum(row[column] for row in rest)
                    for column in ("gaps", "total_ms", "share")
                },
                "longest_us": max(row["longest_us"] for row in rest),
            }


def _advised(each: Profiled) -> Iterator[Row]:
    """What is about idle time comes first: as long as a device waits, nothing else helps.

    Stored advice whose rule or threshold is another today does not count.
    """
    found = [
        row
        for row in each.tables[ADVICE]
        if row["rule"] in ADVICE_OF and ADVICE_OF[row["rule"]].is_beyond(row["value"])
    ]
    found.sort(key=lambda row: row["rule"] not in ABOUT_IDLE_TIME)
    return ({"rank": rank, **row} for rank, row in enumerate(found, start=1))


def top_kernels(each: Gate) -> Iterator[Row]:
    """What the launching call shows is empty where it is not reliable, but for the category."""
    trusted = [column for column in _OF_LAUNCHING_CALLS if each.trusts(KERNELS, column)]
    has_delay = each.trusts(KERNELS, "launch_delay_us")
    rows = each.rows(KERNELS, "name", *_OF_KERNELS)
    rows.sort(key=lambda row: (-row["total_ms"], row["name"], row["category"]))
    for rank, row in enumerate(rows[:TOP], start=1):
        yield {
            "rank": rank,
            "name": row["name"],
            **{column: row[column] for column in _OF_KERNELS},
            **{column: row[column] if column in trusted else "" for column in _OF_LAUNCHING_CALLS},
            "category": _category(row, is_known="category" in trusted),
            "launch_delay_us": row["launch_delay_us"] if has_delay else math.nan,
        }


def _step_categories(each: Profiled) -> Iterator[Row]:
    """A kernel whose launching operation is not known has the category of its name."""
    on_cpu = each.variant.device_type == HOST
    columns = _OF_THE_WHOLE if on_cpu else ("wall_ms", "device_busy_ms", "device_idle_share")
    steps = each.rows(STEPS, *columns)
    times_ms = (
        Counter(
            {
                row["category"]: row["self_ms"]
                for row in each.rows(CATEGORY_TIMES)
                if row["device"] == HOST
            }
        )
        if on_cpu
        else _times_of_kernels(each)
    )
    is_exchanging = not on_cpu and times_ms.pop(COMMUNICATION, 0.0) > 0
    # Those of a CPU's operations are sums over all steps, whichever can be trusted.
    is_partial = on_cpu and len(steps) < len(each.tables[STEPS])
    if not steps or is_partial or not times_ms.total():
        return
    wall_ms = _mean([row["wall_ms"] for row in steps])
    work_ms = (
        times_ms.total() / len(steps) if on_cpu else _mean([row["device_busy_ms"] for row in steps])
    )
    busy_ms = min(wall_ms, work_ms)
    exchange_ms = 0.0
    if is_exchanging:
        own_ms = _mean([sum(row[f"{part}_ms"] for part in _OF_GPUS) for row in steps])
        exchange_ms = max(busy_ms - own_ms, 0.0)
    scale = (busy_ms - exchange_ms) / times_ms.total()
    times_ms = Counter({category: scale * time_ms for category, time_ms in times_ms.items()})
    times_ms += Counter({COMMUNICATION: exchange_ms})
    for category, time_ms in [*times_ms.most_common(), (IDLE_TIME, wall_ms - busy_ms)]:
        yield {"category": category, "ms_per_step": time_ms, "share": time_ms / wall_ms}


def _category(row: Row, *, is_known: bool) -> str:
    """That of a kernel, by its name where what launched it is not known."""
    return row["category"] if is_known else category_by_name(row["name"]) or OTHER


def _times_of_kernels(each: Profiled) -> Counter[str]:
    is_known = each.trusts(KERNELS, "category")
    times_ms: Counter[str] = Counter()
    for row in each.rows(KERNELS, "name", "total_ms"):
        category = _category(row, is_known=is_known)
        if re.search("(?i)nchwToNhwc|nhwcToNchw", row["name"]):
            category = LAYOUT_CONVERSION
        times_ms[category] += row["total_ms"]
    return times_ms


def _mean(values: Sequence[float]) -> float:
    return quotient(sum(values), len(values))


ROWS_OF_PROFILE: Final[Mapping[Table, Callable[[Profiled], Iterable[Row]]]] = {
    TOP_OPERATIONS: top_operations,
    PHASES: phases,
    OPERATION_MEMORY: operation_memory,
    STEP_SHARES: _step_shares,
    STEP_CATEGORIES: _step_categories,
    IDLE_CAUSES: _idle_causes,
    TOP_KERNELS: top_kernels,
    TRACE_ADVICE: _advised,
    TRACE_UNANSWERED: lambda each: each.tables[UNANSWERED],
    TRACE_DOUBTS: lambda each: (
        {name: value for name, value in check.items() if name != "passed"} for check in each.failed
    ),
    TIMELINES: trusted_timeline,
    RANKS: _ranks,
    COLLECTIVES: lambda each: ranks.median_collectives(each.rows(ranks.COLLECTIVES)),
}
"""The rows of each table for one variant, without the columns that name it."""
