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
    _text("precision", "Number format of the training's arithmetic."),
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

STUDY_TABLES: Final = (
    VARIANTS,
    CONVERGENCE,
    LOSSES,
    EPOCHS,
    CONSISTENCY,
    TOP_OPERATIONS,
    CATEGORY_SHARES,
    MACHINE,
)
"""Every table but those of the experiments; a table's name is that of its field in the bundle and of its file."""
