"""Where time and memory went inside the profiled steps: the costliest operations and the share of
each phase.

trace tables, one set per variant -> Profiled: what their quality gate lets through
Profiled -> rows on the variant's own device -> TOP_OPERATIONS, PHASES, OPERATION_MEMORY; those of
one configuration on two devices -> CATEGORY_SPEEDUPS
"""

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.study.variant import LENGTH_FIELDS, Variant
from gpu_report.tables.statistics import PROFILED
from gpu_report.traces.categories import category_by_name
from gpu_report.traces.grouping import Row
from gpu_report.traces.memory import ALLOCATIONS
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.phases import PHASES as TRACE_PHASES
from gpu_report.traces.quality import Gate
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables
from gpu_report.traces.trace import HOST


@dataclass(frozen=True, eq=False)
class Profiled(Gate):
    """One variant's trace tables with their quality gate; a variant that was not profiled has
    tables without rows.
    """

    variant: Variant

    @property
    def identity(self) -> Row:
        """The first columns of every table by variant."""
        return {
            "variant": self.variant.slug,
            "workload": self.variant.workload,
            "device": self.variant.device,
        }

    def rows_on_own_device(self, table: Table) -> list[Row]:
        """The table's rows of the device that the variant trained on; on a GPU the host's run
        beside them.
        """
        return [
            row
            for row in self.rows(table)
            if row["device"].partition(":")[0] == self.variant.device_type
        ]


def profiled(traces: Mapping[str, TraceTables]) -> Iterator[Profiled]:
    """The variants in the order of their names."""
    for slug, tables in sorted(traces.items()):
        yield Profiled(variant=Variant.from_slug(slug), tables=tables)


_MISSING: Final = (
    "No rows where the checks of the trace find these times not reliable; trace_doubts says why."
)

TOP_OPERATIONS: Final = Table(
    name="top_operations",
    meaning=(
        "One row per profiled variant and rank: the operations that took most time of their own "
        "on its device. "
        f"{_MISSING}"
    ),
    columns=(
        *PROFILED,
        whole("rank", "1", "1 for the operation with the most time of its own."),
        text("name", "Name of the operation as PyTorch gives it."),
        text("category", "Its category."),
        number("ms_per_step", "ms", "Time of a step, operations called from it included."),
        number("self_ms_per_step", "ms", "Time of a step, operations called from it left out."),
        number("self_share", "1", "self_ms_per_step over that of all operations on the device."),
    ),
)


PHASES: Final = Table(
    name="phases",
    meaning=(
        "One row per profiled variant and phase of the step: its share of the time on the "
        f"variant's device. {_MISSING}"
    ),
    columns=(
        *PROFILED,
        text(
            "phase", "data, forward, loss (where the trace marks it), backward, optimizer or other."
        ),
        number("self_ms", "ms", "Time on the device in the profiled steps."),
        number("share", "1", "self_ms over that of all phases."),
        number("convolution_share", "1", "Of the phase's time, in convolutions."),
        number("cudnn_share", "1", "Of the phase's time, in cuDNN's kernels; missing on the CPU."),
    ),
)

OPERATION_MEMORY: Final = Table(
    name="operation_memory",
    meaning=(
        "One row per variant and rank: the ten operations that asked for the most memory on the "
        "variant's device, whether or not it was freed again."
    ),
    columns=(
        *PROFILED,
        whole("rank", "1", "1 for the operation that asked for the most."),
        text("operation", "The operation, as in the trace table allocations."),
        number("allocations_per_step", "1", "Blocks that it asked for in a step."),
        number("allocated_mib_per_step", "MiB", "Their size together."),
        number("share", "1", "Over the sum of all operations."),
    ),
)

CATEGORY_SPEEDUPS: Final = Table(
    name="category_speedups",
    meaning=(
        "One row per GPU variant that was profiled on the CPU as well, and category that both "
        "ran: how much less time a step spends in it. One profiled run on each device, so without "
        "an interval."
    ),
    columns=(
        *PROFILED,
        text(
            "cpu_variant",
            "The same configuration on the CPU; the number of epochs and steps may differ.",
        ),
        text("category", "Category of operations."),
        number(
            "cpu_ms",
            "ms",
            "Time in a profiled step on the CPU, operations called from within left out.",
        ),
        number(
            "device_ms",
            "ms",
            "Run time of the work that it launched on the GPU in a profiled step.",
        ),
        number("speedup", "1", "cpu_ms over device_ms."),
    ),
)

