"""Large traces for benchmarks: a small one repeated in time until it has the size that is asked
for.

Every repetition gets times, correlation ids and external ids of its own, and its steps go on
counting.
"""

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from gpu_report.traces.document import blocks_of

_NS_PER_US: Final = 1000
_PAUSE_NS: Final = 10_000
_IDS: Final = ("correlation", "External id")
_STEP: Final = re.compile(r"ProfilerStep#(\d+)")
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def write_large_trace(source: Path, target: Path, *, size_bytes: int) -> None:
    """Repeat the trace in `source` in the way PyTorch lays its files out, until `target` has about
    that many bytes.
    """
    document = json.loads(b"".join(blocks_of(source)), parse_float=Decimal)
    events = document.pop("traceEvents")
    repeated = [event for event in events if "ts" in event]
    period_ns = _end_ns(repeated) - min(_ns(event["ts"]) for event in repeated) + _PAUSE_NS
    ids = 1 + max(
        (event["args"][key] for event in repeated for key in _IDS if _has_id(event, key)), default=0
    )
    steps = sum(bool(_STEP.fullmatch(event.get("name", ""))) for event in repeated)
    templates = [_Template(event) for event in repeated]
    with target.open("wb") as file:
        head = _json(document).rstrip(b"}")
        file.write(head + b',\n  "traceEvents": [\n')
        separator = b""
        for number in _until(file, size_bytes):
            texts = (
                each.text(number * period_ns, number * ids, number * steps) for each in templates
            )
            file.write(separator + b",\n".join(texts))
            separator = b",\n"
        file.write(b"\n  ]\n}\n")


def _until(file: Any, size_bytes: int) -> Iterator[int]:
    number = 0
    while file.tell() < size_bytes:
        yield number
        number += 1


class _Template:
    """One event as text, with gaps for what changes from repetition to repetition."""

    def __init__(self, event: Mapping[str, Any]) -> None:
        self._ts_ns = _ns(event["ts"])
        self._step = _STEP.fullmatch(event.get("name", ""))
        self._ids = {key: event["args"][key] for key in _IDS if _has_id(event, key)}
        rest = {key: value for key, value in event.items() if key not in {"ts", "args"}}
        arguments = {
            key: value for key, value in event.get("args", {}).items() if key not in self._ids
        }
        self._head = _json(rest)[:-1]
        self._arguments = _json(arguments)[1:-1]
        self._has_arguments = "args" in event

    def text(self, shift_ns: int, shift_ids: int, shift_step: int) -> bytes:
        whole, fraction = divmod(self._ts_ns + shift_ns, _NS_PER_US)
        head = self._head
        if self._step:
            head = head.replace(
                self._step[0].encode(), b"ProfilerStep#%d" % (int(self._step[1]) + shift_step)
            )
        text = b'  %s,"ts":%d.%03d' % (head, whole, fraction)
        if not self._has_arguments:
            return text + b"\n  }"
        ids = b",".join(
            b'"%s":%d' % (key.encode(), value + shift_ids) for key, value in self._ids.items()
        )
        inside = b",".join(part for part in (ids, self._arguments) if part)
        return text + b',\n    "args": {' + inside + b"}\n  }"


def _json(value: Any) -> bytes:
    return _ENCODER.encode(value)


def _ns(microseconds: Decimal | int) -> int:
    return int(microseconds * _NS_PER_US)


def _end_ns(events: list[Mapping[str, Any]]) -> int:
    return max(_ns(event["ts"]) + _ns(event.get("dur", 0)) for event in events)


def _has_id(event: Mapping[str, Any], key: str) -> bool:
    value = event.get("args", {}).get(key)
    return isinstance(value, int) and value > 0
