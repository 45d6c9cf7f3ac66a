"""The record: what was measured of one variant on one machine, in a versioned schema that is checked on reading.

record.json -> Record -> repetitions (fresh processes) -> epochs -> steps
"""

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu_report.errors import RecordError
from gpu_report.files import write_text_atomically
from gpu_report.study import Measurement
from gpu_report.variant import Variant

SCHEMA_VERSION: Final = 2

Status = Literal["ok", "oom", "failed", "skipped"]
STATUSES: Final[tuple[str, ...]] = get_args(Status)

MemoryKind = Literal["allocator", "resident set"]
PreparationCache = Literal["none", "empty", "filled"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Epoch(_Part):
    """One epoch; evaluation lies outside its wall time. Of steps in one call each has their mean time."""

    wall_time_s: float = Field(gt=0, description="Clock synchronised before the first and after the last step.")
    step_times_ms: list[float] = Field(
        description="Per step, from asking for the batch until the optimizer has stepped, so that steps add up to the "
        "epoch: device events on an accelerator, host clock on the CPU."
    )
    data_wait_ms: list[float] = Field(description="Per step: how long the loop waited for the loader, on the host.")
    samples: int = Field(gt=0, description="Training samples the epoch went through.")
    train_losses: list[float] = Field(description="Per step, fetched from the device after the clock stopped.")
    loss_scales: list[float] = Field(
        default=[], description="fp16 only, per step: the gradient scaler's factor after it; a skipped step lowers it."
    )
    test_loss: float = Field(description="Mean loss on the held-out samples after the epoch.")
    quality: float = Field(description="The workload's quality metric on the held-out samples after the epoch.")


class Load(_Part):
    """How much others used, while the timed epochs ran, of the cores that the training may run on.

    None where the system does not tell, or where the epochs together took less than 0.2 s.
    """

    foreign_cpu_share: float | None = Field(description="Share of these cores' time used by other processes, 0 to 1.")
    steal_share: float | None = Field(description="Share of these cores' time taken by the hypervisor, 0 to 1.")


class Telemetry(_Part):
    """What the accelerator's driver told while the timed epochs ran; one value per sample, in the order of moments_s.

    Sampled by the process that waits for the training, so that no sample is taken from the training's own time.
    """

    period_s: float = Field(gt=0, description="Time between samples that was asked for.")
    sample_cost_ms: float = Field(ge=0, description="Median time that one sample took the process that waits.")
    moments_s: list[float] = Field(description="Since the first timed epoch began.")
    utilisation_percent: list[float] = Field(description="Share of the driver's window in which a kernel ran.")
    memory_used_mib: list[float] = Field(description="Device memory in use, by whomever.")
    power_w: list[float]
    sm_clock_mhz: list[float]
    memory_clock_mhz: list[float]
    temperature_c: list[float]
    throttle_reasons: dict[str, float] = Field(
        description="Reason for lowered clocks as NVML names it -> share of the samples; an idle device's left out."
    )
    energy_j: float | None = Field(
        description="Of the timed epochs without the evaluations between them, from the total-energy counter; None "
        "where they were too short for it, or it does not exist."
    )
    other_processes: int = Field(ge=0, description="Most processes beside the training that used the device.")
    memory_used_before_mib: float = Field(ge=0, description="In use before the training touched the device.")


class Repetition(_Part):
    """One fresh process that trained the variant."""

    index: int = Field(ge=0)
    seed: int = Field(ge=0, description="Of data, initial weights and order: the variant's seed plus the index.")
    started_at: str = Field(description="UTC, ISO 8601.")
    build_time_s: float = Field(ge=0, description="Building model, data and loaders, before the first step.")
    preparation_time_s: float = Field(
        ge=0, description="Compiling and capturing, after building and before the first step; 0 where nothing is."
    )
    preparation_cache: PreparationCache = Field(
        description="Whether the compiler's cache on disk was empty, or filled by an earlier process of the variant."
    )
    training_wall_s: float = Field(
        gt=0, description="From the begin of the first epoch to the end of the last evaluation."
    )
    epochs: list[Epoch] = Field(min_length=2, description="The first is warm-up and kept apart.")
    memory_peak_mib: float = Field(
        gt=0, description="Peak of the kind that memory_kind names; a resident set leaves loader workers out."
    )
    memory_kind: MemoryKind = Field(description="'allocator' is what PyTorch handed out to tensors on the device.")
    memory_baseline_mib: float = Field(ge=0, description="The same figure before model and data were built.")
    load: Load
    telemetry: Telemetry | None = Field(description="None on the CPU and where the driver cannot be asked.")
    learnt: dict[str, float] = Field(default={}, description="Parameters at the end, of a model that has a handful.")
    reference_error: float | None = Field(
        default=None, ge=0, description="Largest relative error of them and of the last losses against a reference."
    )

    @property
    def timed_epochs(self) -> list[Epoch]:
        """Every epoch but the first."""
        return self.epochs[1:]

    @property
    def throughput_per_s(self) -> float:
        """Samples of the timed epochs over their wall time."""
        return sum(epoch.samples for epoch in self.timed_epochs) / sum(epoch.wall_time_s for epoch in self.timed_epochs)

    @property
    def wall_per_step_ms(self) -> float:
        """Wall time of the timed epochs over their steps."""
        wall_s = sum(epoch.wall_time_s for epoch in self.timed_epochs)
        return 1000 * wall_s / sum(len(epoch.step_times_ms) for epoch in self.timed_epochs)


class Work(_Part):
    """What one training step on a full batch does, counted on the eager operators, or told by a workload's own loop."""

    samples: int = Field(gt=0, description="Samples of that step.")
    flops: float = Field(ge=0, description="Floating-point operations; a multiply-add counts as two.")
    flops_by_operator: dict[str, float]
    bytes: float = Field(
        ge=0, description="Every operator's inputs read once and outputs written once; views and host copies left out."
    )
    uncounted_operators: dict[str, int] = Field(
        description="Operators that compute and have no formula for their operations -> calls: the count's blind spots."
    )


class AllocatorSummary(_Part):
    """PyTorch's caching allocator on the device at the end of the profiled run."""

    allocated_peak_mib: float = Field(ge=0, description="Handed out to tensors.")
    reserved_peak_mib: float = Field(ge=0, description="Taken from the driver.")
    active_peak_mib: float = Field(ge=0, description="Handed out, or freed and still awaited by a stream.")
    inactive_split_peak_mib: float = Field(ge=0, description="Left over in split blocks: fragmentation.")
    allocations: int = Field(ge=0)
    retries: int = Field(ge=0, description="Times it emptied its cache because the driver had no more.")


class OutOfMemory(_Part):
    """What was asked for when memory ran out, and what there was."""

    asked_mib: float | None = Field(description="Of the allocation that failed; None where it is not told.")
    free_mib: float | None
    total_mib: float


class Profile(_Part):
    """The separate run with the profiler on."""

    trace_file: str = Field(description="File name inside the record's trace folder.")
    trace_sha256: str
    step_times_ms: list[float] = Field(min_length=1, description="Host clock, synchronised; the mean of an own loop's.")
    work: Work | None = Field(description="None where the step could not be counted.")
    allocator: AllocatorSummary | None = Field(description="None on the CPU.")
    memory_snapshot_file: str = Field(
        description="File name in the record's memory folder, for PyTorch's memory viewer; empty where there is none."
    )


class WorkloadFacts(_Part):
    """What the workload says of itself once built."""

    title: str
    parameters: int = Field(ge=0, description="Trainable parameters.")
    train_samples: int = Field(gt=0)
    test_samples: int = Field(gt=0)
    steps_per_full_epoch: int = Field(gt=0, description="Steps of an epoch over the whole training set.")
    sample_description: str = Field(description="One sample in words, for instance '64x64 RGB image, 3 classes'.")
    data_description: str = Field(
        description="How the data is generated or where it comes from, in one or two sentences."
    )
    quality_name: str = Field(description="Name of the quality metric, for instance 'Dice' or 'accuracy'.")
    quality_chance: float = Field(description="What guessing without looking reaches on the held-out samples.")
    optimizer: str
    loss: str
    source_file: str = Field(description="Python module that implements it, for instance gpu_report.workloads.unet.")
    begins_anew: bool = Field(default=False, description="Every epoch is a training from the initial weights.")


class Provenance(_Part):
    """Which code measured, and when."""

    measured_at: str = Field(description="UTC, ISO 8601.")
    package_version: str
    git_commit: str | None = Field(description="None outside a git checkout.")
    git_dirty: bool | None
    code_digest: str = Field(description="SHA-256 over the measuring code and the workloads.")
    workload_digest: str = Field(
        default="", description="SHA-256 over the file of a workload's own class; empty for a workload of ours."
    )


class Record(_Part):
    """One variant measured on one machine, or why it was not."""

    schema_version: int
    variant: str
    machine: str
    status: Status
    reason: str = Field(description="Of a status other than ok, or why there is no profile; empty where all went well.")
    measurement: dict[str, Any] = Field(description="Measurement.as_dict(): variant, workload and protocol as asked.")
    workload: WorkloadFacts | None = Field(description="None where the workload could not be built.")
    repetitions: list[Repetition]
    profile: Profile | None = Field(
        description="None where the variant, or the profiled run alone, did not fit or failed."
    )
    out_of_memory: OutOfMemory | None = Field(description="None unless the status is oom.")
    environment: dict[str, str | int | float | None] = Field(description="Software and hardware as found.")
    provenance: Provenance

    def as_variant(self) -> Variant:
        """The variant this record is about."""
        return Variant.from_slug(self.variant)

    @property
    def profile_overhead(self) -> float:
        """Median step time with the profiler on over the median wall time per timed step; NaN without either.

        Both are host clocks with the device synchronised at the ends; device times of single steps would leave out what
        the profiler costs on the host.
        """
        if self.profile is None or self.status != "ok":
            return math.nan
        timed_ms = [repetition.wall_per_step_ms for repetition in self.repetitions]
        return statistics.median(self.profile.step_times_ms) / statistics.median(timed_ms)


def read_record(path: Path) -> Record:
    """Read a record and check it.

    Raises:
        RecordError: the file is missing, cut short, of a newer schema, or holds values that the schema forbids.
    """
    mend = "delete it and run the same command again to measure it anew"
    try:
        values = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecordError(f"cannot read record {path}: {error.strerror}; measure it with gpu-report run") from error
    except ValueError as error:
        raise RecordError(f"record {path} is not whole JSON ({error}); {mend}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if not isinstance(version, int):
        raise RecordError(f"record {path} has no schema_version; {mend}")
    if version != SCHEMA_VERSION:
        newer = version > SCHEMA_VERSION
        raise RecordError(
            f"record {path} has schema version {version}, this gpu-report reads {SCHEMA_VERSION}; "
            + ("update gpu-report" if newer else mend)
        )
    try:
        return Record.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"record {path}: {where}: {first['msg']}; {mend}") from error


def write_record(record: Record, path: Path) -> None:
    """Write a record whole or not at all.

    Raises:
        FileWriteError: the disk is full or the folder cannot be written.
    """
    write_text_atomically(path, json.dumps(record.model_dump(), indent=1, sort_keys=True) + "\n")


def differences(record: Record, measurement: Measurement) -> list[str]:
    """What was asked for when the record was made and is asked for otherwise today, one line per key."""
    then, now = _flatten(record.measurement), _flatten(measurement.as_dict())
    keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
    return [f"{key}: measured with {then.get(key)}, now {now.get(key)}" for key in keys]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
