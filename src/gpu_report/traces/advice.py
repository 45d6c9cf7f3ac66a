"""What limits the profiled steps and what to try: advice as data, each with its threshold and the
reason for it.

rows of the other tables, Trace -> what each advice finds -> rows of ADVICE, the most severe first
                                -> advice without an answer -> rows of UNANSWERED

Severity is the share of the steps' time at stake. Advice that finds nothing does not apply; where
the trace lacks what it reads, or the quality gate does not trust it, whether it applies is not
resolved.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import msgspec

from gpu_report.printing import number_format
from gpu_report.storage.columns import Table, number, text
from gpu_report.traces.attribution import EVALUATING
from gpu_report.traces.grouping import BYTES_PER_MIB, Row
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import COPIES, KERNELS
from gpu_report.traces.memory import MEMORY
from gpu_report.traces.quality import Gate, UnansweredError
from gpu_report.traces.ranges import waits
from gpu_report.traces.steps import STEPS
from gpu_report.traces.trace import HOST, Trace
from gpu_report.traces.vendors import IN_BF16_OR_TF32, MATRIX_CORES, first_fit

ADVICE: Final = Table(
    name="advice",
    meaning="One row per rule that applies: what limits the step, what was found, what to try; "
    "the most severe first.",
    columns=(
        text("rule", "Name of the rule."),
        text("finding", "What was found, in a sentence."),
        text("advice", "What to try."),
        number("value", "", "What was found."),
        number("threshold", "", "From where on the rule applies."),
        text("unit", "Unit of value and threshold."),
        text("place", "Source line or operation, where the trace has one."),
    ),
)
UNANSWERED: Final = Table(
    name="unanswered",
    meaning="One row per rule of the advice that the trace does not show: whether it applies is "
    "not resolved.",
    columns=(text("rule", "Name of the rule."), text("reason", "Why, as a clause.")),
)
_WHOLE_STEP: Final = ("host_busy_ms", "wall_ms")
"""Of the steps: where the profiler slowed the host, the steps took longer, and any share of their
time is too low.
"""

_TRAINS: Final = re.compile(rf"{EVALUATING}|Optimizer\.").match
_FEWER_EXCHANGES: Final = (
    "Split the model over fewer devices, or fuse the exchange with what follows it (all-reduce and "
    "normalization in one kernel)."
)
_ELIGIBLE_FROM: Final = 0.10
"""Share of the device time from which on operations that tensor cores can do are worth a word."""

UNRECORDED: Final = "nothing recorded"
"""Name of the advice about time without an operation, a kernel, a driver call or the loader."""

_IN_CUDNN: Final = "torch.backends.cudnn.allow_tf32 = True (PyTorch's default)"
_TF32: Final = {
    "matrix product": 'torch.set_float32_matmul_precision("high")',
    "convolution": _IN_CUDNN,
    "recurrent": _IN_CUDNN,
}
"""What allows TF32 in float32, by category."""

_ASKED_BY: Final = {"": "synchronize()", "aten::item": "item()", "aten::to": "to() or cpu()"}
"""Operations that wait as the program wrote them; what waits outside of every operation asked for
nothing else.
"""


class Found(NamedTuple):
    """A value with its sentence, the share of the steps' time at stake, the place where the trace
    shows one, and what to try where that is not the same on every device.
    """

    value: float
    at_stake: float
    text: str
    place: str = ""
    remedy: str = ""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What to try where a value is beyond the threshold: from there on, or under it where
    `is_floor`; and where at least `least_at_stake` of the steps' time is at stake.

    `reason` says why the threshold is where it is. `find` takes a trace's tables and the trace,
    and raises UnansweredError where they lack what it reads.

    The other fields are for the report of a study, which asks the `question` of the configurations
    that are `asked_of`; it is empty where the report does not ask, as where the threshold
    `is_floor`. There `holds` is followed by 'in ...' and `whether` by 'is too close to call';
    `measure` says what is compared with the threshold, `label` the same in short. `done_by` are
    options that do what is advised: if they were measured and do not pay, nothing is recommended.
    `helpful` are the options and precisions whose gain is that of following the advice.
    """

    name: str
    threshold: float
    unit: str
    reason: str
    remedy: str
    find: Callable[[Gate, Any], Iterator[Found]]
    is_floor: bool = False
    least_at_stake: float = 0.0
    question: str = ""
    asked_of: Literal["all", "GPUs", "exchanging processes"] = "GPUs"
    holds: str = ""
    whether: str = ""
    measure: str = ""
    label: str = ""
    done_by: Sequence[str] = ()
    helpful: Sequence[str] = ()

    def is_beyond(self, value: float) -> bool:
        """Whether a value is beyond the threshold."""
        return value < self.threshold if self.is_floor else value >= self.threshold

    def applies(self, found: Found) -> bool:
        """Whether what was found is beyond the threshold, with enough at stake."""
        return self.is_beyond(found.value) and found.at_stake >= self.least_at_stake


