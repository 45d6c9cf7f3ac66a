"""What limits the profiled steps and what to try: rules as data, each with its threshold and the reason for it.

rows of the other tables, Trace -> Evidence -> each rule's findings -> rows of ADVICE, the most severe first
                                            -> rules without an answer -> rows of UNANSWERED

The severity of a finding is the share of the steps' time at stake. A rule that finds nothing does not apply; where the
trace lacks what the rule reads, or the quality gate spoils it, whether it applies is not resolved.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from gpu_report import number_format
from gpu_report.columns import Table, number, text
from gpu_report.errors import GpuReportError
from gpu_report.traces.grouping import BYTES_PER_MIB, Row
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import COPIES, KERNELS
from gpu_report.traces.memory import MEMORY
from gpu_report.traces.quality import Gate
from gpu_report.traces.sources import Wait, waits
from gpu_report.traces.steps import STEPS
from gpu_report.traces.trace import HOST, Trace

ADVICE: Final = Table(
    name="advice",
    meaning="One row per rule that applies: what limits the step, what was found, what to try; the most severe first.",
    columns=(
        text("rule", "Name of the rule."),
        text("finding", "What was found, in a sentence."),
        text("advice", "What to try."),
        number("value", "", "What was found."),
        number("threshold", "", "From where on the rule applies."),
        text("unit", "Unit of value and threshold."),
        text("place", "Source line or operation, where the trace tells one."),
    ),
)
UNANSWERED: Final = Table(
    name="unanswered",
    meaning="One row per rule of the advice that the trace cannot tell: whether it applies is not resolved.",
    columns=(text("rule", "Name of the rule."), text("reason", "Why, as a clause.")),
)
_NS_PER_S: Final = 1e9
_BEYOND_MEMORY: Final = 2**63
_PLACES: Final = 3
_TENSOR_CORES_SINCE: Final = 7
_SHARE_OF_THE_STEP: Final = ("host_busy_ms", "wall_ms")
"""Of the steps: where the profiler slowed the host, the steps took longer, and any share of their time is too low."""

_ELIGIBLE: Final = ("convolution", "matrix product")
_ELIGIBLE_FROM: Final = 0.10
"""Share of the device time from which on convolutions and matrix products are worth a word."""

Reads = Mapping[Table, tuple[str, ...]]
"""Columns by table."""


class UnansweredError(GpuReportError):
    """What a rule reads is missing or spoiled by the quality gate, so that whether it applies is not resolved."""


class Finding(NamedTuple):
    """What a rule found: its value, the share of the steps' time at stake, and the place where the trace shows one."""

    value: float
    at_stake: float
    text: str
    place: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence(Gate):
    """The tables by their declarations, any of which may be missing, the trace, and what the rule reads of them."""

    trace: Trace
    reads: Reads

    def rows(self, table: Table, *more: str) -> list[Row]:
        """The table's rows that the gate lets through for the columns that the rule reads, and for `more`.

        Raises:
            UnansweredError: the gate lets none through, or a number in them is missing.
        """
        columns = (*self.reads.get(table, ()), *more)
        rows = super().rows(table, *columns)
        for column in columns:
            why = [] if rows else self.reasons(table, column)
            if any(row[column] is None for row in rows):
                why = [f"its table {table.name} lacks {column}"]
            if why:
                raise UnansweredError(why[0])
        return rows

    def has(self, table: Table, *columns: str) -> bool:
        """Whether `rows` raises nothing."""
        try:
            self.rows(table, *columns)
        except UnansweredError:
            return False
        return True

    @property
    def all_steps_ms(self) -> float:
        """The time of all steps, also of those that the gate spoils: what sums over all steps are shares of.

        Raises:
            UnansweredError: the gate leaves no step, or they took no time.
        """
        self.rows(STEPS, "wall_ms")
        return _time_of(self.tables[STEPS])

    def share_of_steps(self, column: str) -> float:
        """A column of STEPS over the steps' time.

        Raises:
            UnansweredError: one of the two cannot be trusted, or there is no time.
        """
        rows = self.rows(STEPS, column, "wall_ms")
        return float(sum(row[column] for row in rows)) / _time_of(rows)


