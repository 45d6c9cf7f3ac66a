"""The parts of a record, made without training: epochs, processes, telemetry, and the
profiled run.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_report.records.record import (
    AllocatorSummary,
    Base,
    Epoch,
    Load,
    OutOfMemory,
    PreparationCache,
    Profile,
    Rank,
    Repetition,
    Telemetry,
    TimedEpoch,
    Work,
    WorkloadFacts,
    timed_part,
)
from gpu_report.study.options import option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.study.variant import Variant
from tests.typical import (
    BYTES_OF_PASS,
    DEVICE_MEMORY_MIB,
    LOOPS,
    typical_flops_per_sample,
    typical_share_of_base,
)

_FLOPS_PER_BYTE: Final = 20.0
_FIRST_LOSS_SCALE: Final = 65536.0
_TELEMETRY_SAMPLES: Final = 20


_LEARNT: Final[dict[str, Any]] = {
    "learnt": {"weight": 2.003, "bias": 0.98},
    "reference_error": 3e-7,
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What all processes of a made record share."""

    facts: WorkloadFacts
    quality: float
    test_loss: float
    memory_peak_mib: float
    first_epoch_ratio: float
    data_wait_share: float
    load: Load
    started_at: str
    telemetry: dict[str, Any] | None
    """What is other than usual in the telemetry; None leaves it away."""


def make_repetition(
    variant: Variant, index: int, speed: float, offset: float, run: Run
) -> Repetition:
    """A process that trained at this speed in samples per second, which lies `offset`, relative,
    from the middle.
    """
    generator = random.Random(f"{variant.slug} {index}")
    epochs = [
        _make_epoch(variant, epoch, speed, offset, generator, run)
        for epoch in range(max(2, variant.epochs))
    ]
    extra = [
        TimedEpoch(**{name: getattr(each, name) for name in TimedEpoch.model_fields})
        for each in epochs
    ]
    preparation_s, cache = _preparation(variant, index)
    return Repetition(
        index=index,
        seed=variant.seed + index,
        started_at=run.started_at,
        build_time_s=0.5,
        preparation_time_s=preparation_s,
        preparation_cache=cache,
        training_wall_s=1.2 * sum(epoch.wall_time_s for epoch in epochs),
        epochs=epochs[: variant.epochs],
        extra_epochs=extra[variant.epochs :],
        memory_peak_mib=run.memory_peak_mib * (1 + offset / 10),
        memory_kind="resident set" if variant.device_type in ("cpu", "mps") else "allocator",
        memory_baseline_mib=200.0 if variant.device_type == "cpu" else 0.0,
        load=run.load,
        telemetry=_telemetry_of(variant, epochs[1:], run),
        ranks=[
            _make_rank(variant, rank, epochs, run)
            for rank in range(variant.devices if variant.has_ranks else 0)
        ],
        base=None if variant.strategy == SINGLE else _make_base(variant, epochs),
        **(_LEARNT if run.facts.begins_anew else {}),
    )


def _make_rank(variant: Variant, rank: int, epochs: Sequence[Epoch], run: Run) -> Rank:
    """A rank of those that share the training; each further one has a hundredth less memory."""
    memory_mib = run.memory_peak_mib * (1 - rank / 100)
    return Rank(
        rank=rank,
        device="cpu" if variant.device == "cpu" else f"{variant.device}:{rank}",
        epochs=[timed_part(epoch) for epoch in epochs],
        train_losses=[loss for epoch in epochs for loss in epoch.train_losses],
        memory_peak_mib=memory_mib,
        memory_reserved_peak_mib=None if variant.device == "cpu" else 1.2 * memory_mib,
        parameters_sha256="0" * 64,
    )


def _make_base(variant: Variant, epochs: Sequence[Epoch]) -> Base:
    """The plain process beside it, of which each device reaches the typical share."""
    seconds = typical_share_of_base(variant)
    samples = variant.base.batch_size / variant.batch_size
    return Base(
        threads=1,
        epochs=[_as_base(timed_part(epoch), seconds, samples) for epoch in epochs],
        warm_up_epochs=1,
    )


def _as_base(epoch: TimedEpoch, seconds: float, samples: float) -> TimedEpoch:
    """An epoch with this part of its samples, in this part of its time."""
    changes = {
        "wall_time_s": epoch.wall_time_s * seconds,
        "step_times_ms": [time * seconds for time in epoch.step_times_ms],
        "samples": round(epoch.samples * samples),
    }
    return epoch.model_copy(update=changes)


def _preparation(variant: Variant, index: int) -> tuple[float, PreparationCache]:
    cold_s, warm_s = (30.0, 8.0) if "compile" in variant.options else (1.6, 1.5)
    if not {"compile", "graphs"} & {*option_names(variant.options)}:
        return 0.0, "none"
    return (warm_s + 0.1 * index, "filled") if index else (cold_s, "empty")


def _telemetry_of(variant: Variant, timed: Sequence[Epoch], run: Run) -> Telemetry | None:
    if variant.device_type == "cpu" or run.telemetry is None:
        return None
    return make_telemetry(timed, **run.telemetry)