def weigh(
    tables: Mapping[Table, Sequence[Row]], trace: Trace | None
) -> tuple[list[tuple[float, Row]], list[Row]]:
    """The rows of ADVICE that follow from a trace's other tables, the table of quality among them,
    each with the share of the steps' time at stake, and the rows of UNANSWERED.
    """
    gate = Gate(tables)
    applying: list[tuple[float, Row]] = []
    unanswered = []
    for advice in ALL_ADVICE:
        try:
            findings = list(advice.find(gate, trace))
        except UnansweredError as error:
            unanswered.append({"rule": advice.name, "reason": str(error)})
            continue
        for found in filter(advice.applies, findings):
            row = {
                "rule": advice.name,
                "finding": found.text,
                "advice": found.remedy or advice.remedy,
                "value": float(found.value),
                "threshold": advice.threshold,
                "unit": advice.unit,
                "place": found.place,
            }
            applying.append((found.at_stake, row))
    return sorted(applying, key=lambda pair: -pair[0]), unanswered


def _share_of_time(steps: Sequence[Row], column: str) -> float:
    return float(sum(row[column] for row in steps)) / _time_of(steps)


def _time_of(steps: Sequence[Row]) -> float:
    wall_ms = float(sum(row["wall_ms"] for row in steps))
    if not wall_ms:
        raise UnansweredError("its steps took no time")
    return wall_ms


def _all_steps_ms(gate: Gate, *columns: str) -> float:
    """The time of all steps, also of those that the gate does not trust: sums over all steps are
    shares of it.
    """
    gate.required(STEPS, *columns)
    return _time_of(gate.tables[STEPS])


def _loader(gate: Gate, _: object = None) -> Iterator[Found]:
    share = _share_of_time(gate.required(STEPS, "loader_ms", "wall_ms"), "loader_ms")
    yield Found(
        share,
        share,
        "The loop waited for the data loader, and nothing else ran, in "
        f"{_part(share)} of the time.",
    )


def _communication(gate: Gate, trace: Trace) -> Iterator[Found]:
    """With a device what no kernel hides, whatever copies run beside it. A model that is not
    trained exchanges activations, which no larger batch hides.
    """
    column = "exposed_communication_ms" if trace.device else "communication_ms"
    share = _share_of_time(gate.required(STEPS, column, *_WHOLE_STEP), column)
    yield Found(
        share,
        share,
        f"Exchange between processes that no kernel hid took {_part(share)} of the time.",
        remedy="" if any(map(_TRAINS, trace.names)) else _FEWER_EXCHANGES,
    )


def _device_busy(gate: Gate, _: object = None) -> Iterator[Found]:
    """What other advice has at stake, of the loader, the allocator and waits, is its own."""
    steps = gate.required(STEPS, "device_busy_ms", "loader_ms", *_WHOLE_STEP)
    share = _share_of_time(steps, "device_busy_ms")
    waited_ms = sum(
        row["total_ms"]
        for row in gate.rows(IDLE, "cause", "total_ms")
        if row["cause"] in ("allocator", "synchronisation")
    )
    explained = _share_of_time(steps, "loader_ms") + waited_ms / _all_steps_ms(gate, "wall_ms")
    yield Found(
        share,
        max(0.0, 1 - share - explained),
        f"The GPU worked in {_part(share)} of the time.",
    )


def _nothing_recorded(gate: Gate, _: object = None) -> Iterator[Found]:
    steps = gate.required(STEPS, "other_ms", "operator_ms", *_WHOLE_STEP)
    if not any(row["operator_ms"] for row in steps):
        raise UnansweredError("it has no operations of the host")
    share = _share_of_time(steps, "other_ms")
    yield Found(
        share,
        share,
        f"In {_part(share)} of the time no operation, kernel, driver call or wait for data was "
        "recorded.",
    )


