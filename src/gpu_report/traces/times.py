"""Times of events as whole nanoseconds, exact although the file gives microseconds with three decimals.

decoded events -> microseconds as floats (starts_of, durations_of) -> nanoseconds, in the same memory
"""

from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from gpu_report.traces.events import DamagedDocumentError, ExactEvent, RawEvent, named
from gpu_report.traces.naming import kept_name

EXACT_US: Final = 2.0**43
"""Some 101 days: a 64-bit float below is off by less than half a nanosecond."""

_LATEST_US: Final = 4 * 10**15
"""Some 127 years before or after 1970; the difference of two such times fits 64 bits of nanoseconds."""

_NS_PER_US: Final = 1000
_AT_ONCE: Final = 1 << 16
_MOST_SHOWN: Final = 40

Integers = npt.NDArray[np.int64]
NameOf = Callable[[int], str]
"""The name of the event at a position."""


class InexactTimesError(Exception):
    """Times that are too large for the floats that they were read as; read again as ExactEvent they are exact."""


def starts_of(events: Sequence[RawEvent]) -> "array[Any]":
    """When the events begin: microseconds as floats, or whole nanoseconds where they are ExactEvents.

    Raises:
        DamagedDocumentError: an event has no time, or of ExactEvents one has a time beyond any clock.
        InexactTimesError: the first time is a float that is not below EXACT_US.
    """
    if events and isinstance(events[0], ExactEvent):
        return array("q", map(_exact_ns, cast("Sequence[ExactEvent]", events)))
    starts_us = _floats([event.ts for event in events], events, "ts, which every event has")
    if events and abs(starts_us[0]) >= EXACT_US:  # the others are looked at when all are there
        raise InexactTimesError
    return starts_us


def _exact_ns(event: ExactEvent) -> int:
    text = bytes(event.ts).decode("utf-8", "replace")
    if text == "null":
        raise DamagedDocumentError(f"{named(event.name)} has no ts, which every event has")
    if text[0] not in "-0123456789":
        said = kept_name(text, most=_MOST_SHOWN)
        raise DamagedDocumentError(f"{named(event.name)} has ts {said}, not a number of microseconds")
    try:
        time_us = Decimal(text)
        is_sound = abs(time_us) < _LATEST_US
    except ArithmeticError:  # of decimal: too large an exponent
        is_sound = False
    if not is_sound:
        raise DamagedDocumentError(f"{named(event.name)} has a ts beyond any clock")
    return round(time_us * _NS_PER_US)


def durations_of(events: Sequence[RawEvent]) -> "array[Any]":
    """How long the events last, in microseconds.

    Raises:
        DamagedDocumentError: an event has no duration.
    """
    return _floats([event.dur for event in events], events, "dur, which every span has")


def _floats(values: Sequence[float | None], events: Sequence[RawEvent], what: str) -> "array[Any]":
    try:
        return array("d", values)
    except TypeError as error:
        raise DamagedDocumentError(f"{named(events[values.index(None)].name)} has no {what}") from error


def starts_ns(starts: "array[Any]", name_of: NameOf) -> Integers:
    """What `starts_of` gave, exact to the nanosecond; the memory becomes that of the result.

    Raises:
        DamagedDocumentError: a time is beyond any clock.
        InexactTimesError: the times are floats, and one is not below EXACT_US.
    """
    if starts.typecode == "q":
        return np.asarray(starts)
    worst, largest_us = _largest(starts)
    if largest_us >= _LATEST_US:
        raise DamagedDocumentError(f"{named(name_of(worst))} has a ts beyond any clock")
    if largest_us >= EXACT_US:
        raise InexactTimesError
    return _nanoseconds(starts)


def durations_ns(durations: "array[Any]", name_of: NameOf) -> Integers:
    """What `durations_of` gave; some may be negative: profilers have written such. The memory becomes the result's.

    Raises:
        DamagedDocumentError: an event lasts longer than any recording.
    """
    worst, longest_us = _largest(durations)
    if longest_us >= EXACT_US:
        raise DamagedDocumentError(f"{named(name_of(worst))} has the dur {durations[worst]:g} us, beyond belief")
    return _nanoseconds(durations)


def _largest(values: "array[Any]") -> tuple[int, float]:
    """The position and the size of what is farthest from 0."""
    floats = np.asarray(values)
    if not len(floats):
        return 0, 0.0
    worst = max(int(floats.argmax()), int(floats.argmin()), key=lambda position: abs(values[position]))
    return worst, abs(values[worst])


def _nanoseconds(values: "array[Any]") -> Integers:
    """Whole and fraction apart, since their product with 1000 would need more digits than a float has."""
    microseconds = np.asarray(values)
    nanoseconds = microseconds.view(np.int64)
    for begin in range(0, len(values), _AT_ONCE):
        piece = slice(begin, begin + _AT_ONCE)
        whole_us = np.floor(microseconds[piece])
        fraction_ns = np.rint((microseconds[piece] - whole_us) * _NS_PER_US)
        nanoseconds[piece] = whole_us.astype(np.int64) * _NS_PER_US + fraction_ns.astype(np.int64)
    return nanoseconds