def _time_of(steps: Sequence[Row]) -> float:
    wall_ms = float(sum(row["wall_ms"] for row in steps))
    if not wall_ms:
        raise UnansweredError("its steps took no time")
    return wall_ms


Find = Callable[[Evidence], Iterator[Finding]]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: it applies from the threshold on, or under it where `is_floor`.

    `reason` says why the threshold is where it is. `reads` are the columns that it rests on; without one that it
    comes to need, `find` raises UnansweredError.
    """

    name: str
    threshold: float
    unit: str
    reason: str
    advice: str
    find: Find
    is_floor: bool = False
    reads: Reads = msgspec.field(default_factory=dict)

    def applies(self, finding: Finding) -> bool:
        """Whether the finding is beyond the threshold."""
        return finding.value < self.threshold if self.is_floor else finding.value >= self.threshold


def advise(tables: Mapping[Table, Sequence[Row]], trace: Trace) -> dict[Table, list[Row]]:
    """The rows of ADVICE and UNANSWERED that follow from a trace's other tables, the table of quality among them."""
    found: list[tuple[float, Row]] = []
    unanswered = []
    for rule in RULES:
        try:
            findings = [*rule.find(Evidence(tables=tables, trace=trace, reads=rule.reads))]
        except UnansweredError as error:
            unanswered.append({"rule": rule.name, "reason": str(error)})
        else:
            found += [(each.at_stake, _advice(rule, each)) for each in findings if rule.applies(each)]
    return {ADVICE: [row for _, row in sorted(found, key=lambda pair: -pair[0])], UNANSWERED: unanswered}


def _advice(rule: Rule, finding: Finding) -> Row:
    return {
        "rule": rule.name,
        "finding": finding.text,
        "advice": rule.advice,
        "value": float(finding.value),
        "threshold": rule.threshold,
        "unit": rule.unit,
        "place": finding.place,
    }


def _loader(evidence: Evidence) -> Iterator[Finding]:
    share = evidence.share_of_steps("loader_ms")
    text = f"The loop waited for the data loader, and nothing else ran, in {_part(share)} of the time."
    yield Finding(share, share, text)


def _communication(evidence: Evidence) -> Iterator[Finding]:
    share = evidence.share_of_steps("communication_ms")
    yield Finding(share, share, f"Exchange between processes that no kernel hid took {_part(share)} of the time.")


def _device_busy(evidence: Evidence) -> Iterator[Finding]:
    """What the loader has at stake is its own rule's."""
    share = evidence.share_of_steps("device_busy_ms")
    unexplained = 1 - share - evidence.share_of_steps("loader_ms")
    yield Finding(share, unexplained, f"The accelerator worked in {_part(share)} of the time.")


def _tensor_cores(evidence: Evidence) -> Iterator[Finding]:
    """An operation counts with all its kernels as soon as one uses tensor cores, since some only change the layout."""
    if _device_property(evidence.trace, "computeMajor", "what its accelerator can do") < _TENSOR_CORES_SINCE:
        return
    all_rows = evidence.rows(KERNELS)
    rows = [row for row in all_rows if row["category"] in _ELIGIBLE]
    with_them = {row["operation"] for row in rows if row["tensor_cores"] == "yes"}
    without = [row for row in rows if row["operation"] not in with_them]
    eligible_ms, without_ms, all_ms = (sum(row["total_ms"] for row in each) for each in (rows, without, all_rows))
    if not without or eligible_ms < _ELIGIBLE_FROM * all_ms:
        return
    longest = max(without, key=lambda row: row["total_ms"])
    share = without_ms / eligible_ms
    text = f"{_part(share)} of the time of convolutions and matrix products has no kernel known to use tensor cores."
    yield Finding(share, min(1.0, without_ms / evidence.all_steps_ms), text, longest["source"] or longest["operation"])


