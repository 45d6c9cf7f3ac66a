"""Every table of the study, its columns declared once; where a number is NaN, it was not measured.

metric -> three columns: the median over the processes, and the ends of its 95 % interval
"""

from typing import Final

from gpu_report.columns import Column, Table


def _text(name: str, meaning: str) -> Column:
    return Column(name=name, dtype="str", meaning=meaning)


def _flag(name: str, meaning: str) -> Column:
    return Column(name=name, dtype="bool", meaning=meaning)


def _whole(name: str, unit: str, meaning: str) -> Column:
    return Column(name=name, dtype="int64", unit=unit, meaning=meaning)


def _number(name: str, unit: str, meaning: str) -> Column:
    return Column(name=name, dtype="float64", unit=unit, meaning=meaning)


def _summary(name: str, unit: str, meaning: str) -> tuple[Column, Column, Column]:
    return (
        _number(name, unit, f"{meaning}; median over processes."),
        _number(f"{name}_low", unit, "Lower end of its 95 % bootstrap interval."),
        _number(f"{name}_high", unit, "Upper end of its 95 % bootstrap interval."),
    )


_VARIANT: Final = _text("variant", "Name of the variant, the folder of its record.")
_WORKLOAD: Final = _text("workload", "What is trained, as named in the configuration.")
_DEVICE: Final = _text("device", "PyTorch device name.")
_REPETITION: Final = _whole("repetition", "1", "Index of the fresh process.")
_EPOCH: Final = _whole("epoch", "1", "Index of the epoch; 0 is the first, kept apart as warm-up.")
_DIVERGED: Final = "missing where it was not finite, because the training diverged."

METRICS: Final[dict[str, tuple[str, str]]] = {
    "step_time_ms": ("ms", "Time of one training step: median over the timed steps of a process"),
    "throughput_per_s": ("1/s", "Training samples per second over the timed epochs"),
    "epoch_time_s": ("s", "Wall time of one epoch over the whole training set, projected where epochs were shortened"),
    "first_epoch_ratio": ("1", "Wall time of the first epoch over that of the median timed epoch"),
    "memory_peak_mib": ("MiB", "Peak memory of the training process, of the kind that memory_kind names"),
    "quality": ("1", "Quality on the held-out samples after the last epoch, in the metric that quality_name names"),
    "test_loss": ("1", "Mean loss on the held-out samples after the last epoch"),
    "data_wait_share": ("1", "Share of the timed epochs' wall time that the loop waited for the loader"),
    "preparation_time_s": ("s", "Compiling and capturing before the first step, with the compiler's cache filled"),
    "utilisation_percent": ("%", "Mean over the timed epochs of the driver's utilisation of the accelerator"),
    "power_w": ("W", "Mean power of the accelerator over the timed epochs"),
    "sm_clock_mhz": ("MHz", "Median clock of the accelerator's multiprocessors over the timed epochs"),
    "temperature_c": ("C", "Highest temperature of the accelerator over the timed epochs"),
    "energy_per_sample_j": ("J", "Energy of the accelerator over the timed epochs, per training sample"),
}
"""Name -> (unit, meaning) of every figure that is summarised over the processes of a variant."""

