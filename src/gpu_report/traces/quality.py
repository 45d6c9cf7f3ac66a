"""Which numbers of a trace can be trusted: checks with their limits and what they invalidate, and
the gate.

Trace, HostCalls, DeviceWork -> rows of QUALITY -> Gate: the rows of the other tables that can be
trusted
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gpu_report.errors import GpuReportError
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.traces.attribution import (
    EVALUATING,
    DeviceWork,
    HostCalls,
    are_for,
    at_positions,
    begins_with_earlier_work,
    is_kernel,
    last_with_id,
    operations_around,
    step_at,
)
from gpu_report.traces.grouping import NS_PER_MS, Row, counts, fits, grouped, sums
from gpu_report.traces.nesting import cover_of
from gpu_report.traces.steps import SHARES, devices_of_work
from gpu_report.traces.trace import HOST, NONE, Trace
from gpu_report.traces.vendors import NAMES

QUALITY: Final = Table(
    name="quality",
    meaning="One row per check of the trace, or of one step: whether its numbers can be trusted.",
    columns=(
        text("check", "Name of the check."),
        whole("step", "1", "Number of the step; -1 where the check is of the whole trace."),
        flag("passed", "Whether it passed."),
        number("value", "", "What was found."),
        number("limit", "", "What may be found at most, or at least; the text says which."),
        text("text", "What was found, in a sentence."),
        text(
            "spoils",
            "Tables and columns not to be trusted if it fails, such as steps.device_idle_share.",
        ),
    ),
)
ON_DEVICE: Final = " on device"
"""Follows a table or column that a check invalidates where only its rows of the accelerator are not
reliable.
"""

WHOLE_TRACE: Final = -1
"""In place of a step's number, where a check covers the whole trace."""

NOT_RELIABLE: Final = "not reliable"
"""Printed in place of a number that the quality gate does not trust."""

MOST_LOST: Final = 0.01
"""A share of work, launches or time up to here may be lost or wrong: steps of one run differ by
more.
"""

MOST_DROPPED: Final = 0.001
"""A share of events up to here may be dropped; their times are unknown, so the limit is stricter
than MOST_LOST.
"""

AS_TIMED: Final = "profiled as timed"
AHEAD: Final = "host ahead of the device"
MOST_AHEAD: Final = 1.05
"""Device work that the steps launched over their own time: up to here they differ by what was
launched before them and ends in them.
"""

LEAST_LAST_STEP: Final = 0.5
"""The last step is at least this much of the shortest other one; steps alike do not halve by
chance.
"""

_TIMES_ON_DEVICE: Final = tuple(
    f"{table}{ON_DEVICE}" for table in ("operations", "categories", "phases")
)
_RANGES_ON_DEVICE: Final = tuple(
    f"ranges.{column}" for column in ("device_ms", "device_share", "kernels")
)
_MODULES_ON_DEVICE: Final = (
    *(name.replace("ranges", "modules") for name in _RANGES_ON_DEVICE),
    *("modules.own_device_ms", "modules.backward_ms", "operation_shapes"),
)
_PICTURE_ON_DEVICE: Final = f"timeline{ON_DEVICE}"
WORK_ON_DEVICE: Final = (
    *(f"steps.{part}_ms" for part in (*SHARES, "other", "device_busy")),
    *("steps.device_idle_share", "steps.exposed_copy_ms", "steps.exposed_communication_ms"),
    *("idle", "launches", "devices", "kernels", "copies", "ranks", "collectives"),
    *(_PICTURE_ON_DEVICE, *_TIMES_ON_DEVICE, *_RANGES_ON_DEVICE, *_MODULES_ON_DEVICE),
)
"""What is measured by the device's events, and so is missing where they were lost."""

_OF_STEPS: Final = (
    *(name for name in WORK_ON_DEVICE if name.startswith("steps.")),
    *("launches", "devices"),
)
_OF_ONE_DEVICE: Final = (
    *(name for name in WORK_ON_DEVICE if name.startswith("steps.") and name != "steps.loader_ms"),
    *("idle", "launches", "ranks", "collectives"),
)
_BY_LAUNCH: Final = (
    *_TIMES_ON_DEVICE,
    *(
        f"kernels.{column}"
        for column in ("launch_delay_us", "category", "operation", "module", "source")
    ),
    f"timeline.category{ON_DEVICE}",
    *_MODULES_ON_DEVICE,
)

