"""What Perfetto asks of a trace in JSON: nothing of one that meets it is left out or fails to open.

Its importer states it, in perfetto/src/trace_processor/importers/json: json_trace_tokenizer.cc for
the file, `ts` and `dur`, json_trace_parser_impl.cc for each kind of event. The importer itself is a
program that PyPI does not have.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

Event = Mapping[str, Any]

_KINDS: Final = frozenset("BEbenXCRIistfM")
_FLOWS: Final = frozenset("stf")
_SCOPES: Final = ("g", "p", "t")
_NS_PER_US: Final = 1000
_MOST: Final = 2**32


def complaints(path: Path) -> list[str]:
    """What Perfetto would not open, skip or put in another place; empty for a trace that it shows
    whole.
    """
    document = json.loads(gzip.decompress(path.read_bytes()).decode("utf-8"))
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        return ["traceEvents is no list"]
    return [f"{complaint}: {event}" for event in events for complaint in _complaints_about(event)]


def partial_overlaps(path: Path, kind: str) -> list[str]:
    """Slices of a kind that outlive the one of their thread in which they began; Perfetto leaves
    such slices out.
    """
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["cat"] == kind:
            begin_ns, length_ns = (round(event[key] * _NS_PER_US) for key in ("ts", "dur"))
            threads[event["pid"], event["tid"]].append((begin_ns, -length_ns, event["name"]))
    return [name for slices in threads.values() for name in _outliving(sorted(slices))]


def _complaints_about(event: Any) -> Iterator[str]:
    if not isinstance(event, dict):
        yield "no object"
        return
    kind = event.get("ph")
    if kind not in _KINDS:
        yield "unknown ph"
    if kind != "M" and not _is_number(event.get("ts")):
        yield "ts is no number"
    if kind == "X" and not _is_number(event.get("dur")):
        yield "dur is no number"
    if any(isinstance(value, list) for value in event.values()):
        yield "a list beside the arguments"
    if not isinstance(event.get("name", ""), str):
        yield "name is no text"
    if kind == "C" and not isinstance(event.get("args"), dict):
        yield "a counter without arguments"
    yield from (
        f"{key} is neither a number nor a name"
        for key in ("pid", "tid")
        if not _is_place(event.get(key))
    )
    if kind in _FLOWS and not _is_flow(event.get("id")):
        yield "a flow without id"
    if kind in ("i", "I", "R") and event.get("s", "t") not in _SCOPES:
        yield "unknown scope"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_place(value: object) -> bool:
    """A process or thread; a larger number than fits is taken for 0, and so for another's."""
    return isinstance(value, str) or (isinstance(value, int) and 0 <= value < _MOST)


def _is_flow(value: object) -> bool:
    """A number, or a text in hexadecimal digits."""
    return _is_number(value) or (
        isinstance(value, str) and all(digit in "0123456789abcdefABCDEFx" for digit in value)
    )


def _outliving(slices: list[tuple[int, int, str]]) -> Iterator[str]:
    """Names of those that end after the one around them; they come in the order of their begin, the
    longest first.
    """
    ends_ns: list[int] = []
    for begin_ns, negative_length_ns, name in slices:
        while ends_ns and ends_ns[-1] <= begin_ns:
            ends_ns.pop()
        end_ns = begin_ns - negative_length_ns
        if ends_ns and ends_ns[-1] < end_ns:
            yield name
        else:
            ends_ns.append(end_ns)