_VARIANT_COLUMNS: Final = (
    _VARIANT,
    _WORKLOAD,
    _text("workload_title", "Its name for readers."),
    _text("size", "Size of the model or its input; 'default' where there is one only."),
    _DEVICE,
    _whole("batch_size", "1", "Training samples per step."),
    _whole("workers", "1", "Loader processes; 0 loads in the training process."),
    _whole("accumulation", "1", "Parts of equal size in which a step goes through its batch."),
    _text("precision", "Number format of the training's arithmetic."),
    _text("options", "What is switched on, by the names of gpu_report.options; 'none' without."),
    _text("optimization", "Loader processes, accumulation and options in one name; 'none' for the plain loop."),
    _whole("epochs", "1", "Epochs trained, the first included."),
    _number("steps_per_epoch", "1", "Steps of a shortened epoch; missing where an epoch is the whole training set."),
    _whole("seed", "1", "Seed of the first process."),
    _text("status", "ok, oom, failed or skipped."),
    _text("reason", "Why there is no measurement; empty where the status is ok."),
    _text("marks", "Doubts about the measurement, separated by semicolons; empty if none."),
    _number("parameters", "1", "Trainable parameters; missing where the workload could not be built."),
    _whole("processes", "1", "Fresh processes that trained to the end."),
    *(column for name, (unit, meaning) in METRICS.items() for column in _summary(name, unit, meaning)),
    _flag("epoch_time_projected", "epoch_time_s follows from shortened epochs."),
    _text("quality_name", "The quality metric; empty where the workload could not be built."),
    _number("quality_chance", "1", "Quality that guessing without looking reaches."),
    _text("memory_kind", "'allocator' (device memory of the process) or 'resident set' (main memory of the process)."),
    _number(
        "profile_overhead", "1", "Step time with the profiler on over wall time per timed step; missing without it."
    ),
    _text("measured_at", "UTC, ISO 8601."),
    _flag("same_code", "Measured by the code of today."),
    _text("torch", "Version of PyTorch that measured; empty where it is not known."),
    _whole("protocol_version", "1", "Version of the protocol by which it was measured."),
    _number("preparation_cold_s", "s", "Compiling and capturing with an empty cache, in the first process."),
    _number("skipped_steps", "1", "Steps that the gradient scaler skipped, of all processes; missing but with fp16."),
    _number(
        "loss_scale_last", "1", "Factor of the gradient scaler after the last step; median; missing but with fp16."
    ),
    _number("memory_reserved_mib", "MiB", "Peak that PyTorch took from the driver, in the profiled run."),
    _number("device_memory_mib", "MiB", "Memory that the device has; missing on the CPU."),
    _number("memory_asked_mib", "MiB", "Size of the allocation that failed; missing unless the status is oom."),
    _number("energy_per_epoch_j", "J", "energy_per_sample_j times the samples of the training set."),
    _number(
        "cost_per_epoch", "1", "Money for one epoch at the configured prices, in currency; missing without a price."
    ),
    _text("currency", "Currency of cost_per_epoch; empty without a price."),
)

VARIANTS: Final = Table(name="variants", meaning="One row per variant of the study.", columns=_VARIANT_COLUMNS)

EXPERIMENT: Final = Table(
    name="experiment",
    meaning="One row per variant of an experiment, in the order of the configuration, compared within its group.",
    columns=(
        *_VARIANT_COLUMNS,
        _text("group", "What the compared variants share, in short, for instance 'cnn medium cpu'."),
        _flag("is_baseline", "The variant that the others of its group are compared with."),
        _number("speedup", "1", "Throughput over that of the baseline; exactly 1 for the baseline itself."),
        _number("speedup_low", "1", "Lower end of the ratio's 95 % bootstrap interval."),
        _number("speedup_high", "1", "Upper end of the ratio's 95 % bootstrap interval."),
        _number("time_reduction_percent", "%", "Time per sample saved against the baseline; negative where slower."),
        _number(
            "break_even_steps",
            "1",
            "Steps after which the time saved has paid for preparing with an empty cache; missing where nothing is"
            " prepared or no time is saved.",
        ),
    ),
)

CONVERGENCE: Final = Table(
    name="convergence",
    meaning="One row per variant, process and epoch: how the training went.",
    columns=(
        _VARIANT,
        _WORKLOAD,
        _DEVICE,
        _REPETITION,
        _EPOCH,
        _whole("samples_seen", "1", "Training samples gone through by the end of the epoch."),
        _number("train_loss", "1", f"Mean over the steps of the epoch; {_DIVERGED}"),
        _number("test_loss", "1", f"Mean on the held-out samples after the epoch; {_DIVERGED}"),
        _number("quality", "1", f"Quality on the held-out samples after the epoch; {_DIVERGED}"),
    ),
)

LOSSES: Final = Table(
    name="losses",
    meaning="One row per variant, process and step: the training loss.",
    columns=(
        _VARIANT,
        _WORKLOAD,
        _DEVICE,
        _REPETITION,
        _whole("step", "1", "Index of the step since the training began."),
        _number("train_loss", "1", f"Loss of the step; {_DIVERGED}"),
    ),
)

