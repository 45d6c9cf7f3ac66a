"""The record: what was measured of one variant on one machine, in a versioned schema that is
checked on reading.

record.json -> Record -> repetitions (fresh processes) -> epochs -> steps
sentinels/<time>-<variant>.json -> SentinelPoint -> throughput of each process
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator, with_config
from typing_extensions import TypedDict

from gpu_report.errors import ConfigError, RecordError
from gpu_report.storage.json_files import (
    AnyFloat,
    Count,
    Digest,
    FileName,
    Finite,
    JsonFile,
    Moment,
    NotNegative,
    Part,
    Positive,
    PositiveCount,
    Seconds,
    Text,
    Title,
    Values,
)
from gpu_report.study.variant import Variant

SCHEMA_VERSION: Final = 2
TRACE_FOLDER: Final = "trace"
RICH_TRACE_FOLDER: Final = "rich_trace"
"""Beside the record: the trace that decides times, and the one with shapes, stacks and memory."""
OTHER_JOBS: Final = "other_jobs"
OTHER_JOBS_ALLOWED: Final = "allowed"
"""A key of the environment of a cluster's job, and its value where the job has not the
whole node.
"""
MOST_SLOWED: Final = 1.5
"""By what a profiled step may differ from a timed one, upwards and downwards."""

Status = Literal["ok", "oom", "failed", "skipped"]

MemoryKind = Literal["allocator", "resident set"]
PreparationCache = Literal["none", "empty", "filled"]


MachineId = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=200)]
"""As `Machine.id` makes it from the hardware; part of every path."""
DeviceName = Annotated[str, Field(pattern="^[a-z]+(:[0-9]+)?$")]
"""As PyTorch names it, such as `cpu` or `cuda:1`."""
Environment = dict[Text, Text | Count | Finite | None]
"""Software and hardware by name."""


class AskedWorkload(TypedDict):
    """The workload of a measurement, as a record keeps it."""

    name: Text
    class_path: Text
    settings: dict[Text, JsonValue]


@with_config(ConfigDict(extra="allow"))
class AskedProtocol(TypedDict):
    """The protocol of a measurement; another version's may have further keys, and that before 3 has
    fewer.
    """

    version: Count
    repetitions: Count
    profile_steps: Count
    timed_epochs: NotRequired[Count]
    timed_seconds: NotRequired[NotNegative]


class Asked(TypedDict):
    """What was to be measured; an older record may lack keys of the variant that came later."""

    variant: dict[Text, Text | Count | None]
    workload: AskedWorkload
    protocol: AskedProtocol


def _variant_name(slug: str) -> str:
    try:
        Variant.from_slug(slug)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return slug


def _check_lengths(part: Part, first: str, *others: str, may_be_empty: bool) -> None:
    length = len(getattr(part, first))
    for name in others:
        found = len(getattr(part, name))
        if found != length and not (may_be_empty and found == 0):
            raise ValueError(f"{name} has {found} values, {first} has {length}")


class TimedEpoch(Part):
    """When an epoch's steps ran. Of steps in one call each has their mean time."""

    wall_time_s: Seconds = Field(
        description="Clock synchronised before the first and after the last step."
    )
    step_times_ms: Values[NotNegative] = Field(
        min_length=1,
        description="Per step, from asking for the batch until the optimizer has stepped, so that "
        "steps add up to the epoch: device events on an accelerator, host clock on the CPU.",
    )
    data_wait_ms: Values[NotNegative] = Field(
        description="Per step: how long the loop waited for the loader, on the host."
    )
    samples: PositiveCount = Field(description="Training samples the epoch went through.")

    @model_validator(mode="after")
    def _check_waits(self) -> Self:
        _check_lengths(self, "step_times_ms", "data_wait_ms", may_be_empty=False)
        return self


def timed_part(epoch: TimedEpoch) -> TimedEpoch:
    """An epoch without its losses and held-out metric."""
    return TimedEpoch(**{name: getattr(epoch, name) for name in TimedEpoch.model_fields})