def _tensor_cores(gate: Gate, trace: Trace, *, categories: Mapping[str, str]) -> Iterator[Found]:
    """An operation counts with all its kernels as soon as one uses tensor cores, since some only
    change the layout. So it does where kernels whose names do not show it take half of its time.
    """
    major = _device_property(trace, "computeMajor", "what its GPU can do")
    minor = trace.first_device.get("computeMinor")
    device = (
        f"{trace.first_device.get('name', '')} {major}.{minor if isinstance(minor, int) else 0}"
    )
    remedy = first_fit(device, MATRIX_CORES)
    if not remedy:
        return
    all_rows = gate.required(KERNELS, "total_ms", "category", "operation")
    rows = [row for row in all_rows if row["category"] in categories]
    known_ms: Counter[str] = Counter()
    for row in rows:
        sign = {"no": 1, "unknown": -1}.get(row["tensor_cores"], -math.inf)
        known_ms[row["operation"]] += sign * row["total_ms"]
    without = [row for row in rows if known_ms[row["operation"]] > 0]
    eligible_ms, without_ms, all_ms = (
        sum(row["total_ms"] for row in each) for each in (rows, without, all_rows)
    )
    if not without or eligible_ms < _ELIGIBLE_FROM * all_ms:
        return
    longest = max(without, key=lambda row: row["total_ms"])
    share, at_stake = (
        without_ms / eligible_ms,
        min(1.0, without_ms / _all_steps_ms(gate, "wall_ms")),
    )
    yield Found(
        share,
        at_stake,
        f"{_part(share)} of the time of {' and '.join(categories.values())} runs in kernels "
        "without tensor cores.",
        longest["source"] or longest["operation"],
        remedy=remedy.format(tf32=_TF32[longest["category"]]),
    )


def _allocator(gate: Gate, _: Trace) -> Iterator[Found]:
    rows = [row for row in gate.required(IDLE, "cause", "total_ms") if row["cause"] == "allocator"]
    if rows:
        share = sum(row["total_ms"] for row in rows) / _all_steps_ms(gate, *_WHOLE_STEP)
        yield Found(
            share,
            share,
            f"The GPU waited for memory from its driver in {_part(share)} of the time.",
            max(rows, key=lambda row: row["total_ms"])["operation"],
        )


def _peak_memory(gate: Gate, trace: Trace) -> Iterator[Found]:
    limit_bytes = _device_property(trace, "totalGlobalMem", "how much memory its GPU has")
    rows = [row for row in gate.required(MEMORY, "device") if row["device"] != HOST]
    totals = [row[column] for row in rows for column in ("allocated_mib", "reserved_mib")]
    known = [total for total in totals if total is not None and not math.isnan(total)]
    if not known:
        raise UnansweredError("it has no memory of a GPU")
    share = max(known) / (limit_bytes / BYTES_PER_MIB)
    yield Found(share, 0, f"At the peak {_part(share)} of the GPU's memory was taken.")


def _launch_bound(gate: Gate, _: object = None) -> Iterator[Found]:
    wall_of = {row["step"]: row["wall_ms"] for row in gate.required(STEPS, "wall_ms")}
    launches = gate.required(LAUNCHES, "launch_bound_share")
    rows = [row for row in launches if wall_of.get(row["step"])]
    if launches and not rows:
        raise UnansweredError("of no step both wall time and launches are reliable")
    if rows:
        share = sum(row["launch_bound_share"] * wall_of[row["step"]] for row in rows) / sum(
            wall_of[row["step"]] for row in rows
        )
        yield Found(
            share,
            share,
            f"The GPU waited for the host's next launch in {_part(share)} of the time.",
        )


def _pageable_copies(gate: Gate, _: Trace) -> Iterator[Found]:
    rows = [
        row
        for row in gate.required(COPIES, "total_ms", "host_memory")
        if row["host_memory"] == "pageable"
    ]
    if rows:
        copies = sum(row["copies"] for row in rows)
        share = sum(row["total_ms"] for row in rows) / _all_steps_ms(gate, *_WHOLE_STEP)
        yield Found(
            share,
            share,
            f"{copies} copies from or to pageable memory took {_part(share)} of the time.",
        )