EPOCHS: Final = Table(
    name="epochs",
    meaning="One row per variant, process and epoch: the wall time as measured, shortened epochs included.",
    columns=(
        _VARIANT,
        _REPETITION,
        _EPOCH,
        _number("wall_time_s", "s", "Wall time of the epoch's training; evaluation lies outside."),
        _flag("is_first", "The first epoch, kept apart as warm-up."),
    ),
)

CONSISTENCY: Final = Table(
    name="consistency",
    meaning="One row per CPU variant, its twin on an accelerator, metric and epoch: do the two learn the same?",
    columns=(
        _text("variant", "The accelerator's variant; the CPU's differs in the device only."),
        _WORKLOAD,
        _text("size", "Size of the model or its input."),
        _whole("batch_size", "1", "Training samples per step."),
        _text("reference_device", "The CPU."),
        _DEVICE,
        _text("metric", "train_loss, test_loss or quality."),
        _EPOCH,
        _number("reference_value", "1", "On the CPU; median over the processes that both have, by seed."),
        _number("value", "1", "On the accelerator; median over the same seeds."),
        _number(
            "difference_percent",
            "%",
            "Size of the difference, of the CPU's value: median over pairs of processes with the same seed; "
            "missing where the CPU's value is 0.",
        ),
    ),
)

TOP_OPERATIONS: Final = Table(
    name="top_operations",
    meaning="One row per profiled variant and rank: the operations that took most time of their own on its device.",
    columns=(
        _VARIANT,
        _WORKLOAD,
        _DEVICE,
        _whole("rank", "1", "1 for the operation with the most time of its own."),
        _text("name", "Name of the operation as PyTorch gives it."),
        _text("category", "Its category."),
        _whole("calls", "1", "Calls in the profiled steps."),
        _number("total_ms", "ms", "Time in the profiled steps, operations called from it included."),
        _number("self_ms", "ms", "Time in the profiled steps, operations called from it left out."),
        _number("self_share", "1", "self_ms over that of all operations on the device."),
    ),
)

CATEGORY_SHARES: Final = Table(
    name="category_shares",
    meaning="One row per profiled variant and category of operations: its time on the variant's device.",
    columns=(
        _VARIANT,
        _WORKLOAD,
        _DEVICE,
        _text("category", "Category of operations."),
        _whole("calls", "1", "Calls in the profiled steps."),
        _number("self_ms", "ms", "Time in the profiled steps, operations called from within left out."),
        _number("share", "1", "self_ms over that of all categories on the device."),
    ),
)

MACHINE: Final = Table(
    name="machine",
    meaning="One row per fact about the hardware and software that measured, as the records tell.",
    columns=(
        _text("topic", "hardware, software or measurement."),
        _text("name", "What the fact is about."),
        _text("value", "The fact; several, separated by semicolons, where the records differ."),
    ),
)

PEAKS: Final = Table(
    name="peaks",
    meaning="One row per device and ceiling: what the calibration reached on this machine.",
    columns=(
        _DEVICE,
        _text(
            "ceiling", "'matrix product', 'device copy', 'to device' or 'to host' (the last two from pinned memory)."
        ),
        _text("precision", "Of a matrix product; empty otherwise."),
        _text("unit", "FLOP/s or B/s."),
        *_summary("value", "unit", "The rate reached; a copy inside the device counts bytes read and bytes written"),
    ),
)

TRANSFERS: Final = Table(
    name="transfers",
    meaning="One row per device, direction, kind of host memory and size of a copy between host and device.",
    columns=(
        _DEVICE,
        _text("direction", "'to device' or 'to host'."),
        _text("memory", "'pageable' or 'pinned'."),
        _whole("bytes", "B", "Size of the copy."),
        *_summary("time_us", "us", "Time of one copy, the host waiting for it"),
        *_summary("bandwidth_gb_per_s", "GB/s", "Bytes over that time"),
        _number("share_of_peak", "1", "bandwidth over the highest of that direction."),
    ),
)