def _peak_memory(evidence: Evidence) -> Iterator[Finding]:
    limit_bytes = _device_property(evidence.trace, "totalGlobalMem", "how much memory its accelerator has")
    rows = [row for row in evidence.rows(MEMORY) if row["device"] != HOST]
    totals = [row[column] for row in rows for column in ("allocated_mib", "reserved_mib")]
    known = [total for total in totals if total is not None and not math.isnan(total)]
    if not known:
        raise UnansweredError("it has no memory of an accelerator")
    share = max(known) / (limit_bytes / BYTES_PER_MIB)
    yield Finding(share, 0, f"At the peak {_part(share)} of the accelerator's memory was taken.")


def _launch_bound(evidence: Evidence) -> Iterator[Finding]:
    wall_of = {row["step"]: row["wall_ms"] for row in evidence.rows(STEPS)}
    launches = evidence.rows(LAUNCHES)
    rows = [row for row in launches if wall_of.get(row["step"])]
    if launches and not rows:
        raise UnansweredError("of no step both wall time and launches are reliable")
    if rows:
        waited_ms = sum(row["launch_bound_share"] * wall_of[row["step"]] for row in rows)
        share = waited_ms / sum(wall_of[row["step"]] for row in rows)
        yield Finding(share, share, f"The accelerator waited for the host's next launch in {_part(share)} of the time.")


def _pageable_copies(evidence: Evidence) -> Iterator[Finding]:
    rows = [row for row in evidence.rows(COPIES) if row["host_memory"] == "pageable"]
    if rows:
        copies = sum(row["copies"] for row in rows)
        share = sum(row["total_ms"] for row in rows) / evidence.all_steps_ms
        yield Finding(share, share, f"{copies} copies from or to pageable memory took {_part(share)} of the time.")


def _synchronising_calls(evidence: Evidence) -> Iterator[Finding]:
    """How often a call waits does not depend on how fast the host is; how long it waits does.

    The copies show which waits belong to an upload.
    """
    evidence.rows(COPIES)
    trusted = {row["step"] for row in evidence.rows(STEPS)}
    steps = tuple(step for step in evidence.trace.steps if step.number in trusted)
    if not steps:
        return
    idle = evidence.rows(IDLE) if evidence.has(IDLE, "cause", "total_ms") else ()
    at_stake = sum(row["total_ms"] for row in idle if row["cause"] == "synchronisation") / evidence.all_steps_ms
    within = msgspec.structs.replace(evidence.trace, steps=steps)
    found = [wait for wait in waits(within) if wait.operation or wait.source]
    for wait in found[:_PLACES]:
        per_step, waited = wait.calls / len(steps), number_format.duration(wait.total_ns / _NS_PER_S / len(steps))
        took = f", which took {waited.plain()} of it" if evidence.has(STEPS, "host_busy_ms") else ""
        text = f"{_asked_by(wait)} made the host wait {_often(per_step)} a step{took}."
        yield Finding(per_step, at_stake, text, wait.source or wait.operation)


def _short_kernels(evidence: Evidence) -> Iterator[Finding]:
    """Silent of graphs, which spoil the delay: their kernels are not launched one by one."""
    rows = evidence.rows(LAUNCHES)
    launches = sum(row["launches"] for row in rows)
    if launches:
        share = sum(row["launches"] * row["short_share"] for row in rows) / launches
        per_step = number_format.count(launches / len(rows)).plain()
        yield Finding(share, 0, f"{_part(share)} of {per_step} launches a step ran for less than 10 µs.")


def _part(share: float) -> str:
    return number_format.share(share).plain()


def _often(times: float) -> str:
    return "once" if times == 1 else f"{number_format.quantity(times).plain()} times"


def _asked_by(wait: Wait) -> str:
    """As the program wrote it; what waits outside of every operation, asked for nothing else."""
    return {"": "synchronize()", "aten::item": "item()", "aten::to": "to() or cpu()"}.get(
        wait.operation, wait.operation
    )