def make_telemetry(timed: Sequence[Epoch], **changes: Any) -> Telemetry:
    """Twenty samples of a device at work; `changes` replace single fields."""
    duration_s = sum(epoch.wall_time_s for epoch in timed)
    samples = _TELEMETRY_SAMPLES
    values: dict[str, Any] = {
        "period_s": duration_s / samples,
        "sample_cost_ms": 0.4,
        "moments_s": [duration_s * sample / samples for sample in range(samples)],
        "utilisation_percent": [90.0] * samples,
        "memory_used_mib": [2100.0] * samples,
        "power_w": [420.0 + sample for sample in range(samples)],
        "sm_clock_mhz": [1755.0] * samples,
        "memory_clock_mhz": [2619.0] * samples,
        "temperature_c": [51.0 + sample / 4 for sample in range(samples)],
        "throttle_reasons": {},
        "energy_j": 430.0 * duration_s,
        "other_processes": 0,
        "memory_used_before_mib": 3.0,
    }
    return Telemetry(**{**values, **changes})


def _make_epoch(
    variant: Variant, epoch: int, speed: float, offset: float, generator: random.Random, run: Run
) -> Epoch:
    facts = run.facts
    steps, samples = steps_per_epoch(variant, facts), samples_per_epoch(variant, facts)
    wall_time_s = samples / speed * (1.0 if epoch else run.first_epoch_ratio)
    done = (epoch + 1) / variant.epochs
    losses = [
        run.test_loss
        * (
            0.8
            + 2.2 * math.exp(-3 * (epoch + step / steps) / variant.epochs)
            + generator.uniform(-0.05, 0.05)
        )
        for step in range(steps)
    ]
    chance = facts.quality_chance or 0.0
    return Epoch(
        wall_time_s=wall_time_s,
        step_times_ms=[1000 * wall_time_s / steps] * steps,
        data_wait_ms=[1000 * wall_time_s / steps * run.data_wait_share] * steps,
        samples=samples,
        train_losses=losses,
        loss_scales=_loss_scales(epoch, steps, halvings=3 if "highscale" in variant.options else 1)
        if variant.precision == "fp16"
        else [],
        test_loss=run.test_loss * (1 + 2 * (1 - done)) * (1 + offset / 10)
        if facts.test_samples
        else None,
        quality=min(1.0, (chance + (run.quality - chance) * done) * (1 + offset / 10))
        if facts.quality_name
        else None,
    )


def _loss_scales(epoch: int, steps: int, *, halvings: int) -> list[float]:
    """The second step of a training overflows, and as many of the next, so that each halves the
    factor.
    """
    return [_FIRST_LOSS_SCALE / 2 ** min(halvings, step + epoch * steps) for step in range(steps)]


def steps_per_epoch(variant: Variant, facts: WorkloadFacts) -> int:
    """Steps of an epoch as the variant has it."""
    return variant.steps_per_epoch or facts.steps_per_full_epoch


def samples_per_epoch(variant: Variant, facts: WorkloadFacts) -> int:
    """Samples that an epoch goes through as the variant has it."""
    return (
        variant.steps_per_epoch * variant.batch_size
        if variant.steps_per_epoch
        else facts.train_samples
    )


def make_profile(variant: Variant, step_ms: float, memory_peak_mib: float) -> Profile:
    """A profiled run of three steps that took so long each."""
    on_cpu = variant.device_type == "cpu"
    return Profile(
        trace_file="rank0.pt.trace.json.gz",
        trace_sha256="0" * 64,
        step_times_ms=[step_ms] * 3,
        work=make_work(variant),
        allocator=None if on_cpu else _make_allocator(memory_peak_mib),
        memory_snapshot_file="" if on_cpu else "snapshot.pickle",
    )


def _make_allocator(peak_mib: float) -> AllocatorSummary:
    return AllocatorSummary(
        allocated_peak_mib=peak_mib,
        reserved_peak_mib=1.15 * peak_mib,
        active_peak_mib=1.01 * peak_mib,
        inactive_split_peak_mib=0.05 * peak_mib,
        allocations=5000,
        retries=0,
    )


def make_work(variant: Variant) -> Work:
    """The step of a convolutional network, at 20 FLOP per byte, or 40 where numbers are half as
    long.
    """
    if variant.workload == LOOPS:
        return _work_of_loop(variant)
    intensity = _FLOPS_PER_BYTE * (2 if variant.precision in ("fp16", "bf16") else 1)
    flops = typical_flops_per_sample(variant) * variant.batch_size
    return Work(
        samples=variant.batch_size,
        flops=flops,
        flops_by_operator={
            "aten::convolution": flops / 3,
            "aten::convolution_backward": 2 * flops / 3,
        },
        bytes=flops / intensity,
        uncounted_operators={"aten::native_batch_norm": 18},
    )


def _work_of_loop(variant: Variant) -> Work:
    bytes_of_pass = BYTES_OF_PASS.get(variant.options, 8.0) * variant.batch_size
    if variant.options in ("persistent", "statistics"):
        bytes_of_pass /= variant.steps_per_epoch or 1
    return Work(
        samples=variant.batch_size,
        flops=8.0 * variant.batch_size,
        flops_by_operator={},
        bytes=bytes_of_pass,
        uncounted_operators={},
    )


def make_out_of_memory(memory_mib: float) -> OutOfMemory:
    """A training that wants so much altogether asks for an eighth of it at the point where the rest
    is taken.
    """
    return OutOfMemory(
        asked_mib=round(memory_mib / 8, 1), free_mib=812.5, total_mib=DEVICE_MEMORY_MIB
    )