MOST_UNKNOWN_IN_GRAPHS: Final = 0.02
"""A share of the device time in graphs without known operations up to here changes no share of an
operation by more.
"""

MOST_OVERLAP: Final = 0.05
"""A share of the time in which kernels of one stream overlap up to here: those of a graph begin
some microseconds before the one before them ends (CUDA Programming Guide, "Programmatic Dependent
Launch").
"""


class UnansweredError(GpuReportError):
    """What an answer needs is missing or not reliable."""


@dataclass(frozen=True, eq=False)
class Gate:
    """The tables of a trace, and which of their numbers its checks let through."""

    tables: Mapping[Table, Sequence[Row]]

    @cached_property
    def failed(self) -> list[Row]:
        """The checks that failed, rows of QUALITY; only these invalidate anything."""
        return [check for check in self.tables.get(QUALITY, ()) if not check["passed"]]

    def rows(self, table: Table, *columns: str) -> list[Row]:
        """The table's rows without those of which a failed check invalidates one of the columns, by
        default any column.

        A check of one step invalidates that step of a table by step, and all rows of any other
        table.
        """
        rows = [*self.tables.get(table, ())]
        if not self.failed:
            return rows
        names = columns or table.column_names
        places = {_place(row) for row in rows}
        kept = {place for place in places if self.trusts(table, *names, step=place[0], on=place[1])}
        return [row for row in rows if _place(row) in kept]

    def required(self, table: Table, *columns: str) -> list[Row]:
        """The table's rows as `rows` gives them, where their numbers are all there.

        Raises:
            UnansweredError: no row can be trusted, or a number in them is missing.
        """
        rows = self.rows(table, *columns)
        for column in columns:
            why = [] if rows else self.reasons(table, column)
            if any(row[column] is None for row in rows):
                why = [f"its table {table.name} lacks {column}"]
            if why:
                raise UnansweredError(why[0])
        return rows

    def withheld(self, table: Table) -> dict[str, list[bool]]:
        """For each column of which the checks withhold anything, whether they do in each row.

        A text is withheld where a check names its column, and not with its whole table; the number
        of a step or a rank never is.
        """
        places = [_place(row) for row in self.tables.get(table, ())]
        found = {}
        for column in table.columns if self.failed else ():
            hidden = {
                (step, device): column.name not in ("step", "rank")
                and not self.trusts(table, column.name, step=step, on=device)
                and (column.dtype != "str" or self.trusts(table, step=step, on=device))
                for step, device in {*places}
            }
            if any(hidden.values()):
                found[column.name] = [hidden[place] for place in places]
        return found

    def trusts(self, table: Table, *columns: str, step: int | None = None, on: str = "") -> bool:
        """Whether the numbers of all these columns may be shown; arguments as for `reasons`."""
        return not self.reasons(table, *columns, step=step, on=on)

    def reasons(
        self, table: Table, *columns: str, step: int | None = None, on: str = ""
    ) -> list[str]:
        """Why numbers of these columns may not be shown, one sentence per failed check.

        `step` asks for the numbers of one step, which the other steps' failures do not touch; `on`
        is the device that the numbers' rows name, `cpu` for the host.
        """
        names = {table.name, *(f"{table.name}.{column}" for column in columns)}
        if on != HOST:
            names |= {f"{name}{ON_DEVICE}" for name in names}
        concerning = [
            check for check in self.failed if step is None or check["step"] in (step, WHOLE_TRACE)
        ]
        return [
            *dict.fromkeys(check["text"] for check in concerning if names & set(invalidated(check)))
        ]


def _place(row: Row) -> tuple[int | None, str]:
    return row.get("step"), row.get("device", "")


def invalidated(check: Row) -> list[str]:
    """The tables and columns that a row of QUALITY invalidates if its check fails."""
    return [name for name in check["spoils"].split(", ") if name]


def row_of(
    check: str,
    value: float,
    limit: float,
    *,
    text: str,
    invalidates: Iterable[str],
    passed: bool | None = None,
    step: int = WHOLE_TRACE,
) -> Row:
    """One row of QUALITY; by default a check passes up to its limit."""
    return {
        "check": check,
        "step": step,
        "passed": bool(value <= limit if passed is None else passed),
        "value": float(value),
        "limit": float(limit),
        "text": text,
        "spoils": ", ".join(invalidates),
    }


