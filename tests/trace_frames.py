"""Tables of a variant's trace, made without a trace."""

from collections.abc import Mapping, Sequence
from typing import Final

from gpu_report.storage.columns import Table
from gpu_report.study.variant import Variant
from gpu_report.tables.traces import STEP_PARTS
from gpu_report.traces.advice import ADVICE, ALL_ADVICE, UNANSWERED
from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import COPIES, KERNELS
from gpu_report.traces.memory import ALLOCATIONS, MEMORY
from gpu_report.traces.operations import CATEGORY_TIMES
from gpu_report.traces.operations import OPERATIONS as OPERATIONS_TABLE
from gpu_report.traces.phases import PHASES
from gpu_report.traces.quality import QUALITY, Gate, row_of
from gpu_report.traces.ranks import RANKS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import EMPTY_TABLES, TraceTables
from gpu_report.traces.timeline import TIMELINE
from tests.typical import LOOPS

OPERATIONS: Final = {
    "aten::convolution_backward": "convolution",
    "aten::cudnn_convolution": "convolution",
    "aten::addmm": "matrix product",
    "aten::native_batch_norm": "normalisation",
    "aten::relu_": "activation",
    "aten::add_": "elementwise",
    "aten::max_pool2d_with_indices": "pooling",
    "Optimizer.step#Adam.step": "optimizer",
    "aten::copy_": "copy",
    "aten::sum": "reduction",
    "aten::nll_loss2d_forward": "loss",
    "aten::_log_softmax<float, 4>_{$&#}": "other",
}
"""Operation -> category, the costliest first."""


def make_operations(slug: str, operations: Mapping[str, str] | None = None) -> list[Row]:
    """A variant's table of operations as its trace gives it; the earlier an operation, the more
    time it took.
    """
    operations = OPERATIONS if operations is None else operations
    devices = dict.fromkeys(["cpu", Variant.from_slug(slug).device_type])
    total = sum(range(1, len(operations) + 1))
    return OPERATIONS_TABLE.checked(
        {
            "name": name,
            "device": device,
            "category": category,
            "calls": 3 * weight,
            "total_ms": 12.0 * weight,
            "self_ms": 10.0 * weight,
            "self_share": weight / total,
            "p10_us": 3900.0,
            "median_us": 4000.0,
            "p90_us": 4100.0,
        }
        for device in devices
        for weight, (name, category) in zip(
            range(len(operations), 0, -1), operations.items(), strict=True
        )
    )


def make_categories(slug: str, operations: Mapping[str, str] | None = None) -> list[Row]:
    """The sums of make_operations by device and category."""
    sums: dict[tuple[str, str], Row] = {}
    for row in make_operations(slug, operations):
        device, category = row["device"], row["category"]
        none = {"device": device, "category": category, "calls": 0, "self_ms": 0.0, "share": 0.0}
        of_category = sums.setdefault((device, category), none)
        of_category["calls"] += row["calls"]
        of_category["self_ms"] += row["self_ms"]
        of_category["share"] += row["self_share"]
    return CATEGORY_TIMES.checked(sums.values())


_PHASES: Final = {"data": 0.04, "forward": 0.3, "backward": 0.52, "optimizer": 0.1, "other": 0.04}


def make_phases(slug: str) -> list[Row]:
    """A variant's table of phases as its trace gives it: a step that spends most of its time going
    backward.
    """
    devices = dict.fromkeys(["cpu", Variant.from_slug(slug).device_type])
    shares = _PHASES | (
        {"forward": 0.2, "loss": 0.1} if Variant.from_slug(slug).workload == LOOPS else {}
    )
    in_convolutions = {"forward": 0.6, "backward": 0.7}
    return PHASES.checked(
        {
            "device": device,
            "phase": phase,
            "self_ms": 780.0 * share,
            "share": share,
            "convolution_ms": 780.0 * share * in_convolutions.get(phase, 0.0),
            "cudnn_ms": None
            if device == "cpu"
            else 700.0 * share * in_convolutions.get(phase, 0.0),
        }
        for device in devices
        for phase, share in shares.items()
    )


def make_trace_tables(slug: str, operations: Mapping[str, str] | None = None) -> TraceTables:
    """All tables of a variant's trace, of three steps; without an accelerator nothing tells of one.

    The LSTM is too fast on an accelerator to be profiled as it was timed; a replayed graph tells no
    operation.
    """
    variant = Variant.from_slug(slug)
    on_device = variant.device_type != "cpu"
    slowed = variant.workload == "lstm" and on_device
    quality = [
        _slowness(2.4 if slowed else 1.1),
        _graphs(1.0 if "graphs" in variant.options else 0.0),
    ]
    advice = _waits_for_the_device() if on_device else _waits_for_data()
    rows = {
        OPERATIONS_TABLE: make_operations(slug, operations),
        CATEGORY_TIMES: make_categories(slug, operations),
        PHASES: make_phases(slug),
        STEPS: map(_step_on_device if on_device else _step_on_host, range(3)),
        KERNELS: _kernels() if on_device else (),
        IDLE: _gaps() if on_device else (),
        LAUNCHES: map(_launches, range(3)) if on_device else (),
        TIMELINE: _stretches(variant.device_type),
        QUALITY: quality,
        ADVICE: [] if slowed else [advice],
        ALLOCATIONS: _allocations(variant.device_type),
        UNANSWERED: _unanswered(quality),
        RANKS: [_step_of_rank(rank, step) for rank in range(variant.devices) for step in range(3)]
        if variant.has_ranks
        else (),
    }
    return {**EMPTY_TABLES, **{table: table.checked(made) for table, made in rows.items()}}