class Epoch(TimedEpoch):
    """An epoch with its losses and held-out metric; its evaluation lies outside the wall time."""

    train_losses: Values[AnyFloat] = Field(
        description="Per step, fetched from the device after the clock stopped."
    )
    loss_scales: Values[NotNegative] = Field(
        default=[],
        description="fp16 only, per step: the gradient scaler's factor after it; a skipped step "
        "lowers it.",
    )
    test_loss: AnyFloat | None = Field(
        description="Mean loss on the held-out samples after the epoch, or None without any."
    )
    quality: AnyFloat | None = Field(
        description=(
            "The workload's quality metric on the held-out samples after the epoch; None where it "
            "has none."
        )
    )

    @model_validator(mode="after")
    def _check_series(self) -> Self:
        _check_lengths(self, "step_times_ms", "train_losses", may_be_empty=False)
        _check_lengths(self, "step_times_ms", "loss_scales", may_be_empty=True)
        return self


class Load(Part):
    """How much others used, while the timed epochs ran, of the cores that the training may run on.

    None where the system does not report it, or where the epochs together took less than 0.2 s.
    """

    foreign_cpu_share: NotNegative | None = Field(
        description="Share of these cores' time used by other processes, 0 to 1."
    )
    steal_share: NotNegative | None = Field(
        description="Share of these cores' time taken by the hypervisor, 0 to 1."
    )


class Telemetry(Part):
    """What the GPU's driver reported while the timed epochs ran; one value per sample, in the order
    of moments_s.

    Sampled by the process that waits for the training, so that no sample is taken from the
    training's own time.
    """

    period_s: Positive = Field(description="Time between samples that was asked for.")
    sample_cost_ms: NotNegative = Field(
        description="Median time that one sample took the process that waits."
    )
    moments_s: Values[NotNegative] = Field(description="Since the first timed epoch began.")
    utilisation_percent: Values[NotNegative] = Field(
        description="Share of the driver's window in which a kernel ran."
    )
    memory_used_mib: Values[NotNegative] = Field(
        description="Device memory in use by all processes."
    )
    power_w: Values[NotNegative]
    sm_clock_mhz: Values[NotNegative]
    memory_clock_mhz: Values[NotNegative]
    temperature_c: Values[Finite]
    throttle_reasons: dict[Text, NotNegative] = Field(
        description=(
            "Reason for lowered clocks as NVML names it -> share of the samples; an idle device's "
            "left out."
        )
    )
    energy_j: Finite | None = Field(
        description=(
            "Of the timed epochs without the evaluations between them, from the total-energy "
            "counter; None where they were too short for it, or it does not exist."
        )
    )
    other_processes: Count = Field(
        description="Most processes beside the training that used the device."
    )
    memory_used_before_mib: NotNegative = Field(
        description="In use before the training touched the device."
    )

    @model_validator(mode="after")
    def _check_series(self) -> Self:
        _check_lengths(
            self,
            "moments_s",
            "utilisation_percent",
            "memory_used_mib",
            "power_w",
            "sm_clock_mhz",
            "memory_clock_mhz",
            "temperature_c",
            may_be_empty=True,
        )
        return self


class Rank(Part):
    """One process of a training that several share, by the number that it has among them."""

    rank: Count
    agent: Count = Field(
        default=0,
        description="Which of torchrun's agents started it; each gets its number when it is "
        "started.",
    )
    host: Count = Field(
        default=0,
        description="Number of the host it ran on, in the order of ranks; agents on one host test "
        "no network.",
    )
    device: DeviceName
    epochs: Values[TimedEpoch] = Field(
        min_length=1,
        description="All of the repetition, timed or not, with the samples it went through.",
    )
    train_losses: Values[AnyFloat] = Field(
        description="Of the samples it went through, over all steps that were evaluated."
    )
    memory_peak_mib: Positive
    memory_reserved_peak_mib: NotNegative | None = Field(
        description="What its allocator took from the driver; None if there is no such allocator."
    )
    parameters_sha256: Digest = Field(
        description="Of its parameters at the end, which are the same in every rank."
    )


