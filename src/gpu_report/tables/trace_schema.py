"""What the traces of all variants say, as tables of the study: steps, gaps, kernels, advice, doubts, a timeline.

Where the quality gate spoils a number it is missing here too, and the table `trace_doubts` has the reason.
"""

from typing import Final

from gpu_report.columns import Table, number, text, whole
from gpu_report.tables.column_kinds import DEVICE, VARIANT, WORKLOAD

STEP_PARTS: Final = ("kernel", "memcpy", "memset", "communication", "runtime", "loader", "operator", "other")
"""What the wall time of a step is shared out to: each moment counts once, for the first of these that goes on in it."""

_PROFILED: Final = (VARIANT, WORKLOAD, DEVICE)

STEP_SHARES: Final = Table(
    name="step_shares",
    meaning=(
        "One row per profiled variant: what the wall time of its profiled steps went into. The shares from "
        "kernel_share to other_share sum to 1; of the accelerator's parts the CPU has 0."
    ),
    columns=(
        *_PROFILED,
        whole("steps", "1", "Profiled steps."),
        number("wall_ms", "ms", "Mean wall time of a profiled step, the profiler's own work included."),
        *(
            number(f"{part}_share", "1", f"Sum of {part}_ms of the trace table steps, over their wall time.")
            for part in STEP_PARTS
        ),
        number("host_busy_share", "1", "Sum of host_busy_ms of the trace table steps, over their wall time."),
        number(
            "device_busy_share", "1", "Kernel-active time (trace): sum of device_busy_ms likewise; missing on the CPU."
        ),
        number("device_idle_share", "1", "1 - device_busy_share; missing on the CPU."),
        number("exposed_copy_share", "1", "Sum of exposed_copy_ms likewise; missing on the CPU."),
        number("exposed_communication_share", "1", "Sum of exposed_communication_ms likewise; missing on the CPU."),
        number("launches_per_step", "1", "Pieces of work launched in a step; missing on the CPU."),
        number("short_share", "1", "Share of them that ran for less than 10 us."),
        number("mean_queue", "1", "Work launched and not yet started, on average over the time of the steps."),
        number("launch_bound_share", "1", "Share of the time in which the device waited for the next launch."),
    ),
)

IDLE_CAUSES: Final = Table(
    name="idle_causes",
    meaning=(
        "One row per variant, cause and host operation: gaps in which the accelerator did nothing. Of each cause the "
        "three longest operations, and all others in a row whose operation is (others). No rows where the gaps or "
        "their causes are not reliable."
    ),
    columns=(
        *_PROFILED,
        text("cause", "launch, host, loader, synchronisation or unknown, as in the trace table idle."),
        text("operation", "The operation on the host in the middle of the gap; empty where none ran; or (others)."),
        whole("gaps", "1", "Number of gaps in the profiled steps."),
        number("total_ms", "ms", "Sum of the gaps."),
        number("longest_us", "us", "The longest; of (others) too."),
        number("share", "1", "total_ms over the wall time of the profiled steps."),
    ),
)

TOP_KERNELS: Final = Table(
    name="top_kernels",
    meaning=(
        "One row per variant and rank: the ten kernels, copies and fills that ran longest on its accelerator. No rows "
        "where their times are not reliable."
    ),
    columns=(
        *_PROFILED,
        whole("rank", "1", "1 for the kernel with the longest total."),
        text("name", "The kernel's name as in the trace."),
        text("category", "Kind of work; empty where the launch is not reliable."),
        whole("calls", "1", "How often it ran in the profiled steps."),
        number("total_ms", "ms", "Sum of its run times."),
        number("share", "1", "total_ms over that of all kernels, copies and fills."),
        number("median_us", "us", "Half of the runs took at most so long."),
        number("launch_delay_us", "us", "Median time from the launch to the start."),
        text("library", "cuDNN, cuBLAS, CUTLASS, Triton, NCCL, native, driver, or unknown."),
        text("tensor_cores", "yes, no, or unknown, from the name."),
        number("occupancy", "1", "The profiler's estimate of occupied warps; missing where none is written."),
        text("operation", "The operation that launched most of its time; empty where no launch is known."),
        text("module", "The module of the model around that operation; empty without stacks."),
        text("source", "The line of the user's own code around it; empty without stacks."),
    ),
)