def with_failed_check(
    tables: TraceTables, *spoils: str, step: int = -1, check: str = "durations"
) -> TraceTables:
    """The same trace, one of whose checks failed; all the others are left away."""
    failed = row_of(
        check, 2, 1, passed=False, text="2 were found; at most 1", invalidates=spoils, step=step
    )
    return {**tables, QUALITY: QUALITY.checked([failed])}


def _step_on_host(step: int) -> Row:
    parts = {"loader": 20.0, "operator": 170.0, "other": 10.0}
    return _step(step, parts, host_busy_ms=190.0, kernel_ms=None, memcpy_ms=None, memset_ms=None)


def _step_on_device(step: int) -> Row:
    parts = {
        "kernel": 7.0,
        "memcpy": 0.5,
        "memset": 0.1,
        "runtime": 0.6,
        "loader": 0.3,
        "operator": 1.2,
        "other": 0.3,
    }
    return _step(
        step,
        parts,
        host_busy_ms=9.0,
        device_busy_ms=7.6,
        device_idle_share=0.24,
        exposed_copy_ms=0.5,
        exposed_communication_ms=0.0,
    )


def _step_of_rank(rank: int, step: int) -> Row:
    """The later a rank comes, the less it waits."""
    return {
        "rank": rank,
        "step": step,
        "wall_ms": 10.0,
        "compute_ms": 7.0 + 0.2 * rank,
        "communication_ms": 2.5,
        "hidden_ms": 1.5 + 0.1 * rank,
        "exposed_ms": 1.0 - 0.1 * rank,
        "wait_ms": 0.5 / (1 + rank),
    }


def _step(step: int, parts: Mapping[str, float], **others: float | None) -> Row:
    """`parts` share out the wall time; `others` are columns as they are."""
    return {
        **dict.fromkeys(STEPS.column_names),
        "step": step,
        "wall_ms": sum(parts.values()),
        **{f"{part}_ms": parts.get(part, 0.0) for part in STEP_PARTS},
        **others,
    }


def _kernels() -> list[Row]:
    names = {
        "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32": (
            "convolution",
            "cuDNN",
            "yes",
            "aten::cudnn_convolution",
        ),
        "void at::native::vectorized_elementwise_kernel<4>": (
            "activation",
            "native",
            "no",
            "aten::relu_",
        ),
        "Memcpy HtoD (Pageable -> Device)": ("copy", "driver", "no", "aten::copy_"),
    }
    return [
        {
            "name": name,
            "category": category,
            "calls": 30 * weight,
            "total_ms": 3.8 * weight,
            "mean_us": 126.7,
            "share": weight / 6,
            "p10_us": 120.0,
            "median_us": 126.0,
            "p90_us": 131.0,
            "launch_delay_us": 9.0,
            "library": library,
            "tensor_cores": tensor_cores,
            "grid": "[128, 1, 1]",
            "block": "[256, 1, 1]",
            "occupancy": None if library == "driver" else 0.5,
            "operation": operation,
            "module": "nn.Module: Conv2d_0",
            "source": "training.py(48): train_step",
        }
        for weight, (name, (category, library, tensor_cores, operation)) in zip(
            (3, 2, 1), names.items(), strict=True
        )
    ]


def _allocations(device: str) -> list[Row]:
    sizes_mib = {
        "aten::convolution_backward": 300.0,
        "aten::cudnn_convolution": 200.0,
        "(no operation)": 100.0,
    }
    return [
        {
            "device": device,
            "operation": operation,
            "allocations_per_step": 12.0,
            "allocated_mib_per_step": size_mib,
            "share": size_mib / sum(sizes_mib.values()),
            "within_call_mib": None if operation == "(no operation)" else size_mib / 4,
        }
        for operation, size_mib in sizes_mib.items()
    ]


def _gaps() -> list[Row]:
    gaps = {"host": ("aten::conv2d", 4.8), "loader": ("", 1.5), "launch": ("aten::copy_", 0.9)}
    return [
        {
            "cause": cause,
            "operation": operation,
            "gaps": 30,
            "total_ms": total_ms,
            "longest_us": 80.0,
            "share": total_ms / 30.0,
        }
        for cause, (operation, total_ms) in gaps.items()
    ]


def _launches(step: int) -> Row:
    return {
        "step": step,
        "launches": 250,
        "short_share": 0.4,
        "median_delay_us": 9.0,
        "mean_queue": 3.5,
        "longest_queue": 40,
        "launch_bound_share": 0.12,
    }


