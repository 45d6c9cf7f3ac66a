"""The document of a trace file: its bytes block by block, its events some hundred at a time, and
what it says besides.

file, plain or gzipped -> blocks of bytes -> cut between two events -> typed events; the text around
them -> metadata

Where a block is cut, whole events remain behind the cut, which lead the next block. A cut between
two events is found by looking for `}, {` from the end and proved by decoding: a `}, {` inside a
string or an argument leaves no whole JSON.
"""

import gzip
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from gpu_report.errors import TraceError
from gpu_report.printing.terminal import clean, shortened
from gpu_report.traces.trace import NONE

MEMORY: Final = "[memory]"
"""The name of what the allocator writes."""

NAME_A_TRACE: Final = "name a trace that torch.profiler of PyTorch 2.0 or newer exported"

_SIGNS: Final = (
    (
        rb"PK\x03\x04|.{257}ustar",
        ("it is a zip or tar archive", "unpack it and name the trace in it"),
    ),
    (
        rb"version https://git-lfs",
        ("it is a Git LFS pointer, not the file itself", "run git lfs pull"),
    ),
    (
        rb"(?i:\s*<(!doctype|html|\?xml))",
        ("it is a web page", "download the trace itself, on GitHub by its raw link"),
    ),
    (
        rb"\xff\xfe|\xfe\xff|[\[{]\x00|\x00[\[{]",
        ("it is UTF-16 text", "save it as UTF-8"),
    ),
    (
        rb"\n.{0,64}?[\x00-\x08\x0e-\x1f]",  # JSON has no such characters
        ("it is a Perfetto trace (protobuf)", NAME_A_TRACE),
    ),
    (rb"(\xef\xbb\xbf)?\s*[^\s\[{\xef]", ("it is not a JSON object", NAME_A_TRACE)),
    (
        rb'\s*\[.*"pid"\s*:\s*"(CPU|CUDA) functions"',
        ("it is a list of operations by torch.autograd.profiler", NAME_A_TRACE),
    ),
    (
        rb'\s*\[.*"ts"\s*:\s*"[0-9]',
        ("it is a trace of another profiler, such as Ascend's: its times are text", NAME_A_TRACE),
    ),
    # Kineto wrote `Trace iteration` into the arguments of each operation from its first version to
    # October 2022 (pytorch/kineto#665), which is for PyTorch 1.8 to 1.13, and the kind `Operator`
    # up to PyTorch 1.11. PyTorch since 2.0 writes `Ev Idx` (pytorch/pytorch#87477), also where
    # another program adds events. Gaudi's plug-in still writes the old kinds `Kernel` and `Runtime`
    # and the old `Profiler Event Index`, so that those are no sign.
    (
        rb'(?!.*"Ev Idx").*("Trace iteration"\s*:|"cat"\s*:\s*"Operator")',
        (
            "PyTorch before 2.0 recorded it, and its phases would be wrong",
            "record it with PyTorch 2.0 or newer",
        ),
    ),
)
"""Of a file that is not a trace of torch.profiler in PyTorch 2.0 or newer: patterns of its first
bytes, the first of which to match counts, with what the file is and what to do.
"""

_NO_TEXT: Final = msgspec.Raw(b"")


class Arguments(msgspec.Struct, gc=False):
    """What is read of an event's arguments, whatever kind of event it is.

    Numbers are checked where they are kept: an event of a kind that nobody reads may carry anything
    by these names.
    """

    external_id: Any = msgspec.field(default=NONE, name="External id")
    correlation: Any = NONE
    sequence: Any = msgspec.field(default=NONE, name="Sequence number")
    settings: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Concrete Inputs")
    types: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input type")
    shapes: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input Dims")
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
    collective: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Collective name")
    group: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Process Group Name")
    group_ranks: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Process Group Ranks")
    group_size: Any = msgspec.field(default=NONE, name="Group size")
    dtype: msgspec.Raw = _NO_TEXT
    in_elements: Any = msgspec.field(default=NONE, name="In msg nelems")
    out_elements: Any = msgspec.field(default=NONE, name="Out msg nelems")

    def inputs(self, operation: str) -> bytes:
        """Shapes and types of the operation's inputs with a zero byte between them, and of a
        convolution its inputs that are no tensors, such as the stride.

        Of others a number may be another in each call, and each text is kept.
        """
        if operation.startswith("aten::convolution"):
            return b"\0".join((self.shapes, self.types, self.settings))
        return b"\0".join((self.shapes, self.types))


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
    """The same with its exact time: microseconds since 1970 with three decimals do not fit a 64-bit
    float.
    """

    ts: Decimal | None = None  # type: ignore[assignment]


MOST_CHARACTERS: Final = 4000
"""Longer than the names of CUTLASS's kernels, which are the longest that libraries have; patterns
match quickly.
"""


def kept_name(text: str, *, most: int = MOST_CHARACTERS) -> str:
    """The text cleaned, and without its middle where it has more than `most` characters.

    Of the middle only its length is kept. Begin and end are where C++ names differ: function and
    types, arguments.
    """
    shown = clean(text, keep="")
    if len(shown) <= most:
        return shown
    begin = int(most * 0.75)
    left_out = len(shown) - most
    return f"{shown[:begin]} ... {left_out:,} characters left out ... {shown[begin + left_out :]}"


def named(name: str) -> str:
    """The event of that name as an error gives it, without its middle where it is long."""
    return f"the event {shortened(name)}"


class DamagedDocumentError(Exception):
    """What a trace's text lacks and what to do; caught where the file's name is known."""

    def __init__(self, fault: str, remedy: str = "record it again") -> None:
        super().__init__(f"{fault}; {remedy}")


BLOCK_BYTES: Final = 1 << 18
"""Decoding so much at a time is faster than the whole file at once, and keeps little in memory."""