TOP: Final = 10
"""Operations and kernels listed per variant: nine tenths of the time as a rule, and half a page."""


def top_operations(each: Profiled) -> Iterator[Row]:
    """The rows of TOP_OPERATIONS.

    On a GPU only the time there counts: time on the host runs beside it and would count twice.
    """
    steps = len(each.tables[STEPS])
    rows = each.rows_on_own_device(OPERATIONS)
    rows.sort(key=lambda row: (-row["self_ms"], row["name"]))
    for rank, row in enumerate(rows[:TOP], start=1):
        yield {
            "rank": rank,
            **{name: row[name] for name in ("name", "category", "self_share")},
            "ms_per_step": row["total_ms"] / steps,
            "self_ms_per_step": row["self_ms"] / steps,
        }


def phases(each: Profiled) -> Iterator[Row]:
    """The rows of PHASES."""
    for row in each.rows_on_own_device(TRACE_PHASES):
        yield {
            **{name: row[name] for name in ("phase", "self_ms", "share")},
            "convolution_share": quotient(row["convolution_ms"], row["self_ms"]),
            "cudnn_share": quotient(row["cudnn_ms"], row["self_ms"]),
        }


def operation_memory(each: Profiled) -> Iterator[Row]:
    """The rows of OPERATION_MEMORY; a variant whose profiler recorded no memory has none."""
    columns = ("operation", "allocations_per_step", "allocated_mib_per_step", "share")
    for rank, row in enumerate(each.rows_on_own_device(ALLOCATIONS)[:TOP], start=1):
        yield {"rank": rank, **{name: row[name] for name in columns}}


def convolution_workspace_mib(each: Profiled) -> float:
    """The most that a convolution held within its own call; NaN where the trace has no memory, or
    no convolution.
    """
    held_mib = (
        row["within_call_mib"]
        for row in each.rows_on_own_device(ALLOCATIONS)
        if category_by_name(row["operation"]) == "convolution"
    )
    return max(held_mib, default=math.nan)


def tabulate_category_speedups(
    traces: Mapping[str, TraceTables], *, loops: Container[str]
) -> list[Row]:
    """The table CATEGORY_SPEEDUPS, the most time on the CPU first.

    Variants with custom training `loops` are left out: what they profile as a step is a whole
    training.
    """
    compared = [each for each in profiled(traces) if each.variant.slug not in loops]
    # Of those with one configuration, the first stays.
    on_cpu = {
        _configuration(each): each
        for each in reversed(compared)
        if each.variant.device_type == HOST
    }
    return [
        {
            **each.identity,
            "cpu_variant": reference.variant.slug,
            "category": category,
            "cpu_ms": cpu_ms,
            "device_ms": device_ms[category],
            "speedup": cpu_ms / device_ms[category],
        }
        for each in compared
        if each.variant.device_type != HOST and (reference := on_cpu.get(_configuration(each)))
        for device_ms in [_step_ms_by_category(each)]
        for category, cpu_ms in sorted(
            _step_ms_by_category(reference).items(), key=lambda pair: (-pair[1], pair[0])
        )
        if category in device_ms
    ]


def _configuration(each: Profiled) -> tuple[Any, ...]:
    """All that a profiled step depends on but the device."""
    return each.variant.fields_without("device", *LENGTH_FIELDS)


def _step_ms_by_category(each: Profiled) -> dict[str, float]:
    steps = len(each.tables[STEPS])
    rows = each.rows_on_own_device(CATEGORY_TIMES)
    return {row["category"]: row["self_ms"] / steps for row in rows if steps and row["self_ms"] > 0}


def quotient(part: float, whole: float) -> float:
    """A part of a whole; NaN where the whole is 0."""
    return part / whole if whole else math.nan