def _slowness(ratio: float) -> Row:
    return row_of(
        "profiled as timed",
        ratio,
        1.5,
        passed=ratio <= 1.5,
        text=f"a profiled step took {ratio:.2f} times a timed one",
        invalidates=(
            "idle",
            "launches",
            *(
                f"steps.{part}_ms"
                for part in ("runtime", "loader", "operator", "other", "host_busy")
            ),
            "steps.device_idle_share",
        ),
    )


def _graphs(share: float) -> Row:
    return row_of(
        "work outside of graphs",
        share,
        0.01,
        passed=share <= 0.01,
        text=f"graphs launched {share:.1%} of the device time, whose operations are unknown; at "
        "most 1%",
        invalidates=(
            *(f"{table} on device" for table in ("operations", "categories", "phases")),
            *(
                f"kernels.{column}"
                for column in ("launch_delay_us", "category", "operation", "module", "source")
            ),
            *(
                f"launches.{column}"
                for column in ("median_delay_us", "mean_queue", "longest_queue")
            ),
            "timeline.category on device",
            "allocations on device",
        ),
    )


def _waits_for_the_device() -> Row:
    return _advice(
        "synchronising calls",
        value=1.0,
        finding="item() made the host wait once a step, which took 400 µs of it.",
        place="training.py(61): train_epoch",
    )


def _waits_for_data() -> Row:
    return _advice(
        "data loader",
        value=0.1,
        finding="The loop waited for the data loader, and nothing else ran, in 10 % of the time.",
    )


def _advice(rule: str, *, value: float, finding: str, place: str = "") -> Row:
    """A finding of a rule as it stands in the project, which has to be one to which the rule
    applies.
    """
    (asked,) = [each for each in ALL_ADVICE if each.name == rule]
    return {
        "rule": rule,
        "finding": finding,
        "advice": asked.remedy,
        "value": value,
        "threshold": asked.threshold,
        "unit": asked.unit,
        "place": place,
    }


WHOLE_STEP: Final = ("host_busy_ms", "wall_ms")
READ_BY: Final[Mapping[str, Mapping[Table, Sequence[str]]]] = {
    "data loader": {STEPS: ("loader_ms", "wall_ms")},
    "communication": {STEPS: ("exposed_communication_ms", *WHOLE_STEP)},
    "allocator": {IDLE: ("cause", "total_ms"), STEPS: WHOLE_STEP},
    "accelerator busy": {STEPS: ("device_busy_ms", "loader_ms", *WHOLE_STEP)},
    "nothing recorded": {STEPS: ("other_ms", "operator_ms", *WHOLE_STEP)},
    "tensor cores": {KERNELS: ("total_ms", "category", "operation"), STEPS: ("wall_ms",)},
    "tensor cores of recurrent layers": {
        KERNELS: ("total_ms", "category", "operation"),
        STEPS: ("wall_ms",),
    },
    "peak memory": {MEMORY: ("device",)},
    "launch-bound": {LAUNCHES: ("launch_bound_share",), STEPS: ("wall_ms",)},
    "pageable copies": {COPIES: ("total_ms", "host_memory"), STEPS: WHOLE_STEP},
    "synchronising calls": {
        COPIES: ("copies",),
        IDLE: ("cause", "total_ms"),
        STEPS: ("wall_ms",),
    },
    "short kernels": {
        LAUNCHES: ("launches", "short_share", "median_delay_us", "launch_bound_share")
    },
}
"""The columns that each rule of the advice rests on."""


def _unanswered(quality: list[Row]) -> list[Row]:
    """Of each rule that reads what the gate spoils the first reason."""
    gate = Gate({QUALITY: quality})
    return [
        {"rule": rule, "reason": why[0]}
        for rule, reads in READ_BY.items()
        if (
            why := [
                text for table, columns in reads.items() for text in gate.reasons(table, *columns)
            ]
        )
    ]


def _stretches(device_type: str) -> list[Row]:
    """Of the second step, in three lanes on an accelerator and two on the CPU."""
    wall_ms = 200.0 if device_type == "cpu" else 10.0
    lanes = {
        ("phases", "cpu"): {
            "data": (0.0, 0.1),
            "forward": (0.1, 0.4),
            "backward": (0.4, 0.9),
            "optimizer": (0.9, 1.0),
        },
        ("host 1", "cpu"): {
            "other": (0.0, 0.1),
            "convolution": (0.1, 0.9),
            "optimizer": (0.9, 1.0),
        },
        ("stream 7", device_type): {"copy": (0.1, 0.15), "convolution": (0.2, 0.9)},
    }
    return [
        {
            "step": 1,
            "wall_ms": wall_ms,
            "lane": lane,
            "device": device,
            "begin_ms": begin * wall_ms,
            "end_ms": end * wall_ms,
            "category": category,
            "busy_share": 1.0,
        }
        for (lane, device), stretches in lanes.items()
        if lane != "stream 7" or device != "cpu"
        for category, (begin, end) in stretches.items()
    ]