def _synchronising_calls(gate: Gate, trace: Trace) -> Iterator[Found]:
    """How often a call waits does not depend on how fast the host is; how long it waits does.

    The copies show which waits belong to an upload. At stake is no more than the call's own time,
    nor than that in which the GPU was idle for waits.
    """
    gate.required(COPIES, "copies")
    trusted = {row["step"] for row in gate.required(STEPS, "wall_ms")}
    steps = tuple(step for step in trace.steps if step.number in trusted)
    if not steps:
        return
    waited_ms = sum(
        row["total_ms"]
        for row in gate.required(IDLE, "cause", "total_ms")
        if row["cause"] == "synchronisation"
    )
    share = waited_ms / _all_steps_ms(gate, "wall_ms")
    all_ns = sum(step.end_ns - step.start_ns for step in steps)
    found = waits(msgspec.structs.replace(trace, steps=steps)) if share else []
    for wait in [wait for wait in found if wait["operation"] or wait["source"]][:3]:
        per_step = wait["calls"] / len(steps)
        often = "once" if per_step == 1 else f"{number_format.quantity(per_step).plain()} times"
        when = f"{often} a step" if trace.has_steps else often
        waited = number_format.duration(wait["total_ns"] / 1e9 / len(steps)).plain()
        asked_by = _ASKED_BY.get(wait["operation"], wait["operation"])
        took = f", which took {waited} of it" if gate.rows(STEPS, "wall_ms", "host_busy_ms") else ""
        yield Found(
            per_step,
            min(share, wait["total_ns"] / all_ns),
            f"{asked_by} made the host wait {when}{took}.",
            wait["source"] or wait["operation"],
        )


def _short_kernels(gate: Gate, _: Trace) -> Iterator[Found]:
    """Not answered for graphs, whose delays are not reliable: their kernels are not launched one by
    one.
    """
    rows = gate.required(
        LAUNCHES, "launches", "short_share", "median_delay_us", "launch_bound_share"
    )
    launches = sum(row["launches"] for row in rows)
    if launches:
        share = sum(row["launches"] * row["short_share"] for row in rows) / launches
        waited = sum(row["launch_bound_share"] for row in rows) / len(rows)
        per_step = number_format.count(launches / len(rows)).plain()
        yield Found(
            share, waited, f"{_part(share)} of {per_step} launches a step ran for less than 10 µs."
        )


def _part(share: float) -> str:
    return number_format.share(share).plain()


def _device_property(trace: Trace, key: str, meaning: str) -> int:
    """A property of the first device; where there are several they are alike in practice."""
    found = trace.first_device.get(key)
    if not isinstance(found, int) or not 0 < found < 2**63:
        raise UnansweredError(f"it does not say {meaning}")
    return found


