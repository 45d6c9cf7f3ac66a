"""Every table of the study, its columns declared once; where a number is NaN, it was not measured.

metric -> four columns: the mean over the processes, the ends of its 95 % interval, and how many processes there are
"""

from typing import Final, NamedTuple

from gpu_report.columns import Table, flag, number, text, whole
from gpu_report.tables.column_kinds import (
    DEVICE,
    EPOCH,
    REPETITION,
    VARIANT,
    WORKLOAD,
    summary,
)
from gpu_report.tables.device_schema import CROSSOVERS, EFFICIENCY, OWN_LOOPS, PEAKS, TELEMETRY, TRANSFERS
from gpu_report.tables.statistics import Scale
from gpu_report.tables.trace_schema import TRACE_STUDY_TABLES

__all__ = [
    "CATEGORY_SHARES",
    "COMPARISON",
    "CONSISTENCY",
    "CONVERGENCE",
    "CROSSOVERS",
    "EFFICIENCY",
    "EPOCHS",
    "EXPERIMENT",
    "LOSSES",
    "MACHINE",
    "METRICS",
    "OWN_LOOPS",
    "PEAKS",
    "PHASES",
    "SOURCES",
    "STUDY_TABLES",
    "TELEMETRY",
    "TOP_OPERATIONS",
    "TRANSFERS",
    "VARIANTS",
]

_DIVERGED: Final = "missing where it was not finite, because the training diverged."

_NOT_RELIABLE: Final = "No rows where the trace's quality gate spoils these times; trace_doubts says why."

_ADJUSTED: Final = "adjusted for the table's other comparisons (Holm); missing of fewer than 4 processes."


class Figure(NamedTuple):
    """A figure of a process, and on which scale processes are averaged.

    Logarithmic is what is positive and has no most; what can be 0 or negative, and shares, are averaged as they are.
    """

    unit: str
    scale: Scale
    meaning: str


METRICS: Final[dict[str, Figure]] = {
    "step_time_ms": Figure("ms", "log", "Time of one training step: median over the timed steps of a process"),
    "throughput_per_s": Figure("1/s", "log", "Training samples per second over the timed epochs"),
    "epoch_time_s": Figure(
        "s", "log", "Wall time of one epoch over the whole training set, projected where epochs were not that"
    ),
    "first_epoch_ratio": Figure("1", "log", "Wall time of the first epoch over that of the median timed epoch"),
    "memory_peak_mib": Figure("MiB", "log", "Peak memory of the training process, of the kind that memory_kind names"),
    "quality": Figure(
        "1", "share", "Quality on the held-out samples after the last epoch, in the metric that quality_name names"
    ),
    "test_loss": Figure("1", "linear", "Mean loss on the held-out samples after the last epoch"),
    "data_wait_share": Figure("1", "share", "Share of the timed epochs' wall time that the loop waited for the loader"),
    "preparation_time_s": Figure(
        "s", "amount", "Compiling and capturing before the first step, with the compiler's cache filled"
    ),
    "utilisation_percent": Figure(
        "%",
        "percent",
        "GPU utilization (NVML): mean over the timed epochs of the share of time with any kernel running",
    ),
    "power_w": Figure("W", "log", "Mean power of the accelerator over the timed epochs"),
    "sm_clock_mhz": Figure("MHz", "log", "Median clock of the accelerator's multiprocessors over the timed epochs"),
    "temperature_c": Figure("C", "linear", "Highest temperature of the accelerator over the timed epochs"),
    "energy_per_sample_j": Figure("J", "log", "Energy of the accelerator over the timed epochs, per training sample"),
}
"""Every figure that is summarised over the processes of a variant, by name."""

