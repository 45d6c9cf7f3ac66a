"""How several devices share one training: one declared strategy each, described without PyTorch.

A variant names its strategy with the number of devices, as `ddp2`; on one device by one plain
process it is `single`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpu_report.errors import ConfigError
from gpu_report.study.options import OPTIONS, option_names

SINGLE: Final = "single"


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One strategy: what a reader calls it, what it does, and what cannot go with it."""

    title: str
    meaning: str
    has_ranks: bool = False
    """Whether each device has a process of its own, a rank, started as torchrun starts it; else one
    drives them all.
    """
    least: int = 1
    """Devices."""
    accelerator_only: bool = False
    divides_batch: bool = True
    """Whether each device has its own share of the samples of a step; else all of them go through
    all samples.
    """
    excludes: tuple[str, ...] = ()
    """Options and precisions that it cannot be trained with."""


STRATEGIES: Final[Mapping[str, Strategy]] = {
    SINGLE: Strategy(title="one process", meaning="one plain process trains on one device"),
    "dp": Strategy(
        title="DataParallel",
        meaning="one process copies the model to every device in every step and gathers the "
        "outputs on the first",
        least=2,
        accelerator_only=True,
        excludes=("graphs", "compile", "checkpoint", "autotune"),
    ),
    "ddp": Strategy(
        title="DistributedDataParallel",
        meaning="each device has a process with a whole model; gradients are averaged while the "
        "backward pass goes on",
        has_ranks=True,
    ),
    "fsdp": Strategy(
        title="FSDP2",
        meaning="each device has a process that keeps a share of weights, gradients and optimizer "
        "state, and gathers the weights of a block when it is computed",
        has_ranks=True,
        excludes=("graphs", "checkpoint", "channelslast", "fp16"),
    ),
    "split": Strategy(
        title="model split",
        meaning="one process keeps each stage of the model on its own device; while one computes, "
        "the others wait",
        least=2,
        divides_batch=False,
        accelerator_only=True,
        excludes=("graphs", "compile", "checkpoint"),
    ),
    "pipeline": Strategy(
        title="pipeline",
        meaning="each device has a process with one stage of the model; the batch goes through "
        "them in `accumulate<number>` parts, so that all devices compute different parts at once; "
        "BatchNorm normalizes each part by itself",
        has_ranks=True,
        least=2,
        divides_batch=False,
        excludes=("graphs", "compile", "checkpoint", "fp16"),
    ),
}
"""By name; each but the first takes the number of devices behind it."""


_NAMED: Final = re.compile(rf"({'|'.join(STRATEGIES)})(\d+|_all)?")


def devices_and_strategy(name: str, *, present: int, nodes: int = 1) -> list[tuple[str, int]]:
    """A strategy with its numbers of devices, from a name such as `ddp2`; `single` has one.

    Without a number it takes every power of two up to the devices present, and all of them; with
    `_all`, as in `ddp_all`, only all of them. With a process for each device those of all nodes
    count, of which each has as many. Fewer than two count as two.

    Raises:
        ConfigError: there is no such strategy, or its number is missing or useless.
    """
    match = _NAMED.fullmatch(name)
    if match is None or (match[1] == SINGLE and match[2]):
        known = ", ".join(known for known in STRATEGIES if known != SINGLE)
        raise ConfigError(
            f"{name!r} is unknown; use {SINGLE}, or one of {known} with a number of devices or "
            "_all, as ddp2 or ddp_all"
        )
    if match[1] == SINGLE:
        return [(SINGLE, 1)]
    if match[2] and match[2].isdigit():
        return [(match[1], int(match[2]))]
    present = max(2, present * nodes if STRATEGIES[match[1]].has_ranks else present)
    if match[2]:
        return [(match[1], present)]
    powers = {2**exponent for exponent in range(1, present.bit_length()) if 2**exponent <= present}
    return [(match[1], count) for count in sorted(powers | {present})]


def can_share(strategy: str, device: str) -> bool:
    """Whether devices from this one on can train so: of a kind that the strategy is for, and the
    first of them.
    """
    return strategy == SINGLE or not (
        ":" in device or (STRATEGIES[strategy].accelerator_only and device == "cpu")
    )


def check_strategy(
    strategy: str,
    *,
    devices: int,
    device: str,
    batch_size: int,
    accumulation: int,
    precision: str,
    options: str,
) -> None:
    """Refuse a strategy that does not exist, or that cannot train so.

    Raises:
        ConfigError: names the key, its value and what to do.
    """
    for name in option_names(options):
        if OPTIONS[name].ddp_only and strategy != "ddp":
            raise ConfigError(
                f"options: {name} is for DistributedDataParallel; use it with a parallelism such "
                "as ddp2"
            )
    if strategy not in STRATEGIES:
        raise ConfigError(
            f"parallelism: {strategy!r} is unknown; use one of {', '.join(STRATEGIES)}"
        )
    chosen = STRATEGIES[strategy]
    if strategy == SINGLE:
        return
    if devices < chosen.least:
        raise ConfigError(
            f"parallelism: {strategy} needs at least {chosen.least} devices, not {devices}"
        )
    if ":" in device:
        raise ConfigError(
            f"parallelism: {strategy} takes the devices from the first on; write device: "
            f"{device.partition(':')[0]}"
        )
    if chosen.accelerator_only and device == "cpu":
        raise ConfigError(
            f"parallelism: {strategy} needs accelerators; with device: cpu take ddp, fsdp or "
            "pipeline"
        )
    if chosen.divides_batch and batch_size % (devices * accumulation):
        raise ConfigError(
            f"batch_size: {batch_size} samples cannot be shared equally by {devices} devices"
            + (f" in {accumulation} parts each" if accumulation > 1 else "")
            + "; it counts the samples of all of them, so take a multiple"
        )
    for name in (*option_names(options), precision):
        if name in chosen.excludes or (name in OPTIONS and OPTIONS[name].is_loop):
            raise ConfigError(
                f"parallelism: {strategy} cannot be trained with {name}; leave one of them out"
            )
