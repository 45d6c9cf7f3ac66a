"""What the tables of a trace hold: every column with its unit and definition."""

from typing import Final

from gpu_report.columns import Table, flag, number, text, whole

_DEVICE: Final = text("device", "Where the time was spent: cpu, or the accelerator's backend as in the trace.")
_MEMORY_DEVICE: Final = text(
    "device",
    "Whose memory: cpu, or the accelerator's backend, with its number where there are several, such as cuda:1.",
)
_CATEGORY: Final = text("category", "Kind of work, one of gpu_report.traces.categories.CATEGORIES.")
_STEP: Final = whole("step", "1", "Number of the step in the profiler's schedule.")

OPERATIONS: Final = Table(
    name="operations",
    meaning=(
        "One row per operation name, device and category, over all profiled steps. On the host: operations, and calls "
        "into the accelerator's driver. On an accelerator: the work that the operation launched."
    ),
    columns=(
        text("name", "The operation's name as in the trace."),
        _DEVICE,
        _CATEGORY,
        whole("calls", "1", "Calls; on an accelerator those that launched work there."),
        number(
            "total_ms", "ms", "Time in the calls with all they call; a call inside one of the same name counts once."
        ),
        number("self_ms", "ms", "Time in the calls themselves, without what they call."),
        number("self_share", "1", "self_ms over the sum of self_ms on that device."),
        number("p10_us", "us", "A tenth of the calls took at most so long, each with all it calls."),
        number("median_us", "us", "Half of the calls took at most so long, each with all it calls."),
        number("p90_us", "us", "Nine tenths of the calls took at most so long, each with all it calls."),
    ),
)

SHAPES: Final = Table(
    name="shapes",
    meaning=(
        "One row per operation and shapes of its inputs, that launched work or whose arithmetic is known; "
        "no rows where the profiler recorded no shapes. Of a record with two profiles the times are those of the rich "
        "one, which slows the host."
    ),
    columns=(
        text("name", "The operation's name as in the trace."),
        text("shapes", "Shapes of its inputs as in the trace, such as [[16, 3, 128, 128], [64, 3, 3, 3]]."),
        whole("calls", "1", "Calls in the profiled steps."),
        number("host_ms", "ms", "Time in the calls on the host, with all they call."),
        number("device_ms", "ms", "Run time of the work that they launched, with all they call; missing without any."),
        number(
            "flop",
            "FLOP",
            "Floating-point operations of the calls by formula, those apart that lie in a call with a formula; "
            "missing where there is no formula.",
        ),
        number(
            "tflop_per_s",
            "TFLOP/s",
            "flop over the time on the device, or on the host where none ran on one. Libraries that do with less "
            "arithmetic than the formula, by Winograd's or Fourier's transform, can exceed the device's peak.",
        ),
    ),
)

KERNELS: Final = Table(
    name="kernels",
    meaning=(
        "One row per kernel, copy or memset on the accelerator and category, over the work that ran within the "
        "profiled steps: the same that the table steps counts."
    ),
    columns=(
        text("name", "The kernel's name as in the trace."),
        _CATEGORY,
        whole("calls", "1", "How often it ran."),
        number("total_ms", "ms", "Sum of its run times within the steps; streams may run side by side."),
        number("mean_us", "us", "total_ms over calls."),
        number("share", "1", "total_ms over the sum of all rows."),
        number("p10_us", "us", "A tenth of the runs took at most so long."),
        number("median_us", "us", "Half of the runs took at most so long."),
        number("p90_us", "us", "Nine tenths of the runs took at most so long."),
        number(
            "launch_delay_us", "us", "Median of the time from the end of the launching call to the start of the run."
        ),
        text(
            "library",
            "Where it comes from: cuDNN, cuBLAS, CUTLASS, Triton, NCCL, native (PyTorch's own), MIOpen, rocBLAS, "
            "driver (copies, fills), or unknown.",
        ),
        text("tensor_cores", "yes, no, or unknown, from the name; missing words are no proof of no."),
        text("grid", "Blocks of its most frequent launch, such as [8, 2, 1]; empty where none is written."),
        text("block", "Threads per block of its most frequent launch; empty where none is written."),
        number("occupancy", "1", "The profiler's estimate of occupied warps, median; missing where none is written."),
        text("operation", "The operation that launched most of its time; empty where no launch is known."),
        text("module", "The module of the model around that operation, from the stacks; empty without stacks."),
        text(
            "source",
            "The innermost function of the user's own code around it, from the stacks, with the line where it began; "
            "empty without stacks.",
        ),
    ),
)

