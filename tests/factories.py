"""Plausible records, studies and tables, made without training; the same arguments give the same values.

make_study -> make_records -> make_tables; make_record alone for one variant that a test wants in its own way.
"""

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_report.records import (
    SCHEMA_VERSION,
    AllocatorSummary,
    Epoch,
    Load,
    OutOfMemory,
    Profile,
    Provenance,
    Record,
    Repetition,
    Status,
    Telemetry,
    Work,
    WorkloadFacts,
)
from gpu_report.study import Measurement, Protocol, Study, Workload, load_study
from gpu_report.tables import (
    Today,
    schema,
    tabulate_category_shares,
    tabulate_consistency,
    tabulate_convergence,
    tabulate_epochs,
    tabulate_experiment,
    tabulate_losses,
    tabulate_machine,
    tabulate_top_operations,
    tabulate_variants,
)
from gpu_report.tables.bundle import Tables
from gpu_report.traces import tables as trace_tables
from gpu_report.variant import Variant

if TYPE_CHECKING:
    import pandas as pd

CONFIG: Final = Path(__file__).parents[1] / "config" / "study.yaml"
CODE_DIGEST: Final = hashlib.sha256(b"the code of today").hexdigest()
"""What make_record says measured it, and what make_tables takes for the code of today."""
OPERATIONS: Final = {
    "aten::convolution_backward": "convolution",
    "aten::cudnn_convolution": "convolution",
    "aten::addmm": "matrix product",
    "aten::native_batch_norm": "normalisation",
    "aten::relu_": "activation",
    "aten::add_": "elementwise",
    "aten::max_pool2d_with_indices": "pooling",
    "Optimizer.step#Adam.step": "optimizer",
    "aten::copy_": "copy",
    "aten::sum": "reduction",
    "aten::nll_loss2d_forward": "loss",
    "aten::_log_softmax<float, 4>_{$&#}": "other",
}
"""Operation -> category, the costliest first."""
PROTOCOL: Final = Protocol(repetitions=3, profile_steps=3)
ENVIRONMENT: Final[dict[str, str | int | float | None]] = {
    "python": "3.11.9",
    "torch": "2.15.0",
    "torchvision": "0.29.2",
    "os": "Debian GNU/Linux 12",
    "cpu_model": "Intel(R) Xeon(R)",
    "cpu_cores": 2,
    "memory_gib": 7.8,
    "torch_threads": 2,
}
ACCELERATOR_ENVIRONMENT: Final[dict[str, str | int | float | None]] = {
    "accelerator": "NVIDIA H100 80GB HBM3",
    "accelerator_memory_gib": 79.2,
    "cuda": "13.0",
    "cudnn": 91002,
    "driver": "580.82.07",
}

_THROUGHPUT_PER_S: Final = {
    "unet": 6.0,
    "lstm": 60.0,
    "cnn": 900.0,
    "cnn-small": 2400.0,
    "cnn-large": 150.0,
    "image_files": 220.0,
}
_PARAMETERS: Final = {
    "unet": 31_037_763,
    "lstm": 2_384_899,
    "cnn": 410_000,
    "cnn-small": 30_000,
    "cnn-large": 6_690_000,
    "image_files": 410_000,
}
_TITLES: Final = {
    "unet": "U-Net",
    "lstm": "bidirectional LSTM",
    "cnn": "image CNN",
    "image_files": "image CNN on JPEG files",
}
_TRAIN_SAMPLES: Final = {"unet": 500, "lstm": 2000, "cnn": 2048, "image_files": 256}


def make_study(*, devices: Sequence[str] = ("cpu", "cuda"), config: Mapping[str, Any] | None = None) -> Study:
    """The default study, or the one of another configuration, for a machine with these devices."""
    return load_study(config or yaml.safe_load(CONFIG.read_text("utf-8")), devices=devices)


def make_records(study: Study, *, faster: Mapping[str, float] | None = None, **options: Any) -> list[Record]:
    """A record of every variant; `faster` is each device's speed over the CPU's, `options` are those of make_record."""
    return [
        make_record(
            variant.slug,
            **{
                "measurement": study.measurement(variant.slug),
                "throughput_per_s": typical_throughput_per_s(variant, faster=faster or {"cuda": 12.0}),
                **options,
            },
        )
        for variant in study.variants
    ]


