"""A file's bytes come out whole, its events too wherever blocks cut them, names stay short; else it
is refused.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.errors import TraceError
from gpu_report.traces.document import (
    MOST_EXPANDED,
    DamagedDocumentError,
    RawEvent,
    blocks_of,
    events_of,
    kept_name,
)


def content_of(path: Path, block_bytes: int = 1 << 18) -> bytes:
    return b"".join(blocks_of(path, block_bytes=block_bytes))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=500).filter(lambda content: content[:2] != b"\x1f\x8b"),
    size=st.integers(1, 60),
)
def test_plain_and_gzipped_files_give_the_same_bytes_for_any_block(
    tmp_path: Path, content: bytes, size: int
) -> None:
    plain, zipped = tmp_path / "trace.json", tmp_path / "trace.json.gz"
    plain.write_bytes(content)
    zipped.write_bytes(gzip.compress(content))

    assert content_of(plain, size) == content_of(zipped, size) == content


@pytest.mark.parametrize("length", [3, 12, 30, -9, -1])
def test_a_cut_gzip_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(range(256)) * 9)[:length])

    with pytest.raises(TraceError, match=f"trace {path} (ends in the middle|is damaged)"):
        content_of(path)


def test_what_expands_beyond_belief_is_refused_before_it_is_unzipped(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)) * 80)
    sizes: list[int] = []

    with pytest.raises(
        TraceError, match=f"more than {MOST_EXPANDED} times its size, as no trace does"
    ):
        sizes.extend(map(len, blocks_of(path)))

    assert 0 < sum(sizes) <= 1 << 26


EVENT = {
    "ph": "X",
    "cat": "cpu_op",
    "name": "aten::add",
    "pid": 1,
    "tid": 2,
    "ts": 1.5,
    "dur": 2.0,
    "args": {},
}

TRICKY_NAMES = st.text(st.sampled_from('}, {"[]:\\ae\n\u00e9'), max_size=12)
ARGUMENTS = st.recursive(
    st.none() | st.integers(-9, 9) | TRICKY_NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TRICKY_NAMES, inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.just("X"), "name": TRICKY_NAMES, "args": st.dictionaries(TRICKY_NAMES, ARGUMENTS)}
    ),
    max_size=12,
)
METADATA = st.dictionaries(
    st.sampled_from(["rank", "traceName", "deviceProperties"]), ARGUMENTS, max_size=3
)


class WholeEvent(RawEvent):
    """An event with all its arguments."""

    args: Any = None


def blocks(text: bytes, size: int) -> Iterator[bytes]:
    return (text[begin : begin + size] for begin in range(0, len(text), size))


def read(text: bytes, *, size: int = 1 << 18) -> tuple[list[Any], dict[str, Any]]:
    """All events as plain values, and the metadata."""
    metadata: dict[str, Any] = {}
    chunks = events_of(blocks(text, size), metadata, event_type=WholeEvent)
    events = [event for chunk in chunks for event in chunk]
    plain = [
        {"ph": event.ph, "name": event.name, "args": event.args, "ts": event.ts} for event in events
    ]
    return plain, metadata


def text_of(events: list[Any], **metadata: Any) -> bytes:
    return json.dumps({**metadata, "traceEvents": events}).encode()


@given(
    EVENTS,
    METADATA,
    METADATA,
    st.integers(1, 80),
    st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}]),
)
def test_events_and_metadata_do_not_depend_on_where_the_text_is_cut(
    events: list[Any],
    before: dict[str, Any],
    after: dict[str, Any],
    size: int,
    form: dict[str, Any],
) -> None:
    document = {**before, "traceEvents": events, **after}
    text = json.dumps(document, **form).encode()

    found, said = read(text, size=size)

    assert [{key: event[key] for key in ("ph", "name", "args")} for event in found] == events
    assert said == {key: value for key, value in document.items() if key != "traceEvents"}


@given(st.integers(0, 400), st.integers(1, 80))
def test_a_text_cut_before_its_end_is_refused(length: int, size: int) -> None:
    text = text_of([EVENT] * 5, rank=3)

    with pytest.raises(DamagedDocumentError):
        read(text[: min(length, len(text) - 1)], size=size)


@pytest.mark.parametrize(
    "fault", [b"nan", b"-Infinity", b'"C:\\Users"', b'"tab\there"', b'"\xff"', b"{", b"]"]
)
@pytest.mark.parametrize("size", [150, 1 << 18])
def test_what_json_does_not_allow_is_refused(fault: bytes, size: int) -> None:
    faulty = json.dumps(EVENT).encode().replace(b'"args": {}', b'"args": {"odd": ' + fault + b"}")
    text = b", ".join([json.dumps(EVENT).encode(), faulty, json.dumps(EVENT).encode()])

    with pytest.raises(DamagedDocumentError, match="not whole JSON"):
        read(b'{"traceEvents": [' + text + b"]}", size=size)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"", "not whole JSON"),
        (b"null", "not a JSON object"),
        (b'{"traceEvents": {}}', "no list traceEvents"),
        (b'{"rank": 1}', "no list traceEvents"),
        (b'{"traceEvents": [{}], "traceEvents": [{}]}', "two lists traceEvents"),
        (b'{"traceEvents": [{}]', "not whole JSON"),
        (b'{"traceEvents": [{}]} and more', "not whole JSON"),
        (b'{"traceEvents": [{}, 5]}', "event 2: Expected `object`, got `int`"),
        (
            b'{"traceEvents": [{}, {"dur": "long"}]}',
            "event 2, dur: Expected `float | null`, got `str`",
        ),
        (b"[{}", "not whole JSON"),
        (b"[{}] []", "not whole JSON"),
    ],
)
@pytest.mark.parametrize("size", [5, 1 << 18])
def test_what_is_no_whole_trace_is_refused(text: bytes, named: str, size: int) -> None:
    with pytest.raises(DamagedDocumentError, match=r"^[^\n]*$") as raised:
        read(text, size=size)

    assert named in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        b'{"traceEvents": [{"name": "' + b"x" * (3 << 20),
        b'{"name": "' + b"x" * (3 << 20),
        b'{"traceEvents": [' + b" " * (3 << 20),
        b'{"traceEvents": [{"name": "' + b"\\" * (3 << 20),
        b'{"traceEvents": [{"args": [' + b'{"a": {}}, ' * (3 << 15),
        b'{"a":' + b'"traceEvents":[' * (3 << 17),
        b'{"traceEvents": [' + b'{"args":' * (3 << 17),
    ],
    ids=["long name", "long metadata", "spaces", "backslashes", "long list", "many begins", "deep"],
)
def test_megabytes_without_a_whole_event_are_refused(content: bytes) -> None:
    with pytest.raises(DamagedDocumentError, match=r"not whole JSON|nested deeper"):
        read(content)


@given(st.text(max_size=50), st.integers(1, 60))
def test_a_kept_name_is_on_one_line_and_a_short_printable_one_is_unchanged(
    name: str, most: int
) -> None:
    kept = kept_name(name, most=most)

    assert len(kept.splitlines()) <= 1
    assert kept == name or len(name) > most or not name.isprintable()
    assert kept_name(kept, most=len(kept)) == kept