CATEGORY_TIMES: Final = Table(
    name="categories",
    meaning="One row per device and category: the sums of the table operations.",
    columns=(
        _DEVICE,
        _CATEGORY,
        whole("calls", "1", "Calls of operations on the host; pieces of device work."),
        number("self_ms", "ms", "Sum of self_ms."),
        number("share", "1", "self_ms over the sum of self_ms on that device."),
    ),
)

STEPS: Final = Table(
    name="steps",
    meaning=(
        "One row per profiled step, in order. The columns from kernel_ms to other_ms share its wall time out: each "
        "moment counts once, for the first of them that goes on in it."
    ),
    columns=(
        _STEP,
        number("wall_ms", "ms", "From the begin to the end of the step on the host."),
        number("kernel_ms", "ms", "A kernel runs on the accelerator, communication apart."),
        number("memcpy_ms", "ms", "Else: a copy runs there."),
        number("memset_ms", "ms", "Else: a fill runs there."),
        number(
            "communication_ms", "ms", "Else: a collective runs there, or an operation of communication on the host."
        ),
        number("runtime_ms", "ms", "Else: a call into the accelerator's driver."),
        number("loader_ms", "ms", "Else: the loop waits for the loader."),
        number("operator_ms", "ms", "Else: an operation of PyTorch on any thread of the host."),
        number("other_ms", "ms", "Else: none of these, such as Python between two operations."),
        number(
            "host_busy_ms",
            "ms",
            "Time within the step in which any host thread was in an operation, a driver call or the loader.",
        ),
        number(
            "device_busy_ms",
            "ms",
            "Time within the step in which a kernel, copy or fill ran; missing where the step saw none.",
        ),
        number(
            "device_idle_share", "1", "1 - device_busy_ms / wall_ms; missing where the step saw no work on a device."
        ),
        number(
            "exposed_copy_ms",
            "ms",
            "Time in which copies ran and no kernel, no collective either; missing as device_busy_ms.",
        ),
        number(
            "exposed_communication_ms",
            "ms",
            "Time in which collectives ran and no other kernel; missing as device_busy_ms.",
        ),
    ),
)

IDLE: Final = Table(
    name="idle",
    meaning=(
        "One row per cause and operation: the gaps within the steps in which the accelerator did nothing, by what "
        "ended them; no rows without an accelerator."
    ),
    columns=(
        text(
            "cause",
            "launch: the next work was launched before the gap, and had not started; host: it was launched late; "
            "loader: it was launched late, and waiting for data had held the host up for at least half as long as the "
            "gap; synchronisation: so had waiting for the device; unknown: no launch is recorded.",
        ),
        text(
            "operation",
            "The operation on the host in the middle of the gap, for synchronisation the one that waited; a driver "
            "call where no operation is around it; empty where none ran.",
        ),
        whole("gaps", "1", "Number of gaps."),
        number("total_ms", "ms", "Sum of the gaps."),
        number("longest_us", "us", "The longest."),
        number("share", "1", "total_ms over the wall time of the steps that saw work on a device."),
    ),
)