EFFICIENCY: Final = Table(
    name="efficiency",
    meaning="One row per variant whose step was counted, on a device that was calibrated: how near to its ceilings.",
    columns=(
        _VARIANT,
        _WORKLOAD,
        _DEVICE,
        _text("precision", "Number format of the training's arithmetic."),
        _text("optimization", "As in the table of variants."),
        _number("flops_per_sample", "FLOP", "Floating-point operations per training sample, as counted."),
        _number("bytes_per_sample", "B", "Bytes that the eager operators read and write per training sample."),
        _number("intensity", "FLOP/B", "Arithmetic intensity: the former over the latter."),
        *_summary("achieved_flops_per_s", "FLOP/s", "flops_per_sample times throughput"),
        _number("peak_flops_per_s", "FLOP/s", "Matrix products in the variant's precision on this device."),
        *_summary("share_of_peak", "1", "achieved over peak"),
        _number("roof_flops_per_s", "FLOP/s", "The lower of peak and intensity times the device's copy rate."),
        _number("share_of_roof", "1", "achieved over roof."),
        _text("roof", "'compute' or 'memory': which of the two is lower."),
        _text("uncounted", "Operators without a formula, separated by semicolons; empty if none."),
    ),
)

CROSSOVERS: Final = Table(
    name="crossovers",
    meaning="One row per experiment that compares devices at several batch sizes: from which one the accelerator wins.",
    columns=(
        _text("experiment", "Name of the experiment."),
        _text("group", "What the compared variants share, for instance 'cnn small'."),
        _WORKLOAD,
        _DEVICE,
        _whole("smallest", "1", "Smallest batch size measured on both devices."),
        _whole("largest", "1", "Largest one."),
        _text("verdict", "'crosses', 'accelerator always', 'cpu always' or 'unclear'."),
        *_summary("batch_size", "1", "Batch size at which both are equally fast, interpolated in logarithms"),
    ),
)

TELEMETRY: Final = Table(
    name="telemetry",
    meaning="One row per variant, process and sample of the accelerator's driver while the timed epochs ran.",
    columns=(
        _VARIANT,
        _REPETITION,
        _number("moment_s", "s", "Since the first timed epoch began."),
        _number("utilisation_percent", "%", "Share of the driver's window in which a kernel ran."),
        _number("memory_used_mib", "MiB", "Device memory in use."),
        _number("power_w", "W", "Power."),
        _number("sm_clock_mhz", "MHz", "Clock of the multiprocessors."),
        _number("temperature_c", "C", "Temperature."),
    ),
)

PHASES: Final = Table(
    name="phases",
    meaning="One row per profiled variant and phase of the step: its share of the time on the variant's device.",
    columns=(
        _VARIANT,
        _WORKLOAD,
        _DEVICE,
        _text("phase", "forward, backward, optimizer, data or other."),
        _number("self_ms", "ms", "Time on the device in the profiled steps."),
        _number("share", "1", "self_ms over that of all phases."),
        _number("convolution_share", "1", "Of the phase's time, in convolutions."),
        _number("cudnn_share", "1", "Of the phase's time, in cuDNN's kernels; missing on the CPU."),
    ),
)

COMPARISON: Final = Table(
    name="comparison",
    meaning="One row per variant that two machines measured, and pair of them; the ratio is between machines.",
    columns=(
        _VARIANT,
        _WORKLOAD,
        _text("workload_title", "Its name for readers."),
        _DEVICE,
        _text("machine", "The machine that is compared."),
        _text("reference_machine", "The machine it is compared with, the first in the report's order that has it."),
        *_summary("throughput_per_s", "1/s", "Training samples per second on the machine"),
        *_summary("reference_throughput_per_s", "1/s", "Training samples per second on the reference machine"),
        *_summary("ratio", "1", "The former over the latter"),
        _text("differences", "What else differs, such as 'PyTorch 2.11.0 and 2.15.0' or 'protocol 1 and 2'; or empty."),
        _text("marks", "Doubts about either measurement, separated by semicolons; empty if none."),
    ),
)

STUDY_TABLES: Final = (
    VARIANTS,
    CONVERGENCE,
    LOSSES,
    EPOCHS,
    CONSISTENCY,
    TOP_OPERATIONS,
    CATEGORY_SHARES,
    PHASES,
    PEAKS,
    TRANSFERS,
    EFFICIENCY,
    CROSSOVERS,
    TELEMETRY,
    MACHINE,
)
"""Every table but those of the experiments; a table's name is that of its field in the bundle and of its file."""