class Base(Part):
    """What one plain process, on the first device, did in turn with a repetition that several
    devices share.

    It has as many threads as each rank, and the samples of a step that each device has.
    """

    threads: PositiveCount
    epochs: Values[TimedEpoch] = Field(
        min_length=1, description="All of them; none of its own is evaluated."
    )
    warm_up_epochs: PositiveCount

    @property
    def throughput_per_s(self) -> float:
        """Samples over wall time: the median over the timed epochs."""
        return median_throughput_per_s(self.epochs[self.warm_up_epochs :])


class Repetition(Part):
    """One fresh process that trained the variant, or as many as its strategy shares it among.

    Of several, an epoch is that of the slowest rank, with the samples and the mean losses of all;
    memory is that of the rank, or of the device of one process, with the most.
    """

    index: Count
    seed: Count = Field(
        description="Of data, initial weights and order: the variant's seed plus the index."
    )
    started_at: Moment
    build_time_s: NotNegative = Field(
        description="Building model, data and loaders, before the first step."
    )
    preparation_time_s: NotNegative = Field(
        description=(
            "Compiling and capturing, after building and before the first step; 0 where nothing is."
        )
    )
    preparation_cache: PreparationCache = Field(
        description=(
            "Whether the compiler's cache on disk was empty, or filled by an earlier process of "
            "the variant."
        )
    )
    training_wall_s: Positive = Field(
        description="From the begin of the first epoch to the end of the last epoch and evaluation."
    )
    epochs: Values[Epoch] = Field(
        min_length=1,
        description="Those that were asked for and evaluated; the first is never timed.",
    )
    extra_epochs: Values[TimedEpoch] = Field(
        default=[],
        description="Trained after them to time longer; what they learn is not looked at.",
    )
    warm_up_epochs: PositiveCount = Field(
        default=1, description="Epochs at the begin that are not timed."
    )
    settled: bool = Field(
        default=True, description="False where no epoch met the rule by which warm-up ends."
    )
    memory_peak_mib: Positive = Field(
        description="Peak of the kind that memory_kind names; a resident set leaves workers out."
    )
    memory_kind: MemoryKind = Field(
        description="'allocator' is what PyTorch handed out to tensors on the device."
    )
    memory_baseline_mib: NotNegative = Field(
        description="The same figure before model and data were built."
    )
    load: Load
    telemetry: Telemetry | None = Field(
        description="None on the CPU and where the driver cannot be asked."
    )
    ranks: Values[Rank] = Field(default=[], description="Empty where one plain process trained.")
    optimizer_dtypes: Values[Text] = Field(
        default=[],
        description="Types of its state's tensors at the end, as 'float32'; empty in older "
        "records.",
    )
    base: Base | None = Field(
        default=None,
        description="None where one plain process trained, a setting of DistributedDataParallel "
        "is tried, or its base failed.",
    )
    learnt: dict[Text, AnyFloat] = Field(
        default={}, description="Parameters at the end, of a model that has a handful."
    )
    reference_error: AnyFloat | None = Field(
        default=None,
        description="Largest relative error of them and of the last losses against a reference.",
    )

    @model_validator(mode="after")
    def _check_warm_up(self) -> Self:
        if not self.timed_epochs:
            raise ValueError(f"all of its {len(self.all_epochs)} epochs are warm-up")
        return self

    @property
    def all_epochs(self) -> list[TimedEpoch]:
        """Those asked for and the extra ones."""
        return [*self.epochs, *self.extra_epochs]

    @property
    def timed_epochs(self) -> list[TimedEpoch]:
        """Every epoch after the warm-up."""
        return self.all_epochs[self.warm_up_epochs :]

    @property
    def throughput_per_s(self) -> float:
        """Samples over wall time: the median over the timed epochs."""
        return median_throughput_per_s(self.timed_epochs)