def make_tables(
    study: Study | None = None,
    records: Sequence[Record] | None = None,
    *,
    operations: Mapping[str, str] | None = None,
) -> Tables:
    """Every table of the study; `operations` (name to category, the costliest first) fill the traces' tables."""
    study = study or make_study()
    records = make_records(study) if records is None else records
    profiled = [record.variant for record in records if record.profile]
    today = Today(code_digest=CODE_DIGEST, protocol=study.protocol)
    return Tables(
        variants=tabulate_variants(records, today=today),
        experiments={e.name: tabulate_experiment(e, records, today=today) for e in study.experiments},
        convergence=tabulate_convergence(records),
        losses=tabulate_losses(records),
        epochs=tabulate_epochs(records),
        consistency=tabulate_consistency(records),
        top_operations=tabulate_top_operations({slug: make_operations(slug, operations) for slug in profiled}),
        category_shares=tabulate_category_shares({slug: make_categories(slug, operations) for slug in profiled}),
        **{
            table.name: table.from_rows([])
            for table in (
                schema.PHASES,
                schema.PEAKS,
                schema.TRANSFERS,
                schema.EFFICIENCY,
                schema.CROSSOVERS,
                schema.TELEMETRY,
            )
        },
        machine=tabulate_machine(records),
    )


def make_operations(slug: str, operations: Mapping[str, str] | None = None) -> "pd.DataFrame":
    """A variant's table of operations as its trace gives it; the earlier an operation, the more time it took."""
    operations = OPERATIONS if operations is None else operations
    devices = dict.fromkeys(["cpu", Variant.from_slug(slug).device_type])
    total = sum(range(1, len(operations) + 1))
    return trace_tables.OPERATIONS.from_rows(
        {
            "name": name,
            "device": device,
            "category": category,
            "calls": 3 * weight,
            "total_ms": 12.0 * weight,
            "self_ms": 10.0 * weight,
            "self_share": weight / total,
        }
        for device in devices
        for weight, (name, category) in zip(range(len(operations), 0, -1), operations.items(), strict=True)
    )


def make_categories(slug: str, operations: Mapping[str, str] | None = None) -> "pd.DataFrame":
    """The sums of make_operations by device and category."""
    groups = make_operations(slug, operations).groupby(["device", "category"], as_index=False, sort=False)
    sums = groups[["calls", "self_ms", "self_share"]].sum().rename(columns={"self_share": "share"})
    return trace_tables.CATEGORY_TIMES.check(sums)


def make_record(
    slug: str,
    *,
    machine: str = "xeon-2c",
    status: Status = "ok",
    reason: str | None = None,
    processes: int = 3,
    throughput_per_s: float | None = None,
    noise: float = 0.02,
    quality: float = 0.85,
    test_loss: float = 0.4,
    memory_peak_mib: float | None = None,
    first_epoch_ratio: float = 1.3,
    data_wait_share: float | None = None,
    profile_overhead: float | None = 1.2,
    foreign_cpu_share: float | None = 0.01,
    steal_share: float | None = 0.0,
    facts: Mapping[str, Any] | None = None,
    environment: Mapping[str, str | int | float | None] | None = None,
    measurement: Measurement | None = None,
    code_digest: str = CODE_DIGEST,
    measured_at: str = "2026-05-04T10:00:00Z",
) -> Record:
    """A complete record.

    Its median throughput over processes is `throughput_per_s` to the digit; the processes spread evenly over `noise`,
    relative, on either side. Without status ok there are no repetitions; failed and skipped variants also lack facts.
    """
    variant = Variant.from_slug(slug)
    built = make_facts(variant, **(facts or {}))
    speed = throughput_per_s or typical_throughput_per_s(variant)
    run: dict[str, Any] = {
        "facts": built,
        "quality": quality,
        "test_loss": test_loss,
        "memory_peak_mib": memory_peak_mib or _typical_memory_mib(variant, built.parameters),
        "first_epoch_ratio": first_epoch_ratio,
        "data_wait_share": _typical_wait(variant) if data_wait_share is None else data_wait_share,
        "load": Load(foreign_cpu_share=foreign_cpu_share, steal_share=steal_share),
        "started_at": measured_at,
    }
    speeds = _spread(speed, noise, processes) if status == "ok" else []
    step_ms = 1000 * _samples_per_epoch(variant, built) / speed / _steps_per_epoch(variant, built)
    return Record(
        schema_version=SCHEMA_VERSION,
        variant=slug,
        machine=machine,
        status=status,
        reason=_REASONS[status] if reason is None else reason,
        measurement=(measurement or _measurement(variant)).as_dict(),
        workload=built if status in ("ok", "oom") else None,
        repetitions=[_make_repetition(variant, index, *each, **run) for index, each in enumerate(speeds)],
        profile=_make_profile(variant, step_ms * profile_overhead) if status == "ok" and profile_overhead else None,
        out_of_memory=OutOfMemory(asked_mib=2048.0, free_mib=812.5, total_mib=8192.0) if status == "oom" else None,
        environment=_environment(variant) if environment is None else dict(environment),
        provenance=_make_provenance(measured_at, code_digest),
    )


