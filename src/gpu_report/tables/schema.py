"""Every table of the study, its columns declared once; where a number is NaN, it was not measured.

A metric of the glossary that is summarized over processes has four columns: mean, both ends of the interval, count.
"""

from typing import Final

from gpu_report.columns import Table, flag, number, text, whole
from gpu_report.glossary import PER_PROCESS
from gpu_report.tables.column_kinds import (
    DEVICE,
    EPOCH,
    REPETITION,
    VARIANT,
    WORKLOAD,
    metric,
    summary,
    summary_of,
)
from gpu_report.tables.device_schema import CROSSOVERS, EFFICIENCY, OWN_LOOPS, PEAKS, TELEMETRY, TRANSFERS
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


_VARIANT_COLUMNS: Final = (
    VARIANT,
    WORKLOAD,
    text("workload_title", "Its name for readers."),
    text("size", "Size of the model or its input; 'default' where there is one only."),
    DEVICE,
    whole("batch_size", "1", "Training samples per step."),
    whole("workers", "1", "DataLoader workers; 0 loads in the training process."),
    whole("accumulation", "1", "Parts of equal size in which a step goes through its batch."),
    text("precision", "Precision of the training's arithmetic."),
    text("options", "What is switched on, by the names of gpu_report.options; 'none' without."),
    text("optimization", "DataLoader workers, accumulation and options in one name; 'none' for the eager baseline."),
    whole("epochs", "1", "Epochs trained, the first included."),
    number("steps_per_epoch", "1", "Steps of an epoch; missing where it is the whole training set."),
    number("optimizer_steps", "1", "Steps of all these epochs together; missing unless the status is ok."),
    whole("seed", "1", "Seed of the first process."),
    flag("begins_anew", "Every epoch, and every profiled step, is a whole training by a loop of the workload's own."),
    text("status", "ok, oom, failed or skipped."),
    text("reason", "Why there is no measurement, or no profile where the status is ok; else empty."),
    text("marks", "Doubts about the measurement, separated by semicolons; empty if none."),
    metric("parameters"),
    whole("processes", "1", "Fresh processes that trained to the end."),
    *(column for name in PER_PROCESS for column in summary_of(name)),
    flag("epoch_time_projected", "epoch_time_s follows from epochs that were not the whole training set."),
    text("quality_name", "The quality metric; empty where the workload could not be built."),
    number("quality_chance", "1", "Quality that guessing without looking reaches."),
    text("memory_kind", "'allocator' (device memory of the process) or 'resident set' (main memory of the process)."),
    metric("profile_overhead"),
    text("measured_at", "UTC, ISO 8601."),
    flag("same_code", "Measured by the code of today."),
    text("commit", "Commit of the project that measured; empty where it is not known."),
    text("commit_state", "'clean', or 'with changes' where files differed from it; empty where it is not known."),
    text("code_digest", "SHA-256 of the code that measures."),
    text("trace_sha256", "SHA-256 of the profiler's trace; empty without one."),
    text("torch", "Version of PyTorch that measured; empty where it is not known."),
    whole("protocol_version", "1", "Version of the protocol by which it was measured."),
    metric("preparation_cold_s"),
    metric("skipped_steps"),
    metric("loss_scale_last"),
    metric("memory_reserved_mib"),
    metric("memory_fragmented_mib"),
    metric("allocator_retries"),
    number("device_memory_mib", "MiB", "Memory that the device has; missing on the CPU."),
    number("memory_asked_mib", "MiB", "Size of the allocation that failed; missing unless the status is oom."),
    number("memory_free_mib", "MiB", "Memory of the device that was free then; missing unless the status is oom."),
    metric("energy_per_epoch_j"),
    number(
        "cost_per_epoch", "1", "Money for one epoch at the configured prices, in currency; missing without a price."
    ),
    text("currency", "Currency of cost_per_epoch; empty without a price."),
    number(
        "price_per_kwh", "1", "Configured price of electricity, in cost_per_epoch; missing where none is configured."
    ),
    number("price_per_device_hour", "1", "Of an hour of the machine with one accelerator; missing as the one before."),
)

VARIANTS: Final = Table(name="variants", meaning="One row per variant of the study.", columns=_VARIANT_COLUMNS)

EXPERIMENT: Final = Table(
    name="experiment",
    meaning="One row per variant of an experiment, in the order of the configuration, compared within its group.",
    columns=(
        *_VARIANT_COLUMNS,
        text("group", "What the compared variants share, in short, for instance 'cnn medium cpu'."),
        flag("is_baseline", "The variant that the others of its group are compared with."),
        *summary_of("speedup"),
        number("speedup_p", "1", f"That chance alone made it differ from 1, {_ADJUSTED}"),
        metric("time_reduction_percent"),
        metric("break_even_steps"),
        *summary_of("quality_change"),
        number("quality_change_p", "1", f"That chance alone made it differ from 0, {_ADJUSTED}"),
        metric("convolution_workspace_mib"),
        number("target", "1", "Held-out quality that the experiment asks for; missing where it asks for none."),
        *summary_of("time_to_target_s"),
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
