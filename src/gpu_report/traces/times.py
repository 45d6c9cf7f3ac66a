"""Times of events as whole nanoseconds, exact although the file gives microseconds with three decimals."""

from collections.abc import Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from gpu_report.traces.events import DamagedDocumentError, ExactEvent, RawEvent, named

EXACT_US: Final = 2.0**43
"""Some 101 days: a 64-bit float below is off by less than half a nanosecond."""

_LATEST_US: Final = 4e15
"""Some 127 years before or after 1970; the difference of two such times fits 64 bits of nanoseconds."""

_NS_PER_US: Final = 1000
_NO_TIME: Final = Decimal("nan")
_TS: Final = attrgetter("ts")
_DUR: Final = attrgetter("dur")

Integers = npt.NDArray[np.int64]


class InexactTimesError(Exception):
    """Times that are too large for the floats that they were read as; read again as ExactEvent they are exact."""


def starts_ns(events: Sequence[RawEvent]) -> Integers:
    """Exact to the nanosecond; the events are all of one type.

    Raises:
        DamagedDocumentError: an event has no time, or one beyond any clock.
        InexactTimesError: the times are floats, and one is not below EXACT_US.
    """
    exact_us = [_exact_us(event) for event in events if isinstance(event, ExactEvent)]
    starts_us = np.array(exact_us or list(map(_TS, events)), dtype=np.float64)
    largest_us = np.abs(starts_us).max()
    if largest_us < EXACT_US and not exact_us:
        return _nanoseconds(starts_us)
    if np.isnan(largest_us):
        raise DamagedDocumentError(
            f"{named(events[int(np.isnan(starts_us).argmax())])} has no ts, which every event has"
        )
    if largest_us >= _LATEST_US:
        raise DamagedDocumentError(f"{named(events[int(np.abs(starts_us).argmax())])} has a ts beyond any clock")
    if not exact_us:
        raise InexactTimesError
    return np.array([round(time_us * _NS_PER_US) for time_us in exact_us], dtype=np.int64)


def _exact_us(event: ExactEvent) -> Decimal:
    text = bytes(event.ts).decode("utf-8", "replace")
    if text == "null":
        return _NO_TIME
    if text[0] not in "-0123456789":
        raise DamagedDocumentError(f"{named(event)} has ts {text:.40}, not a number of microseconds")
    return Decimal(text)


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> Integers:
    """Whole and fraction apart, since their product with 1000 would need more digits than a float has."""
    whole_us = np.floor(microseconds)
    return whole_us.astype(np.int64) * _NS_PER_US + np.rint((microseconds - whole_us) * _NS_PER_US).astype(np.int64)


def durations_ns(events: Sequence[RawEvent]) -> Integers:
    """As the file has them, so some may be negative: profilers have written such."""
    durations_us: list[float | None] = list(map(_DUR, events))
    durations = np.array(durations_us, dtype=np.float64)
    longest_us = np.abs(durations).max()
    if longest_us < EXACT_US:
        return _nanoseconds(durations)
    if np.isnan(longest_us):
        raise DamagedDocumentError(f"{named(events[durations_us.index(None)])} has no dur, which every span has")
    worst = int(np.abs(durations).argmax())
    raise DamagedDocumentError(f"{named(events[worst])} has the dur {durations[worst]:g} us, beyond belief")