def _device_property(trace: Trace, key: str, meaning: str) -> int:
    """A property of the first device; where there are several they are alike in practice."""
    found = trace.first_device.get(key)
    if not isinstance(found, int) or not 0 < found < _BEYOND_MEMORY:
        raise UnansweredError(f"it does not say {meaning}")
    return found


RULES: Final = (
    Rule(
        name="data loader",
        threshold=0.05,
        unit="1",
        reason="Below a twentieth, a loader without any cost would not save more than steps differ among each other.",
        advice="Give the DataLoader worker processes (num_workers) and a longer prefetch; decode less per sample.",
        find=_loader,
        reads={STEPS: ("loader_ms", "wall_ms")},
    ),
    Rule(
        name="communication",
        threshold=0.10,
        unit="1",
        reason="A tenth of each step, and so of each accelerator, is bought and not used.",
        advice="Exchange gradients while the backward pass runs (DistributedDataParallel), less often, or in 16 bits.",
        find=_communication,
        reads={STEPS: ("communication_ms", *_SHARE_OF_THE_STEP)},
    ),
    Rule(
        name="accelerator busy",
        threshold=0.50,
        unit="1",
        reason="Under a half, the host and not the accelerator decides how long a step takes.",
        advice="See what it waits for; a larger batch, CUDA graphs or torch.compile give it more work per launch.",
        find=_device_busy,
        reads={STEPS: ("device_busy_ms", "loader_ms", *_SHARE_OF_THE_STEP)},
        is_floor=True,
    ),
    Rule(
        name="tensor cores",
        threshold=0.50,
        unit="1",
        reason="Names do not always tell, so that most of the time, and not one kernel, has to be without.",
        advice='Train in bfloat16 with torch.autocast, or allow TF32: torch.set_float32_matmul_precision("high").',
        find=_tensor_cores,
        reads={KERNELS: ("total_ms", "category", "operation"), STEPS: ("wall_ms",)},
    ),
    Rule(
        name="peak memory",
        threshold=0.90,
        unit="1",
        reason="A tenth is what fragmentation and a larger last batch may need on top.",
        advice="Before it runs out: a smaller batch with gradient accumulation, activation checkpointing, or 16 bits.",
        find=_peak_memory,
        reads={MEMORY: ("device",)},
    ),
    Rule(
        name="launch-bound",
        threshold=0.20,
        unit="1",
        reason="Without this time the step would be at least 1.25 times as fast (Amdahl's law).",
        advice="Launch less often: torch.compile, CUDA graphs, a fused optimizer, or a larger batch.",
        find=_launch_bound,
        reads={LAUNCHES: ("launch_bound_share",), STEPS: ("wall_ms",)},
    ),
    Rule(
        name="pageable copies",
        threshold=0.01,
        unit="1",
        reason="Pinning costs one argument, so a hundredth of the step is worth it.",
        advice="Pin the batches (DataLoader's pin_memory=True) and copy them with to(device, non_blocking=True).",
        find=_pageable_copies,
        reads={COPIES: ("total_ms", "host_memory"), STEPS: _SHARE_OF_THE_STEP},
    ),
    Rule(
        name="synchronising calls",
        threshold=1.0,
        unit="1/step",
        reason="Once in every step the host loses its lead over the accelerator; once in a hundred it does not matter.",
        advice=(
            "Keep losses and metrics on the accelerator, and fetch them every so many steps; bf16 spares the wait that "
            "scaling the gradients of fp16 takes."
        ),
        find=_synchronising_calls,
        reads={COPIES: ("copies",), STEPS: ("wall_ms",)},
    ),
    Rule(
        name="short kernels",
        threshold=0.50,
        unit="1",
        reason="Launching takes the host some 5 to 10 µs, so most of the work cannot outlast its launch.",
        advice="Fuse the kernels: torch.compile, a fused optimizer (fused=True), a fused loss; or enlarge the batch.",
        find=_short_kernels,
        reads={LAUNCHES: ("launches", "short_share", "median_delay_us")},
    ),
)
