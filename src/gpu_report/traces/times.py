"""Times of events as whole nanoseconds, exact although the file gives microseconds with three decimals."""

from collections.abc import Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from gpu_report.traces.chunks import DamagedDocumentError, RawEvent, named

_LATEST_US: Final = 4e15
"""Some 127 years before or after 1970; the difference of two such times fits 64 bits of nanoseconds."""

_LONGEST_US: Final = 1e13
"""Some 116 days."""

_EXACT_DIGITS: Final = 10
_LEAD_US: Final = 10**_EXACT_DIGITS
_NS_PER_US: Final = 1000
_TS: Final = attrgetter("ts")
_DUR: Final = attrgetter("dur")
_FLOATS: Final = msgspec.json.Decoder(list[float])
_FLOAT: Final = msgspec.json.Decoder(float)

Integers = npt.NDArray[np.int64]


def starts_ns(events: Sequence[RawEvent]) -> Integers:
    """Exact to the nanosecond, though microseconds since 1970 with three decimals do not fit a 64-bit float.

    All but the last ten digits before the decimal point are taken off where all events share them; what is left fits.

    Raises:
        DamagedDocumentError: an event has no time, or one beyond any clock.
    """
    text = b"," + b",".join(map(_TS, events))
    head = bytes(events[0].ts).partition(b".")[0][:-_EXACT_DIGITS]
    if head.isdigit() and text.count(b"," + head) == len(events):
        rest_us = _floats(text.replace(b"," + head, b",1"), events) - _LEAD_US
        lead_us = int(head) * _LEAD_US
        if ((rest_us >= 0) & (rest_us < _LEAD_US)).all() and lead_us < _LATEST_US:
            return _nanoseconds(rest_us) + lead_us * _NS_PER_US
    starts_us = _floats(text, events)
    if not (np.abs(starts_us) < _LATEST_US).all():
        raise DamagedDocumentError("an event has a ts beyond any clock")
    if (np.abs(starts_us) < _LEAD_US).all():
        return _nanoseconds(starts_us)
    return np.array([round(Decimal(bytes(event.ts).decode()) * _NS_PER_US) for event in events], dtype=np.int64)


def _floats(text: bytes, events: Sequence[RawEvent]) -> npt.NDArray[np.float64]:
    """The numbers of a text such as `,1.5,2`, which are the events' times."""
    try:
        return np.array(_FLOATS.decode(b"[" + text[1:] + b"]"))
    except msgspec.DecodeError as error:
        raise _first_without_time(events) from error


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> Integers:
    return np.rint(microseconds * _NS_PER_US).astype(np.int64)


def durations_ns(events: Sequence[RawEvent]) -> Integers:
    """As the file has them, so some may be negative: profilers have written such."""
    durations_us = list(map(_DUR, events))
    if None in durations_us:
        event = events[durations_us.index(None)]
        raise DamagedDocumentError(f"{named(event)} has no dur, which every span has")
    durations = np.array(durations_us, dtype=np.float64)
    worst = int(np.abs(durations).argmax())
    if not abs(durations[worst]) < _LONGEST_US:
        raise DamagedDocumentError(f"{named(events[worst])} has the dur {durations[worst]:g} us, beyond belief")
    return _nanoseconds(durations)


def _first_without_time(events: Sequence[RawEvent]) -> DamagedDocumentError:
    for event in events:
        try:
            _FLOAT.decode(bytes(event.ts))
        except msgspec.DecodeError:
            text = bytes(event.ts).decode("utf-8", "replace")
            return DamagedDocumentError(f"{named(event)} has ts {text:.40}, not a number of microseconds")
    raise AssertionError("all events have a time")
