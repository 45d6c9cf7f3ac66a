"""When a process has warmed up, and when it has timed enough: decided from the wall times of its epochs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_report.study import Protocol


@dataclass(frozen=True, kw_only=True)
class Settled:
    """How many of the first epochs are warm-up; `settled` is False where the epochs after them still get faster."""

    warm_up_epochs: int
    settled: bool


def warm_up(epoch_times_s: Sequence[float], protocol: Protocol) -> Settled:
    """By the protocol's rule, which leaves the first epoch in the warm-up and its `timed_epochs` after it.

    Where none of the epochs that may begin the timed ones meets the rule, the process has not settled.
    """
    last = min(protocol.most_warm_up_epochs, len(epoch_times_s) - protocol.timed_epochs)
    for first in range(1, last + 1):
        later_s = epoch_times_s[first + 1 :]
        if not later_s or epoch_times_s[first] <= protocol.settled_ratio * statistics.median(later_s):
            return Settled(warm_up_epochs=first, settled=True)
    return Settled(warm_up_epochs=max(last, 1), settled=False)


def is_enough(epoch_times_s: Sequence[float], protocol: Protocol) -> bool:
    """Whether the process has timed the protocol's epochs and seconds after its warm-up, or cannot settle."""
    trained = len(epoch_times_s)
    if trained < 1 + protocol.timed_epochs:
        return False
    found = warm_up(epoch_times_s, protocol)
    if not found.settled:
        return trained >= protocol.most_warm_up_epochs + protocol.timed_epochs
    timed_s = epoch_times_s[found.warm_up_epochs :]
    return sum(timed_s) >= protocol.timed_seconds or len(timed_s) >= protocol.most_timed_epochs