def median_throughput_per_s(epochs: Sequence[TimedEpoch]) -> float:
    """Samples over wall time, the median over these epochs."""
    return statistics.median(epoch.samples / epoch.wall_time_s for epoch in epochs)


class Work(Part):
    """What a training step on a full batch does, counted on the eager operators, or given by a
    custom training loop.
    """

    samples: PositiveCount = Field(description="Samples of that step.")
    flops: NotNegative = Field(
        description="Floating-point operations; a multiply-add counts as two."
    )
    flops_by_operator: dict[Text, NotNegative]
    bytes: NotNegative = Field(
        description=(
            "Every operator's inputs read once and outputs written once; views and host copies "
            "left out."
        )
    )
    uncounted_operators: dict[Text, Count] = Field(
        description=(
            "Operators that compute and have no formula for their operations -> calls: the "
            "count's blind spots."
        )
    )


class AllocatorSummary(Part):
    """PyTorch's caching allocator on the device at the end of the profiled run."""

    allocated_peak_mib: NotNegative = Field(description="Handed out to tensors.")
    reserved_peak_mib: NotNegative = Field(description="Taken from the driver.")
    active_peak_mib: NotNegative = Field(
        description="Handed out, or freed and still awaited by a stream."
    )
    inactive_split_peak_mib: NotNegative = Field(
        description="Left over in split blocks: fragmentation."
    )
    allocations: Count
    retries: Count = Field(description="Times it emptied its cache because the driver had no more.")


class OutOfMemory(Part):
    """What was asked for when memory ran out, and what there was."""

    asked_mib: NotNegative | None = Field(
        description="Of the allocation that failed; None where it is not known."
    )
    free_mib: NotNegative | None
    total_mib: NotNegative


class RankTraces(Part):
    """The traces of a rank other than 0, beside those of rank 0 and under the same name in both
    folders.
    """

    trace_file: FileName
    trace_sha256: Digest
    rich_trace_sha256: Digest | Literal[""]


class Profile(Part):
    """The separate run with the profiler on: a light trace has times, a rich one shapes, memory and
    source lines.
    """

    trace_file: FileName = Field(
        description="File name of the light trace inside the record's trace folder."
    )
    trace_sha256: Digest
    step_times_ms: Values[Positive] = Field(
        min_length=1,
        description="Of the light trace: host clock, synchronised; the mean of a custom training "
        "loop's.",
    )
    rich_trace_file: FileName | Literal[""] = Field(
        default="",
        description="File name inside the record's folder of rich traces; empty where the other "
        "trace serves for both.",
    )
    rich_trace_sha256: Digest | Literal[""] = ""
    other_ranks: Values[RankTraces] = Field(
        default=[], description="Of rank 1 and on; empty without ranks."
    )
    work: Work | None = Field(description="None where the step could not be counted.")
    allocator: AllocatorSummary | None = Field(description="None on the CPU.")
    memory_snapshot_file: FileName | Literal[""] = Field(
        description=(
            "File name in the record's memory folder, for PyTorch's memory viewer; empty where "
            "there is none."
        )
    )


