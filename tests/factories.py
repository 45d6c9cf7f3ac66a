"""Plausible records, studies and tables, made without training; the same arguments give the same
values.

make_study -> make_records -> make_tables; make_record alone for one variant that a test wants in
its own way.
"""

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_report.records.batch_sizes import SearchRecord
from gpu_report.records.calibration import Calibration
from gpu_report.records.record import (
    SCHEMA_VERSION,
    Load,
    Provenance,
    Record,
    Status,
    WorkloadFacts,
)
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.study import Measurement, Protocol, Study, Workload, load_study
from gpu_report.study.variant import Variant
from gpu_report.tables import MADE_BY, Measured
from gpu_report.tables.bundle import Tables
from gpu_report.tables.ceilings import MADE_BY_CALIBRATION
from gpu_report.tables.marks import Today
from gpu_report.tables.processes import brings_loop
from gpu_report.traces.steps import STEPS
from gpu_report.traces.timed import TimedStep
from tests import ceilings, record_parts
from tests.record_parts import Run
from tests.tabulated import tabulate_comparison, tabulate_experiment
from tests.trace_frames import make_trace_tables
from tests.typical import (
    DEVICE_MEMORY_MIB,
    LOOPS,
    PARAMETERS,
    TITLES,
    TRAIN_SAMPLES,
    key_of,
    typical_context,
    typical_memory_mib,
    typical_throughput_per_s,
    typical_wait,
)

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.traces.tables import TraceTables

CONFIG: Final = Path(__file__).parents[1] / "config" / "study.yaml"
CODE_DIGEST: Final = hashlib.sha256(b"the code of today").hexdigest()
"""What make_record says measured it, and what make_tables takes for the code of today."""
PROTOCOL: Final = Protocol(repetitions=5, profile_steps=3)
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


_SHARED: Final[dict[str, Any]] = {
    "workload": "unet",
    "size": "64px",
    "device": "fastest",
    "epochs": 3,
    "needs_accelerator": True,
}
_OPTIMIZED: Final[dict[str, Any]] = {"precision": "bf16", "optimization": "resident+graphs"}
SCALING: Final[dict[str, Any]] = {
    "question": "What do further GPUs gain?",
    "axis": "parallelism",
    "baseline": "single",
    "grid": [
        {
            **_SHARED,
            "batch_per_process": 8,
            "parallelism": ["single", "ddp1", "ddp2", "fsdp2", "dp2"],
        },
        {**_SHARED, "batch_size": 8, "parallelism": "ddp2"},
        {**_SHARED, **_OPTIMIZED, "batch_per_process": 8, "parallelism": ["single", "ddp2"]},
    ],
}
"""An experiment in which GPUs share a training: weak and strong scaling, of eager and of optimized
code.
"""


def make_study(
    *, devices: Sequence[str] = ("cpu", "cuda"), config: Mapping[str, Any] | None = None
) -> Study:
    """The default study, or the one of another configuration, for a machine with these devices."""
    return load_study(config or yaml.safe_load(CONFIG.read_text("utf-8")), devices=devices)


def make_records(
    study: Study,
    *,
    variants: Sequence[str] | None = None,
    faster: Mapping[str, float] | None = None,
    **options: Any,
) -> list[Record]:
    """A record of every variant, or of `variants` alone.

    `faster` is each device's speed over the CPU's, `options` are those of make_record.

    What needs more memory than the accelerator has is out of memory, unless the options say
    otherwise.
    """
    return [
        make_record(
            variant.slug,
            **{
                "measurement": study.measurement(variant.slug),
                "throughput_per_s": typical_throughput_per_s(variant, faster=faster),
                "status": "ok" if _fits(variant) else "oom",
                **options,
            },
        )
        for variant in study.variants
        if variants is None or variant.slug in variants
    ]


def _as_long_as_timed(tables: "TraceTables", record: Record) -> "TraceTables":
    """The same shares of steps as long as the record's timed ones."""
    timed = TimedStep.of(record)
    if timed is None or brings_loop(record):
        return tables
    factor = timed.median_ms / fmean(row["wall_ms"] for row in tables[STEPS])
    steps = [
        {
            name: value * factor if name.endswith("_ms") and value is not None else value
            for name, value in row.items()
        }
        for row in tables[STEPS]
    ]
    return {**tables, STEPS: steps}