def quality_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of QUALITY; checks of a device are left out of a trace that gave none any work. A
    call alone is no work: the profiler itself waits for every device at its end.

    What a check invalidates are names separated by commas, as `table`, `table.column`, or either
    followed by ON_DEVICE.
    """
    rows = [*_checks_of_host(trace, calls)]
    if trace.device is not None or are_for("launching", trace, calls).any():
        return [*_checks_of_losses(trace, calls, work), *_checks_of_work(trace, calls, work), *rows]
    return rows


def _checks_of_losses(trace: Trace, calls: HostCalls, work: DeviceWork) -> Iterator[Row]:
    begin_ns, end_ns = trace.step_bounds
    begun = np.searchsorted(np.sort(trace.work.start_ns), end_ns, side="left")
    ended = np.searchsorted(np.sort(trace.work.end_ns), begin_ns, side="right")
    for step, pieces in zip(trace.steps, (begun - ended).tolist(), strict=True):
        # A step without any event of the device means a recording that lost them, no idle device.
        yield row_of(
            "device work in the step",
            pieces,
            1,
            passed=pieces >= 1,
            text=f"{pieces} kernels, copies and fills ran in step {step.number}; at least one was "
            "expected",
            invalidates=WORK_ON_DEVICE,
            step=step.number,
        )
    # Work that began before the recording is not in it. Work that was launched before it waited
    # for something, and the device may have been busy with that.
    if begins_with_earlier_work(calls):
        unknown_ns = (trace.work.start_ns.min() - begin_ns).clip(0, end_ns - begin_ns)
        shares = unknown_ns / (end_ns - begin_ns)
        for step, share in zip(trace.steps, shares.tolist(), strict=True):
            yield row_of(
                "begin of the recording",
                share,
                MOST_LOST,
                text=f"in {share:.1%} of step {step.number} the device may have been at work on "
                f"what was launched before the recording; at most {MOST_LOST:.0%}",
                invalidates=_OF_STEPS,
                step=step.number,
            )
    # A host that only launches is not held up until the device's queue is full. What is known of
    # the step's own time is right; but the training's steps take longer.
    launched = np.flatnonzero(calls.work.launch != NONE)
    in_step = step_at(trace, calls.spans.start_ns[calls.work.launch[launched]]) != NONE
    device_ns = cover_of(trace.work, launched[in_step]).total_ns
    wall_ns = int((end_ns - begin_ns).sum())
    yield row_of(
        AHEAD,
        device_ns / wall_ns,
        MOST_AHEAD,
        text=(
            f"the steps took {wall_ns / NS_PER_MS:.4g} ms on the host and launched "
            f"{device_ns / NS_PER_MS:.4g} ms of device work"
            + (
                ": the host ran ahead, and a step of the training takes as long as the device does"
                if device_ns > MOST_AHEAD * wall_ns
                else ""
            )
        ),
        invalidates=(),
    )
    # What each operation took on the device is too low by the share of work without a launch.
    share = _share(int((work.call == NONE).sum()), len(work.call))
    yield row_of(
        "launch of the work",
        share,
        MOST_LOST,
        text=f"the launch of {share:.1%} of the device work is not in the trace; at most "
        f"{MOST_LOST:.0%}",
        invalidates=(*_BY_LAUNCH, "launches", "idle.cause"),
    )
    # A profiler out of memory drops events without a word. Launches of copies and memsets are left
    # out: cuDNN and cuBLAS fill buffers of no bytes, for which nothing runs.
    # What is launched while a graph is captured, on whatever thread, as by autograd, runs when the
    # graph does. Work without any number of its launch, as one library's on AMD, is the work of
    # launches that have one.
    begun, ended = (
        np.searchsorted(
            np.sort(calls.spans.start_ns[are_for(purpose, trace, calls)]),
            calls.spans.start_ns,
        )
        for purpose in ("begins capture", "ends capture")
    )
    is_launch = (
        are_for("launching", trace, calls)
        & calls.in_step
        & (calls.spans.correlation > 0)
        & (begun <= ended)
    )
    is_lost = is_launch & ~np.isin(calls.spans.correlation, trace.work.correlation)
    unnumbered = int(((work.correlation <= 0) & is_kernel(trace, work)).sum())
    share = _share(max(int(is_lost.sum()) - unnumbered, 0), int(is_launch.sum()))
    yield row_of(
        "work of the launches",
        share,
        MOST_LOST,
        text=(
            f"the work of {share:.1%} of the launches is not in the trace; at most {MOST_LOST:.0%}"
        ),
        invalidates=WORK_ON_DEVICE,
    )
    share = _lost_by_replays(trace, calls)
    yield row_of(
        "kernels of the graphs",
        share,
        MOST_LOST,
        text=f"replays of one graph lack up to {share:.1%} of its kernels; at most {MOST_LOST:.0%}",
        invalidates=WORK_ON_DEVICE,
    )


def _lost_by_replays(trace: Trace, calls: HostCalls) -> float:
    """The largest share of its kernels that a graph's replay lacks against its fullest one.

    Replays at the same place of each step that begin with the same kernel are of one graph; where
    steps replay different numbers of graphs nothing is known.
    """
    step = step_at(trace, calls.spans.start_ns)
    replays = np.flatnonzero(are_for("replaying", trace, calls) & (step != NONE))
    replays = replays[np.argsort(calls.spans.start_ns[replays], kind="stable")]
    of_step = np.bincount(step[replays], minlength=len(trace.steps))
    if not of_step.any() or len(set(of_step.tolist())) > 1:
        return 0.0
    replay = last_with_id(trace.work.correlation, calls.spans.correlation, replays)
    kernels = counts(replay[replay != NONE], len(calls.spans))[replays]
    latest_first = np.argsort(-trace.work.start_ns, kind="stable")
    first = last_with_id(calls.spans.correlation[replays], trace.work.correlation, latest_first)
    place = np.arange(len(replays)) % of_step[0]
    begins_with = at_positions(trace.work.name, first, missing=NONE)
    _, graph = grouped(place * (len(trace.names) + 1) + begins_with + 1)
    fullest = np.zeros_like(kernels)
    np.maximum.at(fullest, graph, kernels)
    return float((1 - kernels / fullest[graph].clip(min=1)).max())


def _checks_of_work(trace: Trace, calls: HostCalls, work: DeviceWork) -> Iterator[Row]:
    """Device work whose operation is not known, or that cannot have run as it is written."""
    # Which operation a replayed kernel belongs to was known when the graph was captured; only an
    # uncaptured step beside the trace shows it. How busy the device is, is as true as without a
    # graph. A replayed graph asks for no memory: it was given when the graph was captured, so that
    # the table of allocations shows only what runs outside of the graph.
    all_ns = int(work.duration_ns.sum())
    around = operations_around(calls.parent, calls.is_driver_call)
    is_unknown = work.in_graph & (work.call == at_positions(around, work.launch))
    share = _share(int(work.duration_ns[is_unknown].sum()), all_ns)
    yield row_of(
        "work outside of graphs",
        share,
        MOST_UNKNOWN_IN_GRAPHS,
        text=f"graphs launched {share:.1%} of the device time whose operations are unknown; at "
        f"most {MOST_UNKNOWN_IN_GRAPHS:.0%}",
        invalidates=(*_BY_LAUNCH, f"allocations{ON_DEVICE}"),
    )
    share = _share(int(work.duration_ns[work.in_graph].sum()), all_ns)
    yield row_of(
        "work launched one by one",
        share,
        MOST_LOST,
        text=f"kernels of CUDA graphs, which have no launch of their own, took {share:.1%} of the "
        f"device time; at most {MOST_LOST:.0%}",
        invalidates=(
            "kernels.launch_delay_us",
            "launches.median_delay_us",
            "launches.mean_queue",
            "launches.longest_queue",
        ),
    )
    # Busy and idle are of one device: where one waits for another, none is idle in their union.
    # A device with hardly any work, as a rank leaves on the first one, changes no share.
    names, of_device = devices_of_work(trace)
    times_ns = sums(of_device, trace.work.duration_ns, len(names))
    devices = int((times_ns > MOST_LOST * times_ns.sum()).sum())
    yield row_of(
        "one device",
        devices,
        1,
        text=(f"{devices} devices worked, each with its own share in the table devices; at most 1"),
        invalidates=_OF_ONE_DEVICE,
    )
    # One stream, which the profiler shows as a thread of its device, runs one kernel after the
    # other. CUDA allows a kernel to begin while the one before it ends (programmatic dependent
    # launch), for some microseconds.
    share = _share(all_ns - cover_of(work.laid_out).total_ns, all_ns)
    yield row_of(
        "one after the other in a stream",
        share,
        MOST_OVERLAP,
        text=f"{share:.1%} of the device time overlaps other work of the same stream; at most "
        f"{MOST_OVERLAP:.0%}",
        invalidates=(
            *("kernels", _PICTURE_ON_DEVICE, *_TIMES_ON_DEVICE),
            *(*_RANGES_ON_DEVICE, *_MODULES_ON_DEVICE),
        ),
    )


def _checks_of_host(trace: Trace, calls: HostCalls) -> Iterator[Row]:
    # The reader leaves these events out, with whatever time they took. Marks and Python functions
    # that lack their end take no time from any number.
    yield row_of(
        "durations",
        _share(
            trace.negative_durations,
            len(trace.calls) + len(trace.work) + trace.negative_durations,
        ),
        MOST_DROPPED,
        text=f"{trace.negative_durations} calls and kernels of negative duration were left out; at "
        f"most {MOST_DROPPED:.1%} of all",
        invalidates=(
            *("operations", "kernels", "copies", "categories", "phases", "timeline", "steps"),
            *("idle", "launches", "devices", "ranks", "collectives"),
            *("ranges", "modules", "operation_shapes"),
        ),
    )
    # A call that outlives the one it began in takes time from it. Clocks of a nanosecond's grain
    # make two calls overlap by one here and there, so time is compared and not a count.
    inner = np.flatnonzero((calls.parent != NONE) & calls.in_step)
    outlived_ns = calls.spans.end_ns[inner] - calls.spans.end_ns[calls.parent[inner]]
    share = _share(int(np.maximum(outlived_ns, 0).sum()), int(calls.self_ns[calls.in_step].sum()))
    yield row_of(
        "calls inside calls",
        share,
        MOST_LOST,
        text=f"calls outlive the calls they began in by {share:.1%} of all time; at most "
        f"{MOST_LOST:.0%}",
        invalidates=(
            *(f"operations.{column}" for column in ("self_ms", "total_ms", "self_share")),
            *("categories", "phases", "timeline.category"),
        ),
    )
    # An optimizer needs gradients. A graph may hold the backward pass, which shows none within.
    is_step = fits(trace.names, trace.marks.name, lambda name: name.startswith("Optimizer.step"))
    if (is_step & (step_at(trace, trace.marks.start_ns) != NONE)).any():
        functions = re.compile(rf"{EVALUATING}|{NAMES['replaying'].pattern}").match
        found = int((calls.in_step & fits(trace.names, calls.spans.name, functions)).sum())
        yield row_of(
            "backward pass",
            found,
            1,
            passed=found >= 1,
            text=f"{found} functions of a backward pass or graphs ran in the steps of the "
            "optimizer; at least one was expected",
            invalidates=("phases", "timeline.category"),
        )
    # A recording that ends in the middle of a step leaves a short one.
    *others, last = (step.end_ns - step.start_ns for step in trace.steps)
    if len(others) >= 2:
        ratio = last / min(others)
        yield row_of(
            "whole last step",
            ratio,
            LEAST_LAST_STEP,
            passed=ratio >= LEAST_LAST_STEP,
            text=f"the last step took {ratio:.2f} times the shortest other one; at least "
            f"{LEAST_LAST_STEP}",
            invalidates=("steps", "launches", "timeline", "ranks", "collectives"),
            step=trace.steps[-1].number,
        )
    # Without marks the whole recording counts as one step, so only its name is wrong.
    marked = len(trace.steps) if trace.has_steps else 0
    yield row_of(
        "marked steps",
        marked,
        1,
        passed=marked >= 1,
        text=f"{marked} steps are marked"
        if marked
        else "no step is marked: the whole recording counts as one",
        invalidates=(),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