OPERATION_MEMORY: Final = Table(
    name="operation_memory",
    meaning=(
        "One row per variant and rank: the ten operations that asked for the most memory on the variant's device, "
        "whether or not it was freed again. No rows for bundles packed before the rich profile, nor where CUDA graphs "
        "ran the step."
    ),
    columns=(
        *_PROFILED,
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
        "One row per accelerator variant that was profiled on the CPU as well, and category that both ran: how much "
        "less time a step spends in it. One profiled run on each device, so without an interval."
    ),
    columns=(
        *_PROFILED,
        text("cpu_variant", "The same configuration on the CPU; the number of epochs and steps may differ."),
        text("category", "Category of operations."),
        number("cpu_ms", "ms", "Time in a profiled step on the CPU, operations called from within left out."),
        number("device_ms", "ms", "Run time of the work that it launched on the accelerator in a profiled step."),
        number("speedup", "1", "cpu_ms over device_ms."),
    ),
)

TRACE_ADVICE: Final = Table(
    name="trace_advice",
    meaning="One row per variant and rule that applies: what limits its step and what to try, the most severe first.",
    columns=(
        *_PROFILED,
        whole("rank", "1", "1 for the rule with the most time of the step at stake."),
        text("rule", "Name of the rule, as in the trace table advice."),
        text("finding", "What was found, in a sentence."),
        text("advice", "What to try."),
        number("value", "", "What was found."),
        number("threshold", "", "From where on the rule applies."),
        text("unit", "Unit of value and threshold."),
        text("place", "Source line or operation, where the trace tells one."),
    ),
)

TRACE_DOUBTS: Final = Table(
    name="trace_doubts",
    meaning="One row per variant and failed check of its trace: which numbers are not reliable, and why.",
    columns=(
        *_PROFILED,
        text("check", "Name of the check, as in the trace table quality."),
        whole("step", "1", "Number of the step; -1 where the check is of the whole trace."),
        number("value", "", "What was found."),
        number("limit", "", "What may be found at most, or at least; the text says which."),
        text("text", "What was found, in a sentence."),
        text("spoils", "Trace tables and columns whose numbers are left out for it."),
    ),
)

TRACE_UNANSWERED: Final = Table(
    name="trace_unanswered",
    meaning="One row per variant and rule of the advice that its trace cannot tell: whether it applies is not"
    " resolved.",
    columns=(
        *_PROFILED,
        text("rule", "Name of the rule, as in the trace table unanswered."),
        text("reason", "Why, as a clause."),
    ),
)

TIMELINES: Final = Table(
    name="timelines",
    meaning="One row per variant, lane and stretch of one profiled step: what went on there, as in the trace table.",
    columns=(
        *_PROFILED,
        whole("step", "1", "Number of the step in the profiler's schedule: the one of median wall time."),
        number("wall_ms", "ms", "Its wall time."),
        text(
            "lane",
            "phases, a thread of the host such as host 1, a stream of the device such as stream 7, or other streams.",
        ),
        number("begin_ms", "ms", "Since the begin of the step."),
        number("end_ms", "ms", "Since the begin of the step."),
        text(
            "category",
            "Phase of the step, or category of the work that took most of the stretch; empty where the gate spoils it.",
        ),
        number("busy_share", "1", "Share of the stretch in which anything went on in the lane."),
    ),
)

TRACE_STUDY_TABLES: Final = (
    STEP_SHARES,
    IDLE_CAUSES,
    TOP_KERNELS,
    OPERATION_MEMORY,
    CATEGORY_SPEEDUPS,
    TRACE_ADVICE,
    TRACE_UNANSWERED,
    TRACE_DOUBTS,
    TIMELINES,
)
