"""Times of events as whole nanoseconds, exact although the file gives microseconds with three decimals."""

from collections.abc import Sequence
from decimal import Decimal
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
_NS_PER_US: Final = 1000
_FLOATS: Final = msgspec.json.Decoder(list[float])
_FLOAT: Final = msgspec.json.Decoder(float)

Integers = npt.NDArray[np.int64]


def starts_ns(events: Sequence[RawEvent]) -> Integers:
    """Exact to the nanosecond, though microseconds since 1970 with three decimals do not fit a 64-bit float.

    All but the last ten digits before the decimal point are taken off where all events share them; what is left fits.
    """
    try:
        starts_us = np.array(_FLOATS.decode(b"[" + b",".join([event.ts for event in events]) + b"]"))
    except msgspec.DecodeError as error:
        raise _first_without_time(events) from error
    if not (np.abs(starts_us) < _LATEST_US).all():
        raise DamagedDocumentError("an event has a ts beyond any clock")
    digits = len(bytes(events[0].ts).partition(b".")[0]) - _EXACT_DIGITS
    if digits <= 0 and (np.abs(starts_us) < 10**_EXACT_DIGITS).all():
        return _nanoseconds(starts_us)
    shared = _without_shared_digits(events, bytes(events[0].ts)[: max(digits, 0)])
    if shared is not None and (np.abs(shared[0] + shared[1] - starts_us) < 1).all():
        return _nanoseconds(shared[0]) + shared[1] * _NS_PER_US
    return np.array([round(Decimal(bytes(event.ts).decode()) * _NS_PER_US) for event in events], dtype=np.int64)


def _without_shared_digits(events: Sequence[RawEvent], head: bytes) -> tuple[npt.NDArray[np.float64], int] | None:
    """Starts without their first digits, and what these stand for; None where some event begins with others."""
    text = b"," + b",".join([event.ts for event in events])
    if not head.isdigit() or text.count(b"," + head) != len(events):
        return None
    lead = 10**_EXACT_DIGITS
    rest = _FLOATS.decode(b"[" + text.replace(b"," + head, b",1")[1:] + b"]")
    return np.array(rest) - lead, int(head) * lead


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> Integers:
    return np.rint(microseconds * _NS_PER_US).astype(np.int64)


def durations_ns(events: Sequence[RawEvent]) -> Integers:
    """As the file has them, so some may be negative: profilers have written such."""
    durations_us = [event.dur for event in events]
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