def make_tables(
    study: Study | None = None,
    records: Sequence[Record] | None = None,
    *,
    operations: Mapping[str, str] | None = None,
    calibration: Calibration | None = None,
    traces: "Mapping[str, TraceTables] | None" = None,
    searches: Sequence[SearchRecord] = (),
) -> Tables:
    """Every table of the study; `operations` (name to category, the costliest first) fill the
    traces' tables, unless `traces` has them.
    """
    study = study or make_study()
    records = make_records(study) if records is None else records
    today = Today(code_digest=CODE_DIGEST)
    calibration = calibration or make_calibration(
        tuple(dict.fromkeys(variant.device for variant in study.variants))
    )
    if traces is None:
        traces = {
            record.variant: _as_long_as_timed(make_trace_tables(record.variant, operations), record)
            for record in records
            if record.profile
        }
    measured = Measured(
        experiments=study.experiments,
        records=records,
        calibration=calibration,
        traces=traces,
        today=today,
        prices=study.prices,
        searches=searches,
    )
    return Tables(
        by_name={
            **{
                table.name: partial(table.from_rows, list(make(measured)))
                for table, make in MADE_BY.items()
            },
            **{
                table.name: partial(table.from_rows, list(make(calibration)))
                for table, make in MADE_BY_CALIBRATION.items()
            },
        },
        experiments={
            experiment.name: tabulate_experiment(
                experiment, records, traces, today=today, prices=study.prices
            )
            for experiment in study.experiments
        },
    )


def with_tables(tables: Tables, **changed: "pd.DataFrame") -> Tables:
    """The same with other tables under these names."""
    assert changed.keys() <= tables.by_name.keys()
    frames = {name: partial(lambda frame: frame, frame) for name, frame in changed.items()}
    return replace(tables, by_name={**tables.by_name, **frames})


def make_comparison(machines: Sequence[str] = ("xeon-2c", "h100-x1", "h200-x1")) -> "pd.DataFrame":
    """The table of machines side by side; each is a fifth faster than the one before, the last with
    another PyTorch.
    """
    study = make_study()
    environments = [{} if machine != machines[-1] else {"torch": "2.11.0"} for machine in machines]
    return tabulate_comparison(
        {
            machine: make_records(
                study,
                machine=machine,
                faster={"cpu": 1.2**position, "cuda": 12 * 1.2**position},
                environment=ENVIRONMENT | ACCELERATOR_ENVIRONMENT | environment,
            )
            for position, (machine, environment) in enumerate(
                zip(machines, environments, strict=True)
            )
        },
        today=Today(code_digest=CODE_DIGEST),
        busy_shares={machine: {} for machine in machines},
    )


def make_calibration(
    devices: Sequence[str] = ("cpu", "cuda"), *, linked: int = 0, machine: str = "xeon-2c"
) -> Calibration:
    """What each of the devices reaches, by five processes, and so many linked GPUs together."""
    return ceilings.make_calibration(
        devices,
        linked=linked,
        machine=machine,
        provenance=_make_provenance("2026-05-04T09:00:00Z", CODE_DIGEST),
    )


def make_record(
    slug: str,
    *,
    machine: str = "xeon-2c",
    status: Status = "ok",
    reason: str | None = None,
    processes: int = 5,
    throughput_per_s: float | None = None,
    noise: float = 0.02,
    profile_overhead: float | None = 1.2,
    facts: Mapping[str, Any] | None = None,
    environment: Mapping[str, str | int | float | None] | None = None,
    measurement: Measurement | None = None,
    code_digest: str = CODE_DIGEST,
    measured_at: str = "2026-05-04T10:00:00Z",
    **options: Any,
) -> Record:
    """A complete record; `options` are those of make_run.

    Its mean throughput over processes is `throughput_per_s`; the processes spread evenly over
    `noise`, relative, on either side, their speeds in an order that another variant does not share.
    Without status ok there are no repetitions; failed and skipped variants also lack facts.
    """
    variant = Variant.from_slug(slug)
    built = make_facts(variant, **(facts or {}))
    run = make_run(variant, built, started_at=measured_at, **options)
    memory_mib = run.memory_peak_mib
    speed = throughput_per_s or typical_throughput_per_s(variant)
    speeds = _spread(speed, noise, processes, order=slug) if status == "ok" else []
    epoch_s = record_parts.samples_per_epoch(variant, built) / speed
    profiled_ms = (
        1000 * epoch_s / record_parts.steps_per_epoch(variant, built) * (profile_overhead or 0.0)
    )
    return Record(
        schema_version=SCHEMA_VERSION,
        variant=slug,
        machine=machine,
        status=status,
        reason=_REASONS[status] if reason is None else reason,
        measurement=(measurement or _measurement(variant)).as_dict(),
        workload=built if status in ("ok", "oom") else None,
        repetitions=[
            record_parts.make_repetition(variant, index, *each, run)
            for index, each in enumerate(speeds)
        ],
        profile=record_parts.make_profile(variant, profiled_ms, memory_mib)
        if speeds and profiled_ms
        else None,
        out_of_memory=record_parts.make_out_of_memory(memory_mib) if status == "oom" else None,
        environment=_environment(variant) if environment is None else dict(environment),
        provenance=_make_provenance(measured_at, code_digest),
    )