class WorkloadFacts(Part):
    """What the workload says of itself once built."""

    title: Title
    parameters: Count = Field(description="Trainable parameters.")
    train_samples: PositiveCount
    test_samples: Count = Field(description="0 where nothing is held out.")
    steps_per_full_epoch: PositiveCount = Field(
        description="Steps of an epoch over the whole training set."
    )
    sample_description: Text = Field(
        description="One sample in words, for instance '64x64 RGB image, 3 classes'."
    )
    data_description: Text = Field(
        description="How the data is generated or where it comes from, in one or two sentences."
    )
    quality_name: Title = Field(
        description=(
            "Name of the quality metric, for instance 'Dice' or 'accuracy'; empty where there is "
            "none."
        )
    )
    quality_chance: Finite | None = Field(
        description=(
            "What guessing without looking reaches on the held-out samples; None where it is "
            "unknown."
        )
    )
    quality_better: Literal["higher", "lower"] = Field(
        default="higher", description="Which values of it are better."
    )
    optimizer: Text
    loss: Text
    source_file: Text = Field(
        description="Python module that implements it, for instance gpu_report.workloads.unet."
    )
    begins_anew: bool = Field(
        default=False, description="Every epoch is a training from the initial weights."
    )
    tokens_per_sample: PositiveCount | None = Field(
        default=None, description="None where samples are no sequences of tokens."
    )
    flops_per_token: Positive | None = Field(
        default=None,
        description="That training needs by the workload's formula, a multiply-add counting as "
        "two; None without one.",
    )
    flops_formula: Text = Field(default="", description="The formula, with its numbers.")
    pieces_of_stages: list[PositiveCount] = Field(
        default=[],
        description="Pieces in each stage of a model that devices share; empty for any other.",
    )


class Provenance(Part):
    """Which code measured, and when."""

    measured_at: Moment
    measuring_s: NotNegative | None = Field(
        default=None,
        description="From then until the last process had ended; None in older records.",
    )
    boot: str = Field(
        default="",
        description="Linux's random number of when the machine was booted, which differs between "
        "two of one id; empty elsewhere and in older records.",
    )
    package_version: Text
    git_commit: str | None = Field(description="None outside a git checkout.")
    git_dirty: bool | None
    changed_files: list[Text] | None = Field(
        default=None,
        description="At most 100: what differs from the commit, and new files below src; None in "
        "older records and outside a git checkout.",
    )
    code_digest: Text = Field(description="SHA-256 over the measuring code and the workloads.")
    workload_digest: str = Field(
        default="",
        description="SHA-256 over the file of a workload's own class; empty for a workload of "
        "ours.",
    )

    @property
    def began(self) -> datetime:
        """When measuring began."""
        return datetime.fromisoformat(self.measured_at)

    @property
    def ended(self) -> datetime:
        """When it ended; in older records, which do not say it, when it began."""
        return self.began + timedelta(seconds=self.measuring_s or 0)

    @property
    def is_clean(self) -> bool:
        """Whether its commit holds all of the code."""
        return self.git_commit is not None and self.git_dirty is False


class Attempt(Part):
    """Which variant was to be measured on which machine, when and by what, and whether it was."""

    schema_version: int
    variant: Annotated[str, AfterValidator(_variant_name)]
    machine: MachineId
    status: Status
    reason: Text = Field(
        description="Of a status other than ok, or why there is no profile; empty if all went well."
    )
    measurement: Asked = Field(
        description="Measurement.as_dict(): variant, workload and protocol as asked."
    )
    environment: Environment = Field(description="Software and hardware as found.")
    provenance: Provenance


