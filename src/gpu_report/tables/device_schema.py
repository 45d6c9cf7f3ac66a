"""The tables of what the devices reach: ceilings, copies, how near the variants come, and what the driver tells."""

from typing import Final

from gpu_report.columns import Table, flag, number, text, whole
from gpu_report.tables.column_kinds import DEVICE, REPETITION, VARIANT, WORKLOAD, summary, summary_of

PEAKS: Final = Table(
    name="peaks",
    meaning="One row per device and ceiling: what the calibration reached on this machine.",
    columns=(
        DEVICE,
        text("ceiling", "'matrix product', 'device copy', 'to device' or 'to host' (the last two from pinned memory)."),
        text("precision", "Of a matrix product; empty otherwise."),
        text("unit", "FLOP/s or B/s."),
        *summary("value", "unit", "The rate reached; a copy inside the device counts bytes read and bytes written"),
        number("data_sheet", "unit", "What the vendor gives for dense matrices, or for the memory's bandwidth."),
        number("share_of_data_sheet", "1", "value over data_sheet; missing for a GPU that is not known, and for CPUs."),
        text("data_sheet_source", "The vendor's document, or why it is not compared; empty for an unknown device."),
    ),
)

TRANSFERS: Final = Table(
    name="transfers",
    meaning="One row per device, direction, kind of host memory and size of a copy between host and device.",
    columns=(
        DEVICE,
        text("direction", "'to device' or 'to host'."),
        text("memory", "'pageable' or 'pinned'."),
        whole("bytes", "B", "Size of the copy."),
        *summary_of("time_us"),
        *summary_of("bandwidth_gb_per_s"),
        number("share_of_peak", "1", "bandwidth over the highest of that direction."),
    ),
)

EFFICIENCY: Final = Table(
    name="efficiency",
    meaning="One row per variant whose step was counted, on a device that was calibrated: how near to its ceilings.",
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text("precision", "Precision of the training's arithmetic."),
        text("optimization", "As in the table of variants."),
        number("flops_per_sample", "FLOP", "Floating-point operations per training sample, as counted."),
        number("bytes_per_sample", "B", "Bytes that the eager operators read and write per training sample."),
        number("intensity", "FLOP/B", "Arithmetic intensity: the former over the latter."),
        *summary_of("achieved_flops_per_s"),
        number("peak_flops_per_s", "FLOP/s", "Matrix products in the variant's precision on this device."),
        *summary_of("share_of_peak"),
        number("roof_flops_per_s", "FLOP/s", "The lower of peak and intensity times the device's copy rate."),
        number("share_of_roof", "1", "achieved over roof; missing where it is passed, as fused operations move less."),
        text("roof", "'compute' or 'memory': which of the two is lower."),
        text("uncounted", "Operators without a formula, separated by semicolons; empty if none."),
    ),
)

CROSSOVERS: Final = Table(
    name="crossovers",
    meaning="One row per experiment that compares devices at several batch sizes: from which one the accelerator wins.",
    columns=(
        text("experiment", "Name of the experiment."),
        text("group", "What the compared variants share, for instance 'cnn small'."),
        WORKLOAD,
        DEVICE,
        whole("smallest", "1", "Smallest batch size measured on both devices."),
        whole("largest", "1", "Largest one."),
        text("verdict", "'crosses', 'accelerator always', 'cpu always' or 'unclear'."),
        *summary_of("batch_size"),
    ),
)

TELEMETRY: Final = Table(
    name="telemetry",
    meaning="One row per variant, process and sample of the accelerator's driver while the timed epochs ran.",
    columns=(
        VARIANT,
        REPETITION,
        number("moment_s", "s", "Since the first timed epoch began."),
        number(
            "utilisation_percent", "%", "GPU utilization (NVML): share of the driver's window in which a kernel ran."
        ),
        number("memory_used_mib", "MiB", "Device memory in use."),
        number("power_w", "W", "Power."),
        number("sm_clock_mhz", "MHz", "Clock of the multiprocessors."),
        number("temperature_c", "C", "Temperature."),
    ),
)

OWN_LOOPS: Final = Table(
    name="own_loops",
    meaning="One row per measured variant whose workload brings its own loop: a pass over its points, and its floor.",
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text("optimization", "As in the table of variants; the loop's name."),
        flag("is_bound", "The loop leaves out most of the work and is there as a bound."),
        whole("points", "1", "Training samples, all of them in every pass."),
        whole("passes", "1", "Passes of one training, from the initial weights."),
        *summary_of("training_ms"),
        *summary_of("pass_us"),
        number("work_per_pass", "1", "Kernels, copies and fills of the device in a pass, from the trace."),
        number("bytes_per_point", "B", "Moved at least in a pass: of PyTorch's operators, or as the loop is written."),
        number(
            "floor_us",
            "us",
            "Least time of a pass: its bytes at the device's copy rate, or its operations at the peak.",
        ),
        text("floor", "'memory' or 'compute': which of the two takes longer; empty where none is known."),
        number("times_floor", "1", "pass_us over floor_us; below 1 where caches hold the points."),
        number("reading_us", "us", "Time to read all points once at the device's copy rate; for workloads of ours."),
        number("readings", "1", "pass_us over reading_us."),
        text("learnt", "What the first process learnt, by name."),
        number(
            "reference_error", "1", "Largest relative error of parameters and losses in any process, against float64."
        ),
    ),
)
