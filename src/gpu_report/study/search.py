"""A batch-size search: a training whose number of samples is not given but tried, and what its
answers mean.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

from gpu_report.errors import ConfigError
from gpu_report.study.catalogue import WITH_PLAIN_STEPS, BuiltInWorkload
from gpu_report.study.options import NO_OPTIONS, Optimization, option_names
from gpu_report.study.variant import Variant

SEARCH_VERSION: Final = 1
"""Raised whenever a change in how numbers of samples are tried makes old answers incomparable with
new ones.
"""
NEAR: Final = 0.95
"""Share of the fastest throughput from which a smaller batch counts as nearly as fast."""
RESOLUTION: Final = 1.02
"""The largest batch is resolved where one that is larger by this factor failed."""
_STEPS_PER_EPOCH: Final = 8
"""Batches of an epoch, all of them whole; no result depends on their number."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Which numbers of samples a search may try, and the share of the memory that it leaves."""

    maximum: int | None = None
    multiple_of: int = 1
    margin: float = 0.0

    def check(self) -> None:
        """Refuse what leaves no memory or no number of samples.

        Raises:
            ConfigError: names the value and what was expected.
        """
        margin: Any = self.margin
        if not (isinstance(margin, int | float) and 0 <= margin < 1):
            raise ConfigError(f"margin: it is {margin!r}; expected a share from 0 to below 1")
        if self.maximum is not None and self.maximum < self.multiple_of:
            raise ConfigError(
                f"maximum: it is {self.maximum}; expected {self.multiple_of} or more, the least "
                "that multiple_of allows"
            )

    def largest_below(self, samples: float) -> float:
        """The largest number that may be tried below this one, which may be infinite."""
        largest = samples - 1 if self.maximum is None else min(samples - 1, self.maximum)
        return largest if math.isinf(largest) else largest // self.multiple_of * self.multiple_of


@dataclass(frozen=True, kw_only=True)
class BatchSearch(Bounds):
    """One search; its slug names its file.

    `samples` that are tried are those of one batch, of which an optimization with `accumulate2`
    adds up two in a step. `memory_limit_gib` is None for all that is free on the device, `seconds`
    is the time to measure one number.
    """

    workload: str
    size: str = "default"
    device: str
    precision: str = "fp32"
    optimization: str = NO_OPTIONS
    memory_limit_gib: float | None = None
    seconds: float = 5.0
    version: int = SEARCH_VERSION

    @property
    def slug(self) -> str:
        """The name, for instance `unet-128px-cuda-bf16-checkpoint`; a limit of memory is in it;
        seconds and bounds are not.
        """
        return "-".join(
            [
                self.workload,
                *([] if self.size == "default" else [self.size]),
                self.device.replace(":", ""),
                self.precision,
                *([] if self.memory_limit_mib is None else [f"{self.memory_limit_mib:.0f}mib"]),
                *([] if self.optimization == NO_OPTIONS else [self.optimization]),
            ]
        )

    @property
    def memory_limit_mib(self) -> float | None:
        return None if self.memory_limit_gib is None else self.memory_limit_gib * 1024

    def variant(self, samples: int) -> Variant:
        """The training that one number of samples is.

        Raises:
            ConfigError: there is no such training.
        """
        optimization = Optimization.from_name(self.optimization)
        return Variant(
            workload=self.workload,
            size=self.size,
            device=self.device,
            batch_size=samples * optimization.accumulation,
            precision=self.precision,
            epochs=1,
            steps_per_epoch=_STEPS_PER_EPOCH,
            workers=optimization.workers,
            accumulation=optimization.accumulation,
            options=optimization.options,
        )


def check_search(search: BatchSearch, built_in: BuiltInWorkload | None) -> None:
    """Refuse what cannot be tried before anything is measured; `built_in` is the workload's entry
    in the catalogue.

    Raises:
        ConfigError: names the key, its value and what to do.
    """
    if built_in is None or not built_in.has_plain_steps:
        raise ConfigError(
            f"workload: {search.workload} cannot be searched for a batch size; use one of "
            f"{', '.join(WITH_PLAIN_STEPS)}, or for a model of your own gpu-report batch-size"
        )
    search.check()
    variant = search.variant(samples=1)
    if variant.workers or "graphs" in option_names(variant.options):
        raise ConfigError(
            f"optimization: {search.optimization} has workers or graphs, which are made for one "
            "batch size; leave them out of a search"
        )
    if Optimization.from_name(search.optimization).precision:
        raise ConfigError(
            f"optimization: {search.optimization} names a precision; give it in precision"
        )
    built_in.check(variant)