class Record(Attempt):
    """One variant measured on one machine, or why it was not."""

    workload: WorkloadFacts | None = Field(
        description="None where the workload could not be built."
    )
    repetitions: Values[Repetition]
    profile: Profile | None = Field(
        description="None where the variant, or the profiled run alone, did not fit or failed."
    )
    out_of_memory: OutOfMemory | None = Field(description="None unless the status is oom.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.status == "ok" and not (self.workload and self.repetitions):
            raise ValueError("its status is ok, and it holds no workload or no repetition")
        if (
            len(
                {
                    tuple(len(epoch.step_times_ms) for epoch in each.epochs)
                    for each in self.repetitions
                }
            )
            > 1
        ):
            raise ValueError("its repetitions have different numbers of epochs or steps")
        variant = self.as_variant()
        ranks = variant.devices if variant.has_ranks else 0
        for each in self.repetitions:
            if len(each.ranks) != ranks:
                raise ValueError(
                    f"it was trained by {len(each.ranks)} ranks, and its variant asks for {ranks}"
                )
        return self

    def as_variant(self) -> Variant:
        """The variant this record is about."""
        return Variant.from_slug(self.variant)

    @property
    def ended(self) -> datetime:
        """When measuring ended, or when the last process began that a time budget added later."""
        began = [datetime.fromisoformat(each.started_at) for each in self.repetitions]
        return max([self.provenance.ended, *began])

    @property
    def hosts(self) -> int:
        """Hosts that its ranks ran on, as far as it was measured; 1 of a training without ranks."""
        return len({rank.host for each in self.repetitions for rank in each.ranks}) or 1

    @property
    def profile_overhead(self) -> float:
        """Median step time of the light profile over the wall time per step of the median timed
        epoch; NaN without.

        Both are host clocks with the device synchronised at the ends; device times of single steps
        would leave out what the profiler costs on the host.
        """
        if self.profile is None or self.status != "ok":
            return math.nan
        return statistics.median(self.profile.step_times_ms) / timed_step_ms(self.repetitions)


def timed_step_ms(repetitions: Sequence[Repetition]) -> float:
    """Wall time per step of the median timed epoch, of which there is at least one."""
    epochs = [epoch for repetition in repetitions for epoch in repetition.timed_epochs]
    return statistics.median(
        1000 * epoch.wall_time_s / len(epoch.step_times_ms) for epoch in epochs
    )


def is_as_timed(profile_overhead: float) -> bool:
    """Whether profiled steps took about as long as timed ones.

    Slower ones spend more than a third of their time in the profiler; faster ones did not wait for
    what the timed ones waited for. Host-driven steps differ by as much between epochs without any
    profiler.
    """
    return 1 / MOST_SLOWED <= profile_overhead <= MOST_SLOWED


RECORD_FILE: Final = JsonFile(
    name="record",
    content=Record,
    version=SCHEMA_VERSION,
    error=RecordError,
    again="delete it and run the same command again to measure it anew",
)


class SentinelPoint(Attempt):
    """A sentinel at one time: a configuration that is measured again and again, in few processes,
    so that the drift of the machine is known.
    """

    throughputs_per_s: Values[Positive] = Field(
        description="Samples over wall time of each process; empty unless the status is ok."
    )


SENTINELS_FOLDER: Final = "sentinels"
"""In a machine's folder of results: a file for each point, none of which is ever replaced."""
POINT_FILE: Final = JsonFile(
    name="sentinel point",
    content=SentinelPoint,
    version=SCHEMA_VERSION,
    error=RecordError,
    again="delete it; no other point needs it",
)


def read_points(machine_folder: Path) -> list[SentinelPoint]:
    """The points in a machine's folder of results, the oldest first.

    Raises:
        RecordError: one cannot be read.
    """
    paths = (machine_folder / SENTINELS_FOLDER).glob("*.json")
    return sorted(map(POINT_FILE.read, paths), key=lambda point: point.provenance.began)


def with_distinct_titles(records: Sequence[Record]) -> list[Record]:
    """The same, the title of a workload followed by its name where another workload has the same
    title.

    Two of a study may be one class with other settings, and everything printed names a workload by
    its title.
    """
    names: dict[str, set[str]] = {}
    for record in records:
        if record.workload:
            names.setdefault(record.workload.title, set()).add(record.as_variant().workload)
    return [
        record.model_copy(
            update={
                "workload": facts.model_copy(
                    update={"title": f"{facts.title} {record.as_variant().workload}"}
                ),
            }
        )
        if (facts := record.workload) and len(names[facts.title]) > 1
        else record
        for record in records
    ]


SINCE_MEASURED: Final = "{key}: measured with {one}, now {other}"
"""How `differing` says what was asked for when a record was made and is asked for today."""


def differing(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    *,
    words: str = "{key}: {one} before, {other} after",
) -> list[str]:
    """Each key with two values in words, after the keys of the mappings that it is in."""
    values, others = _flatten(one), _flatten(other)
    return [
        words.format(key=key, one=values.get(key, "none"), other=others.get(key, "none"))
        for key in {**values, **others}
        if values.get(key) != others.get(key)
    ]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
