"""One event of a trace as the file has it, how names are kept, and how errors describe an event."""

import math
import re
from reprlib import Repr
from typing import Any, Final

import msgspec

from gpu_report.terminal import clean

NONE: Final = -1
"""Stands for a whole number that an event does not have; no event has it as its own."""

MEMORY: Final = "[memory]"
"""The name of what the allocator writes."""

_NO_TEXT: Final = msgspec.Raw(b"")
_NO_TIME: Final = msgspec.Raw(b"null")


class Arguments(msgspec.Struct, gc=False):
    """What is read of an event's arguments, whatever kind of event it is.

    Numbers are checked where they are kept: an event of a kind that nobody reads may carry anything by these names.
    """

    external_id: Any = msgspec.field(default=NONE, name="External id")
    correlation: Any = NONE
    inputs: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Concrete Inputs")
    shapes: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input Dims")
    sequence: Any = msgspec.field(default=NONE, name="Sequence number")
    size_bytes: Any = msgspec.field(default=NONE, name="bytes")
    grid: msgspec.Raw = _NO_TEXT
    block: msgspec.Raw = _NO_TEXT
    occupancy_percent: Any = msgspec.field(default=math.nan, name="est. achieved occupancy %")
    device_type: Any = msgspec.field(default=NONE, name="Device Type")
    device_id: Any = msgspec.field(default=NONE, name="Device Id")
    address: Any = msgspec.field(default=NONE, name="Addr")
    changed_bytes: Any = msgspec.field(default=NONE, name="Bytes")
    allocated_bytes: Any = msgspec.field(default=NONE, name="Total Allocated")
    reserved_bytes: Any = msgspec.field(default=NONE, name="Total Reserved")
    old_external_id: Any = msgspec.field(default=NONE, name="external id")
    old_shapes: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input dims")


OLD_ARGUMENTS: Final = {"external_id": "old_external_id", "shapes": "old_shapes"}
"""What profilers before PyTorch 1.13 called differently."""


class RawEvent(msgspec.Struct, gc=False):
    """One event as the file has it; `ts` and `dur` are in microseconds.

    `args` of another type are refused where they are read: those of most kinds of events are not.
    """

    ph: str = ""
    cat: str | None = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float | None = None
    dur: float | None = None
    args: Arguments | list[Any] | str | int | float | bool | None = None


class ExactEvent(RawEvent, gc=False):
    """The same with its time as text: microseconds since 1970 with three decimals do not fit a 64-bit float."""

    ts: msgspec.Raw = _NO_TIME  # type: ignore[assignment]


MOST_CHARACTERS: Final = 4000
"""Longer than the names of CUTLASS's kernels, which are the longest that libraries have; patterns match quickly."""

_BEGIN_SHARE: Final = 0.75


def kept_name(text: str, *, most: int = MOST_CHARACTERS) -> str:
    """The text cleaned, and without its middle where it has more than `most` characters.

    Of the middle only its length is kept. Begin and end are where C++ names differ: function and types, arguments.
    """
    short = _shortened(text, most)
    shown = clean(short, keep="")
    return shown if len(shown) == len(short) else _shortened(shown, most)  # an escaped character takes up to ten


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    begin = int(most * _BEGIN_SHARE)
    left_out = len(text) - most
    return f"{text[:begin]} ... {left_out:,} characters left out ... {text[begin + left_out :]}"


_SHORT: Final = Repr()
_SHORT.maxstring = 100


def shortened(value: Any) -> str:
    """A value of a trace as an error gives it: printable, and short however long or deep the value is."""
    return _SHORT.repr(value)


def named(name: str) -> str:
    """The event of that name as an error gives it, without its middle where it is long."""
    return f"the event {shortened(name)}"


class DamagedDocumentError(Exception):
    """What a trace's text lacks; caught where the file's name is known."""


def describe(error: msgspec.ValidationError, decoded: int) -> str:
    """Which event is not as declared, counted from 1, and how."""
    what, _, where = str(error).partition(" - at ")
    place = re.search(r"\[(\d+)\](?:\.(\w+))?", where)
    if place is None:
        return f"{where.strip('`$.')}: {what}"
    field = f", {place[2]}" if place[2] else ""
    return f"event {decoded + int(place[1]) + 1}{field}: {what}"
