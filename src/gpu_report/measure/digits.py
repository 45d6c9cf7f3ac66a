"""As many digits as a measurement holds, so that published records stay small."""

import math
from collections.abc import Iterable
from typing import Final

_PER_MS: Final = 10_000
"""Clocks tell no more than 0.1 microseconds."""

_MEANS_PER_MS: Final = 1e7
_FLOAT32_DIGITS: Final = 7


def times_in_ms(times_ms: Iterable[float]) -> list[float]:
    """Cut to 0.1 microseconds, not rounded, so that the steps of an epoch never add up to more than its wall time."""
    return [math.floor(time_ms * _PER_MS) / _PER_MS for time_ms in times_ms]


def mean_time_in_ms(all_ms: float, steps: int) -> float:
    """What one of so many steps took on average; cut to 0.1 nanoseconds, since it may be short."""
    return math.floor(all_ms / steps * _MEANS_PER_MS) / _MEANS_PER_MS


def float32_values(values: Iterable[float]) -> list[float]:
    """The 7 digits that a single-precision number holds."""
    return [float(f"{value:.{_FLOAT32_DIGITS}g}") for value in values]
