"""Reading a trace file of torch.profiler, plain or gzipped, with one line of error where it is not a whole trace."""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NoReturn

from gpu_report.traces.trace import Event, Step, Trace, TraceError

_GZIP_START: Final = b"\x1f\x8b"
_STEP: Final = re.compile(r"ProfilerStep#(\d+)")
_RUNTIME: Final = re.compile(r"(?P<backend>\w+)_(?:runtime|driver)")
_LOADER: Final = re.compile(r"enumerate\(DataLoader\)#")
_WORK_KINDS: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_MARK_KINDS: Final = frozenset({"user_annotation"})
_KEPT_KINDS: Final = _WORK_KINDS | _MARK_KINDS | {"cpu_op"}
_UNNAMED_DEVICE: Final = "accelerator"
_LATEST_US: Final = 10**17


def read_trace(path: Path) -> Trace:
    """Read a `.pt.trace.json` or `.pt.trace.json.gz` as torch.profiler exports it.

    The loader's own mark, `enumerate(DataLoader)#...`, is taken for an operation: waiting for data is work of the loop.

    Raises:
        TraceError: the file is missing, cut short, no trace, or holds no complete profiled step.
    """
    mend = "record it again"
    document = _load_json(path, mend)
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        raise TraceError(f"trace {path} has no list traceEvents, so it is no profiler trace; {mend}")
    try:
        events = list(_spans(document["traceEvents"]))
    except _DamagedEventError as error:
        raise TraceError(f"trace {path}: {error}; {mend}") from error
    steps = tuple(sorted(_steps(events), key=lambda step: step.start_ns))
    if not steps:
        raise TraceError(f"trace {path} holds no ProfilerStep, so no step was profiled; {mend}")
    return Trace(
        name=path.name,
        rank=_rank(document),
        run_id=run_id if isinstance(run_id := document.get("gpu_report_run"), str) else None,
        device=_device(events),
        steps=steps,
        calls=tuple(event for event in events if _is_call(event)),
        marks=tuple(event for event in events if event.kind in _MARK_KINDS and not _STEP.fullmatch(event.name)),
        work=tuple(event for event in events if event.kind in _WORK_KINDS),
    )


class _DamagedEventError(Exception):
    """An event lacks what every event has; caught where the file's name is known."""


def _load_json(path: Path, mend: str) -> Any:
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP_START):
            content = gzip.decompress(content)
        elif path.suffix == ".gz":
            raise TraceError(f"trace {path} is not gzipped although its name says so; {mend}")
        # Numbers keep their digits: microseconds since 1970 with three decimals do not fit a 64-bit float.
        return json.loads(content, parse_float=Decimal, parse_constant=_refuse_constant)
    except EOFError as error:
        raise TraceError(f"trace {path} ends in the middle; {mend}") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"trace {path} is damaged ({error}); {mend}") from error
    except OSError as error:
        raise TraceError(f"cannot read trace {path}: {error.strerror}; {mend}") from error
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise TraceError(f"trace {path} is not whole JSON ({error}); {mend}") from error


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _spans(raw_events: Iterable[Any]) -> Iterator[Event]:
    """The events that are kept, in the order of the file, with times from the earliest on."""
    kept = [raw for raw in raw_events if isinstance(raw, dict) and raw.get("ph") == "X" and _is_kept(raw.get("cat"))]
    starts = [_nanoseconds(raw, "ts") for raw in kept]
    origin = min(starts, default=0)
    for raw, start in zip(kept, starts, strict=True):
        arguments = raw.get("args") or {}
        if not isinstance(arguments, dict):
            raise _DamagedEventError(f"the event {raw.get('name')!r} has args that are no mapping")
        yield Event(
            name=str(raw.get("name", "")),
            kind=raw["cat"],
            thread=f"{raw.get('pid')}/{raw.get('tid')}",
            start_ns=start - origin,
            duration_ns=_duration(raw),
            correlation=_identity(arguments, "correlation"),
            external_id=_identity(arguments, "External id"),
        )


def _is_kept(kind: Any) -> bool:
    return isinstance(kind, str) and (kind in _KEPT_KINDS or _RUNTIME.fullmatch(kind) is not None)


def _is_call(event: Event) -> bool:
    if event.kind in _MARK_KINDS:
        return bool(_LOADER.match(event.name))
    return event.kind not in _WORK_KINDS and not _STEP.fullmatch(event.name)


def _nanoseconds(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _DamagedEventError(f"the event {raw.get('name')!r} has {key} {value!r}, not a number of microseconds")
    microseconds = Decimal(value)
    if not -_LATEST_US < microseconds < _LATEST_US:
        raise _DamagedEventError(f"the event {raw.get('name')!r} has a {key} beyond any clock")
    return round(microseconds * 1000)


def _duration(raw: Mapping[str, Any]) -> int:
    duration = _nanoseconds(raw, "dur")
    if duration < 0:
        raise _DamagedEventError(f"the event {raw.get('name')!r} has the negative duration {raw['dur']} us")
    return duration


def _identity(arguments: Mapping[str, Any], key: str) -> int | None:
    value = arguments.get(key)
    return value if isinstance(value, int) and value > 0 else None


def _steps(events: Iterable[Event]) -> Iterator[Step]:
    for event in events:
        match = _STEP.fullmatch(event.name)
        if match and event.duration_ns > 0:
            yield Step(number=int(match[1]), start_ns=event.start_ns, end_ns=event.end_ns)


def _rank(document: Mapping[str, Any]) -> int | None:
    info = document.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else document.get("rank")
    return rank if isinstance(rank, int) else None


def _device(events: Iterable[Event]) -> str | None:
    backends: set[str] = set()
    saw_work = False
    for event in events:
        saw_work = saw_work or event.kind in _WORK_KINDS
        match = _RUNTIME.fullmatch(event.kind)
        if match:
            backends.add(match["backend"])
    if not saw_work:
        return None
    return min(backends, default=_UNNAMED_DEVICE)