ALL_ADVICE: Final = (
    Advice(
        name="data loader",
        threshold=0.05,
        unit="1",
        reason="Below a twentieth, a loader without any cost would not save more than steps "
        "differ among each other.",
        remedy="Use more DataLoader workers (num_workers) and a larger prefetch_factor, or decode "
        "less per sample.",
        find=_loader,
        question="Does any configuration wait for data?",
        holds="Waiting for data delayed the step",
        whether="waiting for data delays a step",
        measure="the share of its steps' time in which the loop waits for data, and nothing else "
        "runs,",
        label="waiting for data while nothing else ran",
        asked_of="all",
    ),
    Advice(
        name="communication",
        threshold=0.10,
        unit="1",
        reason="A tenth of each step, and so of each GPU, is bought and not used.",
        remedy="Give each device more samples, so that more computation overlaps each exchange;"
        " DistributedDataParallel exchanges gradients while the backward pass runs.",
        find=_communication,
        question="Does exchange between processes delay any configuration?",
        holds="Exchange between processes delayed the step",
        whether="exchange between processes delays a step",
        measure="the share of its steps' time in which processes exchange, and no kernel runs,",
        label="exchange between processes",
        asked_of="exchanging processes",
    ),
    Advice(
        name="accelerator busy",
        threshold=0.50,
        unit="1",
        reason="Under a half, the host and not the GPU decides how long a step takes.",
        remedy="See what it waits for; a larger batch, CUDA graphs or torch.compile give it more "
        "work per launch.",
        find=_device_busy,
        is_floor=True,
    ),
    Advice(
        name=UNRECORDED,
        threshold=0.20,
        unit="1",
        reason="Without this time the step would be at least 1.25 times as fast (Amdahl's law).",
        remedy="See what the program does there: Python of its own, which cProfile or py-spy "
        "shows, or a wait. In a record_function block, a part of the step is named in the trace.",
        find=_nothing_recorded,
    ),
    Advice(
        name="tensor cores",
        threshold=0.50,
        unit="1",
        reason="Names do not always show it, so that most of the time, and not one kernel, has to "
        "be without.",
        remedy=IN_BF16_OR_TF32.format(tf32=_TF32["matrix product"]),
        find=partial(
            _tensor_cores,
            categories={"convolution": "convolutions", "matrix product": "matrix products"},
        ),
        least_at_stake=0.05,
        question="Does any configuration leave tensor cores unused?",
        holds="Convolutions and matrix products ran without tensor cores",
        whether="tensor cores are left unused",
        measure="the share of convolutions and matrix products, by time, without a kernel known "
        "to use them,",
        label="time without tensor cores",
        helpful=("tf32", "bf16"),
    ),
    Advice(
        name="tensor cores of recurrent layers",
        threshold=0.50,
        unit="1",
        reason="Recurrent layers are mostly matrix products, so the same share applies.",
        remedy=IN_BF16_OR_TF32.format(tf32=_TF32["recurrent"]),
        find=partial(_tensor_cores, categories={"recurrent": "recurrent layers"}),
        least_at_stake=0.05,
    ),
    Advice(
        name="peak memory",
        threshold=0.90,
        unit="1",
        reason="A tenth is what fragmentation and a larger last batch may need on top.",
        remedy="Before it runs out: a smaller batch with gradient accumulation, activation "
        "checkpointing, or 16 bits.",
        find=_peak_memory,
        question="Is GPU memory nearly full in any configuration?",
        holds="GPU memory was nearly full",
        whether="GPU memory is nearly full",
        measure="the peak memory, as a share of the GPU's,",
        label="memory taken at the peak",
    ),
    Advice(
        name="launch-bound",
        threshold=0.20,
        unit="1",
        reason="Without this time the step would be at least 1.25 times as fast (Amdahl's law).",
        remedy="Launch less often: torch.compile, CUDA graphs, a fused optimizer, or a larger "
        "batch.",
        find=_launch_bound,
        question="Is any configuration launch-bound?",
        holds="The step was launch-bound",
        whether="a step is launch-bound",
        measure="the share of its steps' time in which the GPU waits for the next launch",
        label="waiting for the next launch",
        helpful=("compile", "graphs", "fused"),
    ),
    Advice(
        name="allocator",
        threshold=0.05,
        unit="1",
        reason="PyTorch keeps the memory that it has; after the first steps it asks the driver for "
        "none.",
        remedy="Keep the caching allocator on and call no empty_cache() in the loop; leave it more "
        "memory, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        find=_allocator,
    ),
    Advice(
        name="pageable copies",
        threshold=0.02,
        unit="1",
        reason="Pinning costs one argument, so a fiftieth of the step is worth it; less would not "
        "be noticed.",
        remedy="Pin the batches (DataLoader's pin_memory=True) and copy them with to(device, "
        "non_blocking=True).",
        find=_pageable_copies,
        question="Do copies from or to pageable memory take much of any step?",
        holds="Copies from or to pageable memory took enough of the step for pinned memory to help",
        whether="copies from or to pageable memory take enough of a step for pinned memory to help",
        measure="the share of its steps' time that these copies take",
        label="copies from or to pageable memory",
        done_by=("pinned", "prefetch"),
        helpful=("pinned",),
    ),
    Advice(
        name="synchronising calls",
        threshold=1.0,
        unit="1/step",
        reason="Once in every step the host loses its lead over the GPU; once in a hundred it "
        "does not matter.",
        remedy=(
            "Keep losses and metrics on the GPU, and fetch them only every hundred steps; bf16 "
            "spares the wait that scaling the gradients of fp16 takes."
        ),
        find=_synchronising_calls,
        least_at_stake=0.01,
        question="Does any loop synchronize with the GPU in every step, apart from the copy of "
        "its batch?",
        holds="Apart from the copy of its batch, the loop synchronized with the GPU in every step",
        whether="the loop synchronizes with the GPU in every step, apart from the copy of its "
        "batch,",
        measure="the number of waits a step that one call of the loop asks for",
        label="synchronizing calls",
    ),
    Advice(
        name="short kernels",
        threshold=0.50,
        unit="1",
        reason="Launching takes the host some 5 to 10 µs, so most of the work cannot outlast its "
        "launch.",
        remedy="Fuse the kernels: torch.compile, a fused optimizer (fused=True), a fused loss; or "
        "enlarge the batch.",
        find=_short_kernels,
        least_at_stake=0.05,
    ),
)

ADVICE_OF: Final[Mapping[str, Advice]] = {advice.name: advice for advice in ALL_ADVICE}

ABOUT_IDLE_TIME: Final = ("accelerator busy", "launch-bound", "data loader")
"""Names of advice."""
