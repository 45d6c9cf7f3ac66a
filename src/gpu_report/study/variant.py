"""A variant: one workload with every axis fixed, and the readable name that its folder carries."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Final

from gpu_report.errors import ConfigError
from gpu_report.study.options import (
    NO_OPTIONS,
    OPTIONS,
    Optimization,
    check_options,
    joined,
    option_names,
)
from gpu_report.study.strategies import SINGLE, STRATEGIES, check_strategy

_SLUG: Final = re.compile(
    r"(?P<workload>[a-z][a-z0-9_]*)"
    r"(?:-(?P<size>[a-z0-9_]+))?"
    r"-(?P<device>[a-z]+)(?P<device_index>\d+)?"
    r"-b(?P<batch_size>\d+)(?:a(?P<accumulation>\d+))?"
    r"-w(?P<workers>\d+)"
    r"-(?P<precision>[a-z0-9]+)"
    r"-e(?P<epochs>\d+)(?:x(?P<steps_per_epoch>\d+))?"
    r"(?:-seed(?P<seed>\d+))?"
    rf"(?:-(?P<strategy>{'|'.join(STRATEGIES)})(?P<devices>\d+))?"
    r"(?:-(?P<options>[a-z][a-z0-9+]*))?"
)

_LONGEST_SLUG: Final = 200
"""It names a folder, and a log with an ending; file systems take 255 bytes."""

AXIS_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "workload": ("workload", "size"),
    "optimization": ("workers", "accumulation", "options"),
    "parallelism": ("strategy", "devices"),
}
"""The fields in which variants along an axis differ, where these are not the field of the axis' own
name alone.
"""
LENGTH_FIELDS: Final = ("epochs", "steps_per_epoch")
"""How long a variant trains."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One point of the study.

    `device` is a PyTorch device name such as `cpu`, `cuda` or `cuda:1`. `epochs` counts the first
    epoch, which is kept apart as warm-up. `steps_per_epoch` is None where an epoch is the whole
    training set. `batch_size` counts the samples of one step of the optimizer, of all processes
    together; each goes through its share, or through all of them where it has none, in
    `accumulation` parts of equal size. `options` names what is switched on, as
    `gpu_report.study.options` declares it: `none`, or `pinned+prefetch`. `strategy` says how
    `devices` devices share the training: by a process for each, or one for all
    (`gpu_report.study.strategies`). On the CPU that many processes share its cores.
    """

    workload: str
    size: str = "default"
    device: str
    batch_size: int
    workers: int = 0
    precision: str = "fp32"
    epochs: int
    steps_per_epoch: int | None = None
    seed: int = 0
    accumulation: int = 1
    options: str = NO_OPTIONS
    strategy: str = SINGLE
    devices: int = 1

    def __post_init__(self) -> None:
        check_options(
            self.options, workers=self.workers, precision=self.precision, device=self.device
        )
        if self.accumulation < 1 or self.batch_size % self.accumulation:
            raise ConfigError(
                f"accumulation: {self.accumulation} parts of equal size do not make a batch of "
                f"{self.batch_size}; "
                "take a divisor of the batch size"
            )
        check_strategy(
            self.strategy,
            devices=self.devices,
            device=self.device,
            batch_size=self.batch_size,
            accumulation=self.accumulation,
            precision=self.precision,
            options=self.options,
        )
        if _fields_of_slug(self.slug) != asdict(self):
            raise ConfigError(
                f"variant {self.slug!r} cannot be named: use lower-case letters, digits and "
                f"underscores, and no more than {_LONGEST_SLUG} of them"
            )

    @classmethod
    @cache  # every table names the same few variants again and again
    def from_slug(cls, slug: str) -> "Variant":
        """The variant that has this name.

        Raises:
            ConfigError: the text is not the name of a variant.
        """
        fields = _fields_of_slug(slug)
        if fields is None:
            raise ConfigError(
                f"{slug!r} is not a configuration's name; names look like "
                "unet-64px-cpu-b8-w0-fp32-e3x6"
            )
        return cls(**fields)

    def fields_without(self, *names: str) -> tuple[tuple[str, Any], ...]:
        """All others with their values, by which variants that share them can be found."""
        return tuple((name, value) for name, value in asdict(self).items() if name not in names)

    @property
    def slug(self) -> str:
        """The name, for instance `unet-64px-cpu-b8-w0-fp32-e3x6`: 3 epochs of 6 steps each."""
        return "-".join(
            [
                self.workload,
                *([] if self.size == "default" else [self.size]),
                self.device.replace(":", ""),
                f"b{self.batch_size}" + (f"a{self.accumulation}" if self.accumulation > 1 else ""),
                f"w{self.workers}",
                self.precision,
                f"e{self.epochs}" + (f"x{self.steps_per_epoch}" if self.steps_per_epoch else ""),
                *([f"seed{self.seed}"] if self.seed else []),
                *([] if self.strategy == SINGLE else [self.parallelism]),
                *([] if self.options == NO_OPTIONS else [self.options]),
            ]
        )

    @property
    def optimization(self) -> str:
        """Its difference from the eager baseline: `workers4+pinned`, `accumulate4+checkpoint`, or
        `none`.

        The axis of an experiment about optimizations, whose variants differ in these three fields
        alone.
        """
        return Optimization(
            workers=self.workers, accumulation=self.accumulation, options=self.options
        ).name

    @property
    def optimization_with_precision(self) -> str:
        """The same where the precision is one of its steps: `bf16+fused`; `none` in fp32."""
        precision = "" if self.precision == "fp32" else self.precision
        return replace(Optimization.from_name(self.optimization), precision=precision).name

    @property
    def parallelism(self) -> str:
        """The strategy with its number of devices: `ddp2`; `single` for one plain process."""
        return self.strategy if self.strategy == SINGLE else f"{self.strategy}{self.devices}"

    @property
    def has_ranks(self) -> bool:
        """Whether each of its devices has a process of its own, started as torchrun starts it."""
        return STRATEGIES[self.strategy].has_ranks

    @property
    def divides_batch(self) -> bool:
        """Whether each of its devices goes through a share of the batch; else all of them go
        through all of it.
        """
        return STRATEGIES[self.strategy].divides_batch

    @property
    def base(self) -> "Variant":
        """The plain process that a shared training is measured by: with the samples that one of its
        devices has.
        """
        kept = [name for name in option_names(self.options) if not OPTIONS[name].ddp_only]
        per_device = self.batch_size // self.devices if self.divides_batch else self.batch_size
        return replace(
            self, strategy=SINGLE, devices=1, batch_size=per_device, options=joined(kept)
        )

    @property
    def device_type(self) -> str:
        """The device without its index, for instance `cuda` for `cuda:1`."""
        return self.device.partition(":")[0]


def _fields_of_slug(slug: str) -> dict[str, Any] | None:
    match = _SLUG.fullmatch(slug) if len(slug) <= _LONGEST_SLUG else None
    if match is None:
        return None
    part = match.groupdict()
    index = part["device_index"]
    return {
        "workload": part["workload"],
        "size": part["size"] or "default",
        "device": part["device"] if index is None else f"{part['device']}:{index}",
        "batch_size": int(part["batch_size"]),
        "workers": int(part["workers"]),
        "precision": part["precision"],
        "epochs": int(part["epochs"]),
        "steps_per_epoch": int(part["steps_per_epoch"]) if part["steps_per_epoch"] else None,
        "seed": int(part["seed"] or 0),
        "accumulation": int(part["accumulation"] or 1),
        "options": part["options"] or NO_OPTIONS,
        "strategy": part["strategy"] or SINGLE,
        "devices": int(part["devices"] or 1),
    }
