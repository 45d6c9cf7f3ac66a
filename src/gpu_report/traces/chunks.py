"""The events of a trace document, decoded some thousand at a time, and what the document says besides.

blocks of bytes -> cut between two events -> typed events; the text around the list of events -> metadata

Where a block is cut, whole events remain behind the cut, which lead the next block. A cut between two events is found by
looking for `}, {` from the end and proved by decoding: a `}, {` inside a string or an argument leaves no whole JSON.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

_BEGIN: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN_EVENTS: Final = re.compile(rb"\}\s*,\s*(?=\{)")
_NEAR_THE_END: Final = 1 << 14
_CUTS_TRIED: Final = 8
_NO_ARGUMENTS: Final = msgspec.Raw(b"{}")
_NO_TIME: Final = msgspec.Raw(b"null")


class RawEvent(msgspec.Struct, gc=False):
    """One event as the file has it; `ts` and `args` stay text, since most events are asked for neither.

    `ts` and `dur` are in microseconds.
    """

    ph: str = ""
    cat: str | None = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: msgspec.Raw = _NO_TIME
    dur: float | None = None
    args: msgspec.Raw = _NO_ARGUMENTS


class DamagedDocumentError(Exception):
    """What a trace's text lacks; caught where the file's name is known."""


@dataclass(kw_only=True)
class Document:
    """What a trace says besides its events; filled while `events_of` is read, complete at its end."""

    metadata: dict[str, Any] = field(default_factory=dict)
    mended: bool = False


class _Whole(msgspec.Struct):
    traceEvents: list[RawEvent]  # noqa: N815 -- the file's own word


_EVENTS: Final = msgspec.json.Decoder(list[RawEvent])
_WHOLE: Final = msgspec.json.Decoder(_Whole)


def events_of(blocks: Iterable[bytes], document: Document) -> Iterator[list[RawEvent]]:
    """The events in the order of the file.

    Raises:
        DamagedDocumentError: the text is no JSON object with a list `traceEvents`, or an event is not as declared.
    """
    source = iter(blocks)
    rest = _after_head(source, document)
    decoded = 0
    attempt_at = 0
    for block in source:
        rest += block
        if len(rest) < attempt_at:
            continue
        chunk = _decode_up_to_a_cut(rest, document, decoded)
        if chunk is None:
            attempt_at = 2 * len(rest)
            continue
        events, end = chunk
        rest = rest[end:]
        decoded += len(events)
        attempt_at = 0
        yield events
    yield _decode_tail(rest, document, decoded)


def _after_head(source: Iterator[bytes], document: Document) -> bytes:
    """Read on until the list of events begins, and return what was read of it."""
    text = b""
    for block in source:
        text += block
        for match in _BEGIN.finditer(text):
            head = _object(text[: match.end()] + b"]}")
            if head is not None:
                document.metadata.update(head)
                return text[match.end() :]
    whole = _decode_anything(text)
    found = "a list" if isinstance(whole, list) else "no list traceEvents"
    raise DamagedDocumentError(f"it holds {found}, so it is no profiler trace" if whole is not None else "it is empty")


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _decode_anything(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedDocumentError(f"it is not whole JSON ({error})") from error


def _decode_up_to_a_cut(text: bytes, document: Document, decoded: int) -> tuple[list[RawEvent], int] | None:
    """The events before a cut and where the next event begins; None where no cut was found."""
    cuts = _last_cuts(text)
    for position, end in cuts:
        events = _decode_events(text[:position], decoded)
        if events is not None:
            return events, end
    for position, end in cuts[:1]:
        events = _decode_events(mended(text[:position]), decoded)
        if events is not None:
            document.mended = True
            return events, end
    return None


def _last_cuts(text: bytes) -> list[tuple[int, int]]:
    """Behind an event's `}` and before the next one's `{`, the last first."""
    for begin in (max(0, len(text) - _NEAR_THE_END), 0):
        cuts = [(match.start() + 1, match.end()) for match in _BETWEEN_EVENTS.finditer(text, begin)]
        if cuts:
            return cuts[: -_CUTS_TRIED - 1 : -1]
    return []


def _decode_events(text: bytes, decoded: int) -> list[RawEvent] | None:
    try:
        return _EVENTS.decode(b"[" + text + b"]")
    except msgspec.ValidationError as error:
        raise DamagedDocumentError(describe(error, decoded)) from error
    except (msgspec.DecodeError, RecursionError):
        return None


def _decode_tail(rest: bytes, document: Document, decoded: int) -> list[RawEvent]:
    """The last events and, in the same text, what follows their list."""
    text = b'{"traceEvents":[' + rest
    try:
        return _decode_whole(text, document)
    except msgspec.ValidationError as error:
        raise DamagedDocumentError(describe(error, decoded)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        first = error
    try:
        events = _decode_whole(mended(text), document)
    except (msgspec.DecodeError, RecursionError):
        raise DamagedDocumentError(f"it is not whole JSON ({first})") from first
    document.mended = True
    return events


def _decode_whole(text: bytes, document: Document) -> list[RawEvent]:
    events = _WHOLE.decode(text).traceEvents
    document.metadata.update(msgspec.json.decode(text))
    del document.metadata["traceEvents"]
    return events


_NOT_A_NUMBER: Final = re.compile(rb"(:\s*|\[\s*|,\s*)-?(?:nan|NaN|inf|Infinity)(?=\s*[,}\]])")
_BAD_ESCAPE: Final = re.compile(rb'(\\\\|\\["/bfnrtu])|\\')
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")


def mended(text: bytes) -> bytes:
    """Faults that profilers have written, put right: numbers that are none, lone backslashes, bytes that are no UTF-8.

    A number that is none becomes null.
    """
    text = text.decode("utf-8", "replace").encode()
    text = _NOT_A_NUMBER.sub(rb"\1null", text)
    text = _BAD_ESCAPE.sub(lambda match: match[1] or rb"\\", text)
    return _CONTROL.sub(b" ", text)


def describe(error: msgspec.ValidationError, decoded: int) -> str:
    """Which event is not as declared, counted from 1, and how."""
    what, _, where = str(error).partition(" - at ")
    place = re.search(r"\[(\d+)\](?:\.(\w+))?", where)
    if place is None:
        return f"{where.strip('`$.')}: {what}"
    key = f", {place[2]}" if place[2] else ""
    return f"event {decoded + int(place[1]) + 1}{key}: {what}"