GZIP_START: Final = b"\x1f\x8b"
MOST_EXPANDED: Final = 250
"""A gzipped trace grows by a factor of 10 to 60; a file that grows by more than this is not a
trace.
"""


def blocks_of(path: Path, *, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The file's content, unzipped, in blocks of at most `block_bytes`.

    Raises:
        TraceError: the file cannot be read, or its gzip is cut, damaged, or expands beyond
            MOST_EXPANDED.
    """
    try:
        with path.open("rb") as file:
            is_zipped = file.read(2) == GZIP_START
        # what is small may expand by more
        read, most = 0, max(1 << 26, MOST_EXPANDED * path.stat().st_size)
        with gzip.open(path) if is_zipped else path.open("rb") as file:
            while block := file.read(block_bytes):
                read += len(block)
                if read > most:
                    raise TraceError(
                        f"trace {path} expands to more than {MOST_EXPANDED} times its size, as no "
                        "trace does; if it is one, unzip it first"
                    )
                yield block
    except EOFError as error:
        raise TraceError(f"trace {path} ends in the middle; record it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"trace {path} is damaged ({error}); record it again") from error
    except IsADirectoryError as error:
        raise TraceError(
            f"{path} is a folder; name a trace in it, such as that of rank 0"
        ) from error
    except OSError as error:
        raise TraceError(f"cannot read trace {path}: {error.strerror or error}") from error


_BEGIN: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_LAST_CUT: Final = re.compile(rb'(?s:(.*\}))\s*,\s*(?=\{\s*"ph"\s*:)')
"""Up to the last event's begin; PyTorch writes `ph` first in an event, and in no other object."""

_NOT_WHOLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def events_of(
    blocks: Iterable[bytes], metadata: dict[str, Any], *, event_type: type[RawEvent] = RawEvent
) -> Iterator[list[RawEvent]]:
    """The events in the order of the file; what it says besides them is in `metadata` at the end.

    Where no cut is found, the next attempt waits until the text has doubled, so that the time stays
    linear in it.

    Raises:
        DamagedDocumentError: the text is neither a JSON object with one list `traceEvents` nor a
            list, an event is not as declared, or the first block has a sign of another file.
    """
    decoder = msgspec.json.Decoder(list[event_type])  # type: ignore[valid-type]
    head, rest = b"", bytearray()
    decoded = attempt_at = 0
    for number, block in enumerate(blocks):
        for pattern, sign in _SIGNS if number == 0 else ():
            if re.match(pattern, block, re.DOTALL):
                raise DamagedDocumentError(*sign)
        rest += block if rest else block.removeprefix(b"\xef\xbb\xbf").lstrip()
        if len(rest) < attempt_at:
            continue
        attempt_at = 2 * len(rest)
        if not head:
            head, end = _read_head(rest, metadata)
            del rest[:end]
        events, end = _decode_up_to_a_cut(rest, decoded, decoder) if head else ([], 0)
        if events:
            del rest[:end]
            decoded += len(events)
            attempt_at = 0
            yield events
    yield _decode_tail(head + rest, metadata, decoded, decoder)


def _read_head(text: bytearray, metadata: dict[str, Any]) -> tuple[bytes, int]:
    """Take over the metadata before the events.

    Returns:
        What makes JSON of the events, and where they begin; empty where they do not begin yet.
    """
    if text.startswith(b"["):
        return b"[", 1
    for match in islice(_BEGIN.finditer(text), 16):  # more are no head
        try:
            head = msgspec.json.decode(text[: match.end()] + b"]}")
        except _NOT_WHOLE:
            continue
        if isinstance(head, dict) and head.pop("traceEvents", None) == []:
            metadata.update(head)
            return b'{"traceEvents":[', match.end()
    return b"", 0


def _decode_up_to_a_cut(text: bytearray, decoded: int, decoder: Any) -> tuple[list[RawEvent], int]:
    """The events before the last cut and where the next event begins; none where the cut is none,
    as within a string.
    """
    cut = _LAST_CUT.match(text)
    if cut is None:
        return [], 0
    try:
        return decoder.decode(b"[" + text[: cut.end(1)] + b"]"), cut.end()
    except msgspec.ValidationError as error:
        raise _invalid(error, decoded) from error
    except _NOT_WHOLE:
        return [], 0


def _decode_tail(
    text: bytes | bytearray, metadata: dict[str, Any], decoded: int, decoder: Any
) -> list[RawEvent]:
    """The last events, or all of them, and in the same text what follows their list."""
    try:
        if text.startswith(b"["):
            return list(decoder.decode(text))
        parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        events = list(decoder.decode(parts.pop("traceEvents", b"{}")))
        metadata.update({key: msgspec.json.decode(value) for key, value in parts.items()})
    except msgspec.ValidationError as error:
        raise _invalid(error, decoded) from error
    except RecursionError as error:
        raise DamagedDocumentError(
            "its lists and objects are nested deeper than those of any trace"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedDocumentError(f"it is not whole JSON ({error})") from error
    if len(_BEGIN.findall(text)) > 1:
        raise DamagedDocumentError(
            "it holds two lists traceEvents, and which of them counts is not known"
        )
    return events


def _invalid(error: msgspec.ValidationError, decoded: int) -> DamagedDocumentError:
    """Which event is not as declared, counted from 1, and how."""
    what, _, where = str(error).partition(" - at ")
    place = re.search(r"\[(\d+)\](?:\.(\w+))?", where)
    if place is None:
        return DamagedDocumentError(
            "it holds no list traceEvents, so it is no profiler trace", NAME_A_TRACE
        )
    field = f", {place[2]}" if place[2] else ""
    return DamagedDocumentError(f"event {decoded + int(place[1]) + 1}{field}: {what}")