LAUNCHES: Final = Table(
    name="launches",
    meaning="One row per profiled step that saw device work: how far the host ran ahead of the accelerator.",
    columns=(
        _STEP,
        whole("launches", "1", "Pieces of device work launched in the step."),
        number("short_share", "1", "Share of them that ran for less than 10 us."),
        number("median_delay_us", "us", "Median time from the end of the launching call to the start of the work."),
        number("mean_queue", "1", "Work launched and not yet started, on average over the step's time."),
        whole("longest_queue", "1", "The most work launched and not yet started at any moment of the step."),
        number(
            "launch_bound_share",
            "1",
            "Share of the step in which the accelerator waited for a host that went from launch to launch: gaps of "
            "cause host or launch, shorter than 200 us, whose next work started within 10 us of its launch.",
        ),
    ),
)

PHASES: Final = Table(
    name="phases",
    meaning="One row per device and phase of the step, in the order of the step; over all profiled steps.",
    columns=(
        _DEVICE,
        text("phase", "data, forward, loss (where the trace marks it), backward, optimizer, or other."),
        number(
            "self_ms",
            "ms",
            "Time of the calls that began in the phase; on an accelerator of the work that was launched in it.",
        ),
        number("share", "1", "self_ms over the sum of self_ms on that device."),
        number("convolution_ms", "ms", "Of self_ms, in convolutions."),
        number("cudnn_ms", "ms", "Of self_ms, in cuDNN's kernels; missing on the host."),
    ),
)

COPIES: Final = Table(
    name="copies",
    meaning="One row per direction and kind of host memory of the copies that the steps launched.",
    columns=(
        text("direction", "to device, to host, within device, between devices, within host, or unknown."),
        text("host_memory", "pageable, pinned, managed, or unknown; empty where the host takes no part."),
        whole("copies", "1", "Number of copies."),
        number("size_mib", "MiB", "Bytes of all of them; missing where one has none written."),
        number("total_ms", "ms", "Sum of their run times."),
        number("gb_per_s", "GB/s", "Bytes over run time."),
    ),
)

MEMORY: Final = Table(
    name="memory",
    meaning="The allocator's totals over time, at most 200 moments per device, the peak always among them.",
    columns=(
        _MEMORY_DEVICE,
        number("at_ms", "ms", "Since the begin of the first profiled step."),
        number("allocated_mib", "MiB", "Memory given to tensors."),
        number("reserved_mib", "MiB", "Memory taken from the device, or NaN where the allocator does not say."),
    ),
)

ALLOCATIONS: Final = Table(
    name="allocations",
    meaning=(
        "One row per device and operation: the memory that it asked for within the profiled steps, whether or not it "
        "was freed again; no rows where the profiler recorded no memory."
    ),
    columns=(
        _MEMORY_DEVICE,
        text("operation", "As in the table alive_at_peak."),
        number("allocations_per_step", "1", "Blocks that it asked for in a step."),
        number("allocated_mib_per_step", "MiB", "Their size together."),
        number("share", "1", "Over the sum of all operations on that device."),
        number(
            "within_call_mib",
            "MiB",
            "The most that one call held at a time in blocks that it freed before it ended, as a convolution does its"
            " workspace; missing outside of all operations and where blocks have no addresses.",
        ),
    ),
)

ALIVE: Final = Table(
    name="alive_at_peak",
    meaning=(
        "One row per device and operation: what was allocated within the trace and still alive when the device's "
        "memory was fullest, by the operation that asked for it; what was there before the trace is one row of its own."
    ),
    columns=(
        _MEMORY_DEVICE,
        text(
            "operation",
            "The innermost operation at the time of the allocation, past those that only allocate, such as "
            "aten::empty; or (before the trace), or (no operation).",
        ),
        whole("blocks", "1", "Number of blocks; 0 for what was there before."),
        number("size_mib", "MiB", "Their size together."),
    ),
)

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
            "spoils", "Tables and columns whose numbers cannot be trusted if it fails, such as steps.device_idle_share."
        ),
    ),
)

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
