"""One event of a trace as the file has it, and what is said of a trace that has another."""

import re
from reprlib import Repr
from typing import Final

import msgspec

_NO_ARGUMENTS: Final = msgspec.Raw(b"{}")
_NO_TIME: Final = msgspec.Raw(b"null")


class RawEvent(msgspec.Struct, gc=False):
    """One event as the file has it; `args` stays text, since most events are not asked for it.

    `ts` and `dur` are in microseconds.
    """

    ph: str = ""
    cat: str | None = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float | None = None
    dur: float | None = None
    args: msgspec.Raw = _NO_ARGUMENTS


class ExactEvent(RawEvent, gc=False):
    """The same with its time as text: microseconds since 1970 with three decimals do not fit a 64-bit float."""

    ts: msgspec.Raw = _NO_TIME  # type: ignore[assignment]


_SHORT: Final = Repr()
_SHORT.maxstring = 100


def named(event: RawEvent) -> str:
    """The event's name as an error gives it, without its middle where it is long."""
    return f"the event {_SHORT.repr(event.name)}"


class DamagedDocumentError(Exception):
    """What a trace's text lacks; caught where the file's name is known."""


def describe(error: msgspec.ValidationError, decoded: int) -> str:
    """Which event is not as declared, counted from 1, and how."""
    index, what = fault_of(error)
    return what if index is None else f"event {decoded + index + 1}{what}"


def fault_of(error: msgspec.ValidationError) -> tuple[int | None, str]:
    """The position in the list of what is not as declared, None where the list itself is not, and how."""
    what, _, where = str(error).partition(" - at ")
    place = re.search(r"\[(\d+)\](?:\.(\w+))?", where)
    if place is None:
        return None, f"{where.strip('`$.')}: {what}"
    return int(place[1]), f", {place[2]}: {what}" if place[2] else f": {what}"