_VARIANT_COLUMNS: Final = (
    VARIANT,
    WORKLOAD,
    text("workload_title", "Its name for readers."),
    text("size", "Size of the model or its input; 'default' where there is one only."),
    DEVICE,
    whole("batch_size", "1", "Training samples per step."),
    whole("workers", "1", "Loader processes; 0 loads in the training process."),
    whole("accumulation", "1", "Parts of equal size in which a step goes through its batch."),
    text("precision", "Number format of the training's arithmetic."),
    text("options", "What is switched on, by the names of gpu_report.options; 'none' without."),
    text("optimization", "Loader processes, accumulation and options in one name; 'none' for the eager baseline."),
    whole("epochs", "1", "Epochs trained, the first included."),
    number("steps_per_epoch", "1", "Steps of an epoch; missing where it is the whole training set."),
    number("optimizer_steps", "1", "Steps of all these epochs together; missing unless the status is ok."),
    whole("seed", "1", "Seed of the first process."),
    flag("begins_anew", "Every epoch, and every profiled step, is a whole training by a loop of the workload's own."),
    text("status", "ok, oom, failed or skipped."),
    text("reason", "Why there is no measurement, or no profile where the status is ok; else empty."),
    text("marks", "Doubts about the measurement, separated by semicolons; empty if none."),
    number("parameters", "1", "Trainable parameters; missing where the workload could not be built."),
    whole("processes", "1", "Fresh processes that trained to the end."),
    *(column for name, figure in METRICS.items() for column in summary(name, figure.unit, figure.meaning)),
    flag("epoch_time_projected", "epoch_time_s follows from epochs that were not the whole training set."),
    text("quality_name", "The quality metric; empty where the workload could not be built."),
    number("quality_chance", "1", "Quality that guessing without looking reaches."),
    text("memory_kind", "'allocator' (device memory of the process) or 'resident set' (main memory of the process)."),
    number(
        "profile_overhead", "1", "Step time with the profiler on over wall time per timed step; missing without it."
    ),
    text("measured_at", "UTC, ISO 8601."),
    flag("same_code", "Measured by the code of today."),
    text("torch", "Version of PyTorch that measured; empty where it is not known."),
    whole("protocol_version", "1", "Version of the protocol by which it was measured."),
    number("preparation_cold_s", "s", "Compiling and capturing with an empty cache, in the first process."),
    number("skipped_steps", "1", "Steps that the gradient scaler skipped, of all processes; missing but with fp16."),
    number("loss_scale_last", "1", "Factor of the gradient scaler after the last step; median; missing but with fp16."),
    number("memory_reserved_mib", "MiB", "Peak that PyTorch took from the driver, in the profiled run."),
    number("memory_fragmented_mib", "MiB", "Peak left over in split blocks of PyTorch's allocator, in that run."),
    number("allocator_retries", "1", "Times that the allocator emptied its cache because the driver had no more."),
    number("device_memory_mib", "MiB", "Memory that the device has; missing on the CPU."),
    number("memory_asked_mib", "MiB", "Size of the allocation that failed; missing unless the status is oom."),
    number("memory_free_mib", "MiB", "Memory of the device that was free then; missing unless the status is oom."),
    number("energy_per_epoch_j", "J", "energy_per_sample_j times the samples of the training set."),
    number(
        "cost_per_epoch", "1", "Money for one epoch at the configured prices, in currency; missing without a price."
    ),
    text("currency", "Currency of cost_per_epoch; empty without a price."),
)

VARIANTS: Final = Table(name="variants", meaning="One row per variant of the study.", columns=_VARIANT_COLUMNS)

EXPERIMENT: Final = Table(
    name="experiment",
    meaning="One row per variant of an experiment, in the order of the configuration, compared within its group.",
    columns=(
        *_VARIANT_COLUMNS,
        text("group", "What the compared variants share, in short, for instance 'cnn medium cpu'."),
        flag("is_baseline", "The variant that the others of its group are compared with."),
        *summary("speedup", "1", "Throughput over that of the baseline; exactly 1 for the baseline itself"),
        number("speedup_p", "1", f"That chance alone made it differ from 1, {_ADJUSTED}"),
        number("time_reduction_percent", "%", "Time per sample saved against the baseline; negative where slower."),
        number(
            "break_even_steps",
            "1",
            "Steps after which the time saved has paid for preparing with an empty cache; missing where nothing is"
            " prepared, or the variant is not significantly faster.",
        ),
        *summary("quality_change", "1", "Quality less the baseline's, seed by seed; missing where seeds differ"),
        number("quality_change_p", "1", f"That chance alone made it differ from 0, {_ADJUSTED}"),
        number(
            "convolution_workspace_mib",
            "MiB",
            "The most memory that a convolution held within its own call, in the profiled steps; missing where no trace"
            " has it.",
        ),
        number("target", "1", "Held-out quality that the experiment asks for; missing where it asks for none."),
        *summary(
            "time_to_target_s",
            "s",
            "Training time up to the end of the first epoch that reached the target, without evaluation; missing"
            " where a process never reached it",
        ),
    ),
)

CONVERGENCE: Final = Table(
    name="convergence",
    meaning="One row per variant, process and epoch: how the training went.",
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        REPETITION,
        EPOCH,
        whole("samples_seen", "1", "Training samples gone through by the end of the epoch."),
        number("train_loss", "1", f"Mean over the steps of the epoch; {_DIVERGED}"),
        number("test_loss", "1", f"Mean on the held-out samples after the epoch; {_DIVERGED}"),
        number("quality", "1", f"Quality on the held-out samples after the epoch; {_DIVERGED}"),
    ),
)

LOSSES: Final = Table(
    name="losses",
    meaning="One row per variant, process and step: the training loss.",
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        REPETITION,
        whole("step", "1", "Index of the step since the training began."),
        number("train_loss", "1", f"Loss of the step; {_DIVERGED}"),
        number("loss_scale", "1", "Factor of the gradient scaler after the step; missing but with fp16."),
    ),
)

EPOCHS: Final = Table(
    name="epochs",
    meaning="One row per variant, process and epoch: the wall time as measured, shortened epochs included.",
    columns=(
        VARIANT,
        REPETITION,
        EPOCH,
        number("wall_time_s", "s", "Wall time of the epoch's training; evaluation lies outside."),
        flag("is_warm_up", "One of the first epochs, which are not timed."),
    ),
)

