"""A variant: one workload with every axis fixed, and the readable name that its folder carries."""

import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from gpu_report.errors import ConfigError

_SLUG: Final = re.compile(
    r"(?P<workload>[a-z][a-z0-9_]*)"
    r"(?:-(?P<size>[a-z0-9_]+))?"
    r"-(?P<device>[a-z]+)(?P<device_index>\d+)?"
    r"-b(?P<batch_size>\d+)"
    r"-w(?P<workers>\d+)"
    r"-(?P<precision>[a-z0-9]+)"
    r"-e(?P<epochs>\d+)(?:x(?P<steps_per_epoch>\d+))?"
    r"(?:-seed(?P<seed>\d+))?"
)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One point of the study.

    `device` is a PyTorch device name such as `cpu`, `cuda` or `cuda:1`. `epochs` counts the first epoch, which is kept
    apart as warm-up. `steps_per_epoch` is None where an epoch is the whole training set.
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

    def __post_init__(self) -> None:
        if _fields_of_slug(self.slug) != asdict(self):
            raise ConfigError(f"variant {self.slug!r} cannot be named: use lower-case letters, digits and underscores")

    @classmethod
    def from_slug(cls, slug: str) -> "Variant":
        """The variant that has this name.

        Raises:
            ConfigError: the text is not the name of a variant.
        """
        fields = _fields_of_slug(slug)
        if fields is None:
            raise ConfigError(f"{slug!r} is not a variant's name; names look like unet-64px-cpu-b8-w0-fp32-e3x6")
        return cls(**fields)

    @property
    def slug(self) -> str:
        """The name, for instance `unet-64px-cpu-b8-w0-fp32-e3x6`: 3 epochs of 6 steps each."""
        parts = [
            self.workload,
            *([] if self.size == "default" else [self.size]),
            self.device.replace(":", ""),
            f"b{self.batch_size}",
            f"w{self.workers}",
            self.precision,
            f"e{self.epochs}" + (f"x{self.steps_per_epoch}" if self.steps_per_epoch else ""),
            *([f"seed{self.seed}"] if self.seed else []),
        ]
        return "-".join(parts)

    @property
    def device_type(self) -> str:
        """The device without its index, for instance `cuda` for `cuda:1`."""
        return self.device.partition(":")[0]


def _fields_of_slug(slug: str) -> dict[str, Any] | None:
    match = _SLUG.fullmatch(slug)
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
    }