def make_run(
    variant: Variant,
    facts: WorkloadFacts,
    *,
    started_at: str,
    quality: float = 0.85,
    test_loss: float = 0.4,
    memory_peak_mib: float | None = None,
    first_epoch_ratio: float = 1.3,
    data_wait_share: float | None = None,
    foreign_cpu_share: float | None = 0.01,
    steal_share: float | None = 0.0,
    telemetry: Mapping[str, Any] | None = MappingProxyType({}),
) -> Run:
    """What all processes of a record share; memory and waiting are typical of the variant where
    none is given.

    `telemetry` says what is other than usual in that of an accelerator; None leaves it away.
    """
    return Run(
        facts=facts,
        quality=quality,
        test_loss=test_loss,
        memory_peak_mib=memory_peak_mib or typical_memory_mib(variant, facts.parameters),
        first_epoch_ratio=first_epoch_ratio,
        data_wait_share=typical_wait(variant) if data_wait_share is None else data_wait_share,
        load=Load(foreign_cpu_share=foreign_cpu_share, steal_share=steal_share),
        started_at=started_at,
        telemetry=None if telemetry is None else dict(telemetry),
    )


def _fits(variant: Variant) -> bool:
    needed_mib = typical_memory_mib(variant, make_facts(variant).parameters)
    return variant.device_type == "cpu" or needed_mib < DEVICE_MEMORY_MIB


def _spread(speed: float, noise: float, processes: int, *, order: str) -> list[tuple[float, float]]:
    """The speed of each process, and how far what its seed decides lies from the middle,
    relative.
    """
    offsets = (
        [0.0]
        if processes == 1
        else [noise * (2 * index / (processes - 1) - 1) for index in range(processes)]
    )
    of_speed = random.Random(order).sample(offsets, len(offsets))
    return [
        (speed * math.exp(faster), offset) for faster, offset in zip(of_speed, offsets, strict=True)
    ]


def _make_provenance(measured_at: str, code_digest: str) -> Provenance:
    return Provenance(
        measured_at=measured_at,
        package_version="0.1.0",
        git_commit="8f007a5c0ffee",
        git_dirty=False,
        code_digest=code_digest,
    )


NOTHING_HELD_OUT: Final = {"test_samples": 0, "quality_name": "", "quality_chance": None}
"""Facts of a workload without held-out samples."""


def make_facts(variant: Variant, **changes: Any) -> WorkloadFacts:
    """What the workload says of itself; `changes` replace single facts."""
    is_loop = variant.workload == LOOPS
    typical_samples = variant.batch_size if is_loop else TRAIN_SAMPLES.get(variant.workload, 1000)
    train_samples = changes.get("train_samples", typical_samples)
    values = {
        "title": TITLES.get(variant.workload, variant.workload),
        "parameters": PARAMETERS.get(key_of(variant), 100_000),
        "train_samples": train_samples,
        "test_samples": 128,
        "steps_per_full_epoch": math.ceil(train_samples / variant.batch_size),
        "sample_description": "32x32 RGB image, 3 classes",
        "data_description": "Shapes drawn over noise from a seeded generator.",
        "quality_name": {"unet": "Dice", "gpt2": "loss"}.get(variant.workload, "accuracy"),
        "quality_chance": 1 / 3,
        "optimizer": "Adam, learning rate 0.001",
        "loss": "cross-entropy",
        "source_file": f"gpu_report.workloads.{variant.workload}",
        "begins_anew": is_loop,
    }
    if variant.workload == "gpt2":
        values |= {
            "quality_better": "lower",
            "tokens_per_sample": typical_context(variant),
            "flops_per_token": 0.86e9,
            "flops_formula": "6 N + 12 L H Q T",
        }
    return WorkloadFacts(**{**values, **changes})


_REASONS: Final[Mapping[Status, str]] = {
    "ok": "",
    "oom": "out of memory: tried to allocate 2.00 GiB of 79.20 GiB",
    "failed": "RuntimeError: the loss is not finite, in repetition 0",
    "skipped": "torch 2.15.0 was built without CUDA",
}


def _environment(variant: Variant) -> dict[str, str | int | float | None]:
    return ENVIRONMENT | ({} if variant.device_type == "cpu" else ACCELERATOR_ENVIRONMENT)


def _measurement(variant: Variant) -> Measurement:
    known = (
        BUILT_IN_WORKLOADS[LOOPS].class_path
        if variant.workload == LOOPS
        else f"somewhere:{variant.workload}"
    )
    workload = Workload(name=variant.workload, class_path=known, settings={})
    return Measurement(variant=variant, workload=workload, protocol=PROTOCOL)