CONSISTENCY: Final = Table(
    name="consistency",
    meaning="One row per CPU variant, its twin on an accelerator, metric and epoch: do the two learn the same?",
    columns=(
        text("variant", "The accelerator's variant; the CPU's differs in the device only."),
        WORKLOAD,
        text("size", "Size of the model or its input."),
        whole("batch_size", "1", "Training samples per step."),
        text("reference_device", "The CPU."),
        DEVICE,
        text("metric", "train_loss, test_loss or quality."),
        EPOCH,
        number("reference_value", "1", "On the CPU; mean over the processes that both have, by seed."),
        number("value", "1", "On the accelerator; mean over the same seeds."),
        number(
            "difference_percent",
            "%",
            "Size of the difference, of the CPU's value: mean over pairs of processes with the same seed; "
            "missing where the CPU's value is 0.",
        ),
    ),
)

TOP_OPERATIONS: Final = Table(
    name="top_operations",
    meaning=(
        "One row per profiled variant and rank: the operations that took most time of their own on its device. "
        f"{_NOT_RELIABLE}"
    ),
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        whole("rank", "1", "1 for the operation with the most time of its own."),
        text("name", "Name of the operation as PyTorch gives it."),
        text("category", "Its category."),
        whole("calls", "1", "Calls in the profiled steps."),
        number("total_ms", "ms", "Time in the profiled steps, operations called from it included."),
        number("self_ms", "ms", "Time in the profiled steps, operations called from it left out."),
        number("self_share", "1", "self_ms over that of all operations on the device."),
    ),
)

CATEGORY_SHARES: Final = Table(
    name="category_shares",
    meaning=(
        f"One row per profiled variant and category of operations: its time on the variant's device. {_NOT_RELIABLE}"
    ),
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text("category", "Category of operations."),
        whole("calls", "1", "Calls in the profiled steps."),
        number("self_ms", "ms", "Time in the profiled steps, operations called from within left out."),
        number("share", "1", "self_ms over that of all categories on the device."),
    ),
)

MACHINE: Final = Table(
    name="machine",
    meaning="One row per fact about what measured and what was measured, as the records tell.",
    columns=(
        text("topic", "hardware, software, measurement or workload."),
        text("name", "What the fact is about."),
        text("value", "The fact; several, separated by semicolons, where the records differ."),
    ),
)

PHASES: Final = Table(
    name="phases",
    meaning=(
        "One row per profiled variant and phase of the step: its share of the time on the variant's device. "
        f"{_NOT_RELIABLE}"
    ),
    columns=(
        VARIANT,
        WORKLOAD,
        DEVICE,
        text("phase", "data, forward, loss (where the trace marks it), backward, optimizer or other."),
        number("self_ms", "ms", "Time on the device in the profiled steps."),
        number("share", "1", "self_ms over that of all phases."),
        number("convolution_share", "1", "Of the phase's time, in convolutions."),
        number("cudnn_share", "1", "Of the phase's time, in cuDNN's kernels; missing on the CPU."),
    ),
)

COMPARISON: Final = Table(
    name="comparison",
    meaning="One row per variant that two machines measured, and pair of them; the ratio is between machines.",
    columns=(
        VARIANT,
        WORKLOAD,
        text("workload_title", "Its name for readers."),
        DEVICE,
        text("machine", "The machine that is compared."),
        text("reference_machine", "The machine it is compared with, the first in the report's order that has it."),
        *summary("throughput_per_s", "1/s", "Training samples per second on the machine"),
        *summary("reference_throughput_per_s", "1/s", "Training samples per second on the reference machine"),
        *summary("ratio", "1", "The former over the latter"),
        text("differences", "What else differs, such as 'PyTorch 2.11.0 and 2.15.0' or 'protocol 1 and 2'; or empty."),
        text("marks", "Doubts about either measurement, separated by semicolons; empty if none."),
    ),
)

SOURCES: Final = Table(
    name="sources",
    meaning="One row per figure that a source of this project reports: theirs, ours of the same training, the ratio.",
    columns=(
        text("row", "The requirement it belongs to, such as A1."),
        text("source", "The source, in words."),
        text("hardware", "The source's hardware; 'not reported' where it does not name it."),
        text("measured", "What it is, in words."),
        text("metric", "training_time_s, speedup (of that), throughput_per_s, memory_peak_mib, quality or parameters."),
        text("unit", "Unit of reported and ours."),
        number("reported", "unit", "The source's figure, on its hardware; missing where it reports none."),
        *summary("ours", "unit", "The same on this machine; missing without a measurement of the same training"),
        *summary("ratio", "1", "Ours over the source's"),
        text("variant", "The variant of ours that answers it."),
        text("reference_variant", "The variant that a speedup is over; else empty."),
        text("assumed", "What the source leaves open and was chosen here; or empty."),
        text("marks", "Doubts about our measurement, separated by semicolons; empty if none."),
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
    OWN_LOOPS,
    CROSSOVERS,
    TELEMETRY,
    MACHINE,
    SOURCES,
    *TRACE_STUDY_TABLES,
)
"""Every table but those of the experiments; a table's name is that of its field in the bundle and of its file."""
