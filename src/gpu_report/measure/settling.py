"""When a process has warmed up, and when it has timed enough: decided from the wall times of its epochs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.study import Protocol

SETTLED_RATIO: Final = 1.25
"""What warms up (compiling, tuning, growing memory pools) makes an epoch several times longer. Epochs that the host
paces differ by a tenth or more by chance alone, so a stricter limit would take chance for warm-up."""
MOST_WARM_UP_EPOCHS: Final = 8
MOST_TIMED_EPOCHS: Final = 32
"""Where epochs take microseconds, this many of them tell a process's median well; its records stay small."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """How many of the first epochs are warm-up; `settled` is False where the epochs after them still get faster."""

    warm_up_epochs: int
    settled: bool


def warm_up(epoch_times_s: Sequence[float], *, timed_epochs: int) -> Settled:
    """Warm-up ends before the first epoch of at most SETTLED_RATIO of the median of those after it.

    The first epoch always belongs to the warm-up, and at least `timed_epochs` follow it. Where no epoch of the first
    MOST_WARM_UP_EPOCHS meets the rule, they are all warm-up and the process has not settled.
    """
    last = min(MOST_WARM_UP_EPOCHS, len(epoch_times_s) - timed_epochs)
    for first in range(1, last + 1):
        later_s = epoch_times_s[first + 1 :]
        if not later_s or epoch_times_s[first] <= SETTLED_RATIO * statistics.median(later_s):
            return Settled(warm_up_epochs=first, settled=True)
    return Settled(warm_up_epochs=max(last, 1), settled=False)


def is_enough(epoch_times_s: Sequence[float], protocol: Protocol) -> bool:
    """Whether the process has timed the protocol's epochs and seconds after its warm-up, or cannot settle."""
    timed = len(epoch_times_s) - 1
    if timed < protocol.timed_epochs:
        return False
    found = warm_up(epoch_times_s, timed_epochs=protocol.timed_epochs)
    if not found.settled:
        return timed >= MOST_WARM_UP_EPOCHS + protocol.timed_epochs - 1
    timed_s = epoch_times_s[found.warm_up_epochs :]
    return sum(timed_s) >= protocol.timed_seconds or len(timed_s) >= MOST_TIMED_EPOCHS