def _spread(speed: float, noise: float, processes: int) -> list[tuple[float, float]]:
    """The speed of each process and how far it lies from the middle, relative."""
    offsets = [0.0] if processes == 1 else [noise * (2 * index / (processes - 1) - 1) for index in range(processes)]
    return [(speed * (1 + offset), offset) for offset in offsets]


def _make_provenance(measured_at: str, code_digest: str) -> Provenance:
    return Provenance(
        measured_at=measured_at,
        package_version="0.1.0",
        git_commit="8f007a5c0ffee",
        git_dirty=False,
        code_digest=code_digest,
    )


def make_facts(variant: Variant, **changes: Any) -> WorkloadFacts:
    """What the workload says of itself; `changes` replace single facts."""
    train_samples = changes.get("train_samples", _TRAIN_SAMPLES.get(variant.workload, 1000))
    values = {
        "title": _TITLES.get(variant.workload, variant.workload),
        "parameters": _PARAMETERS.get(_key(variant), 100_000),
        "train_samples": train_samples,
        "test_samples": 128,
        "steps_per_full_epoch": math.ceil(train_samples / variant.batch_size),
        "sample_description": "32x32 RGB image, 3 classes",
        "data_description": "Shapes drawn over noise from a seeded generator.",
        "quality_name": "Dice" if variant.workload == "unet" else "accuracy",
        "quality_chance": 1 / 3,
        "optimizer": "Adam, learning rate 0.001",
        "loss": "cross-entropy",
        "source_file": f"gpu_report.workloads.{variant.workload}",
    }
    return WorkloadFacts(**{**values, **changes})


def typical_throughput_per_s(variant: Variant, *, faster: Mapping[str, float] | None = None) -> float:
    """Samples per second that grow with the batch until they saturate, and with loader workers up to four."""
    base = _THROUGHPUT_PER_S.get(_key(variant), 500.0)
    device = (faster or {"cuda": 12.0}).get(variant.device_type, 1.0)
    batch = variant.batch_size / (variant.batch_size + 32) / (64 / 96)
    workers = 1 + 0.6 * min(variant.workers, 4) if variant.workload == "image_files" else 1.0
    return base * device * batch * workers


_REASONS: Final[Mapping[Status, str]] = {
    "ok": "",
    "oom": "out of memory: tried to allocate 2.00 GiB of 8.00 GiB",
    "failed": "RuntimeError: the loss is not finite, in repetition 0",
    "skipped": "torch 2.15.0 was built without CUDA",
}


def _environment(variant: Variant) -> dict[str, str | int | float | None]:
    return ENVIRONMENT | ({} if variant.device_type == "cpu" else ACCELERATOR_ENVIRONMENT)


def _key(variant: Variant) -> str:
    sized = f"{variant.workload}-{variant.size}"
    return sized if sized in _PARAMETERS else variant.workload


def _measurement(variant: Variant) -> Measurement:
    workload = Workload(name=variant.workload, class_path=f"somewhere:{variant.workload.title()}", settings={})
    return Measurement(variant=variant, workload=workload, protocol=PROTOCOL)


def _steps_per_epoch(variant: Variant, facts: WorkloadFacts) -> int:
    return variant.steps_per_epoch or facts.steps_per_full_epoch


def _samples_per_epoch(variant: Variant, facts: WorkloadFacts) -> int:
    return variant.steps_per_epoch * variant.batch_size if variant.steps_per_epoch else facts.train_samples


def _typical_memory_mib(variant: Variant, parameters: int) -> float:
    base = 280.0 if variant.device_type == "cpu" else 20.0
    return base + 16 * parameters / 2**20 + 0.5 * variant.batch_size


def _typical_wait(variant: Variant) -> float:
    return 0.4 / (1 + variant.workers) if variant.workload == "image_files" else 0.03


def _make_repetition(
    variant: Variant, index: int, speed: float, offset: float, *, facts: WorkloadFacts, **run: Any
) -> Repetition:
    generator = random.Random(f"{variant.slug} {index}")
    epochs = [
        _make_epoch(variant, epoch, speed, offset, generator, facts=facts, **run) for epoch in range(variant.epochs)
    ]
    return Repetition(
        index=index,
        seed=variant.seed + index,
        started_at=run["started_at"],
        build_time_s=0.5,
        preparation_time_s=(30.0 if index == 0 else 8.0) if "compile" in variant.options else 0.0,
        preparation_cache=("filled" if index else "empty") if "compile" in variant.options else "none",
        training_wall_s=1.2 * sum(epoch.wall_time_s for epoch in epochs),
        epochs=epochs,
        memory_peak_mib=run["memory_peak_mib"] * (1 + offset / 10),
        memory_kind="resident set" if variant.device_type in ("cpu", "mps") else "allocator",
        memory_baseline_mib=200.0 if variant.device_type == "cpu" else 0.0,
        load=run["load"],
        telemetry=None if variant.device_type == "cpu" else make_telemetry(epochs[1:]),
    )


def make_telemetry(timed: Sequence[Epoch], **changes: Any) -> Telemetry:
    """Twenty samples of a device at work; `changes` replace single fields."""
    duration_s = sum(epoch.wall_time_s for epoch in timed)
    samples = 20
    values: dict[str, Any] = {
        "period_s": duration_s / samples,
        "sample_cost_ms": 0.4,
        "moments_s": [duration_s * sample / samples for sample in range(samples)],
        "utilisation_percent": [90.0] * samples,
        "memory_used_mib": [2100.0] * samples,
        "power_w": [420.0 + sample for sample in range(samples)],
        "sm_clock_mhz": [1755.0] * samples,
        "memory_clock_mhz": [2619.0] * samples,
        "temperature_c": [51.0] * samples,
        "throttle_reasons": {},
        "energy_j": 430.0 * duration_s,
        "other_processes": 0,
        "memory_used_before_mib": 3.0,
    }
    return Telemetry(**{**values, **changes})


def _make_epoch(
    variant: Variant,
    epoch: int,
    speed: float,
    offset: float,
    generator: random.Random,
    *,
    facts: WorkloadFacts,
    quality: float,
    test_loss: float,
    first_epoch_ratio: float,
    data_wait_share: float,
    **_: Any,
) -> Epoch:
    steps, samples = _steps_per_epoch(variant, facts), _samples_per_epoch(variant, facts)
    wall_time_s = samples / speed * (1.0 if epoch else first_epoch_ratio)
    done = (epoch + 1) / variant.epochs
    losses = [
        test_loss
        * (0.8 + 2.2 * math.exp(-3 * (epoch + step / steps) / variant.epochs) + generator.uniform(-0.05, 0.05))
        for step in range(steps)
    ]
    return Epoch(
        wall_time_s=wall_time_s,
        step_times_ms=[1000 * wall_time_s / steps] * steps,
        data_wait_ms=[1000 * wall_time_s / steps * data_wait_share] * steps,
        samples=samples,
        train_losses=losses,
        test_loss=test_loss * (1 + 2 * (1 - done)) * (1 + offset / 10),
        quality=min(1.0, (facts.quality_chance + (quality - facts.quality_chance) * done) * (1 + offset / 10)),
    )


def _make_profile(variant: Variant, step_ms: float) -> Profile:
    on_cpu = variant.device_type == "cpu"
    return Profile(
        trace_file="rank0.pt.trace.json.gz",
        trace_sha256="0" * 64,
        step_times_ms=[step_ms] * 3,
        work=make_work(variant),
        allocator=None if on_cpu else _ALLOCATOR,
        memory_snapshot_file="" if on_cpu else "snapshot.pickle",
    )


_ALLOCATOR: Final = AllocatorSummary(
    allocated_peak_mib=1800.0,
    reserved_peak_mib=2048.0,
    active_peak_mib=1810.0,
    inactive_split_peak_mib=64.0,
    allocations=5000,
    retries=0,
)


def make_work(variant: Variant) -> Work:
    """The step of a convolutional network, at an intensity of 20 FLOP per byte."""
    flops = 2e9 * variant.batch_size
    return Work(
        samples=variant.batch_size,
        flops=flops,
        flops_by_operator={"aten::convolution": flops / 3, "aten::convolution_backward": 2 * flops / 3},
        bytes=flops / 20,
        uncounted_operators={"aten::native_batch_norm": 18},
    )
