"""Events come whole out of blocks cut anywhere, with what the document says besides; what is no trace is refused."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.chunks import Document, events_of, repaired
from gpu_report.traces.events import DamagedDocumentError, RawEvent

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2.0, "args": {}}

TRICKY_NAMES = st.text(st.sampled_from('}, {"[]:\\ae\n\u00e9'), max_size=12)
ARGUMENTS = st.recursive(
    st.none() | st.integers(-9, 9) | TRICKY_NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TRICKY_NAMES, inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.lists(
    st.fixed_dictionaries({"ph": st.just("X"), "name": TRICKY_NAMES, "args": st.dictionaries(TRICKY_NAMES, ARGUMENTS)}),
    max_size=12,
)
METADATA = st.dictionaries(st.sampled_from(["rank", "traceName", "deviceProperties"]), ARGUMENTS, max_size=3)


class WholeEvent(RawEvent):
    """An event with all its arguments."""

    args: Any = None


def blocks(text: bytes, size: int) -> Iterator[bytes]:
    return (text[begin : begin + size] for begin in range(0, len(text), size))


def read(text: bytes, *, size: int = 1 << 18, most_uncut: int = 1 << 20) -> tuple[list[Any], Document]:
    """All events as plain values, and the document."""
    document = Document()
    chunks = events_of(blocks(text, size), document, event_type=WholeEvent, most_uncut=most_uncut)
    events = [event for chunk in chunks for event in chunk]
    plain = [{"ph": event.ph, "name": event.name, "args": event.args, "ts": event.ts} for event in events]
    return plain, document


def text_of(events: list[Any], **metadata: Any) -> bytes:
    return json.dumps({**metadata, "traceEvents": events}).encode()


@given(EVENTS, METADATA, METADATA, st.integers(1, 80), st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}]))
def test_events_and_metadata_do_not_depend_on_where_the_text_is_cut(
    events: list[Any], before: dict[str, Any], after: dict[str, Any], size: int, form: dict[str, Any]
) -> None:
    document = {**before, "traceEvents": events, **after}
    text = json.dumps(document, **form).encode()

    found, said = read(text, size=size)

    assert [{key: event[key] for key in ("ph", "name", "args")} for event in found] == events
    assert said.metadata == {key: value for key, value in document.items() if key != "traceEvents"}
    assert not said.repaired


@given(EVENTS, st.integers(1, 80))
def test_a_bare_list_of_events_is_read_alike(events: list[Any], size: int) -> None:
    found, said = read(b" \n" + json.dumps(events).encode(), size=size)

    assert [event["name"] for event in found] == [event["name"] for event in events]
    assert (said.is_list, said.metadata) == (True, {})


@given(st.integers(0, 400), st.integers(1, 80))
def test_a_text_cut_before_its_end_is_refused(length: int, size: int) -> None:
    text = text_of([EVENT] * 5, rank=3)

    with pytest.raises(DamagedDocumentError):
        read(text[: min(length, len(text) - 1)], size=size)


def test_windows_line_ends_and_a_byte_order_mark_are_no_fault() -> None:
    text = json.dumps({"rank": 3, "traceEvents": [EVENT] * 3}, indent=1).replace("\n", "\r\n").encode()

    events, document = read(b"\xef\xbb\xbf" + text, size=100)

    assert (len(events), document.metadata, document.repaired) == (3, {"rank": 3}, False)


def test_events_that_a_string_or_a_mapping_of_the_metadata_speaks_of_are_none() -> None:
    odd = {"note": '"traceEvents": [', 'x"traceEvents': [], "inner": {"traceEvents": [{"name": "no event"}]}}

    events, document = read(text_of([EVENT], **odd), size=7)

    assert ([event["name"] for event in events], document.metadata) == (["aten::add"], odd)


def test_many_objects_within_an_event_do_not_hide_where_the_next_begins() -> None:
    crowded = {**EVENT, "args": {"list": [{"a": number} for number in range(50)]}}
    text = text_of([crowded] * 40)

    chunks = list(events_of(blocks(text, 2000), Document()))

    assert sum(map(len, chunks)) == 40
    assert max(map(len, chunks)) < 10


@pytest.mark.parametrize(
    ("fault", "sound"),
    [
        ('"occupancy": nan', {"occupancy": None}),
        ('"occupancy": -Infinity, "b": [inf,NaN]', {"occupancy": None, "b": [None, None]}),
        ('"path": "C:\\Users\\\\me"', {"path": "C:\\Users\\me"}),
        ('"text": "tab\there"', {"text": "tab here"}),
    ],
)
@pytest.mark.parametrize("size", [150, 1 << 18])
def test_faults_that_profilers_wrote_are_mended_and_told(fault: str, sound: dict[str, Any], size: int) -> None:
    faulty = json.dumps(EVENT).replace('"args": {}', f'"args": {{{fault}}}')
    text = f'{{"traceEvents": [{json.dumps(EVENT)}, {faulty}, {json.dumps(EVENT)}]}}'.encode()

    events, document = read(text, size=size)

    assert [event["args"] for event in events] == [{}, sound, {}]
    assert document.repaired


def test_a_byte_in_a_name_that_is_no_text_is_replaced() -> None:
    text = text_of([EVENT, {**EVENT, "name": "?"}, EVENT]).replace(b'"?"', b'"\xff"')

    for size in (150, 1 << 18):
        events, document = read(text, size=size)

        assert [event["name"] for event in events] == ["aten::add", "\ufffd", "aten::add"]
        assert document.repaired


def test_a_fault_in_the_metadata_before_the_events_is_mended() -> None:
    events, document = read(b'{"clock": nan, "traceEvents": [{"ph": "X"}]}')

    assert (len(events), document.metadata, document.repaired) == (1, {"clock": None}, True)


@given(ARGUMENTS)
def test_sound_json_means_the_same_when_mended(value: Any) -> None:
    text = json.dumps({"value": value})

    assert json.loads(repaired(text.encode())) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"", "not whole JSON"),
        (b"null", "no list traceEvents"),
        (b'{"traceEvents": {}}', "no list traceEvents"),
        (b'{"rank": 1}', "no list traceEvents"),
        (b'{"traceEvents": [{}], "traceEvents": [{}]}', "two lists traceEvents"),
        (b'{"traceEvents": [{}]', "not whole JSON"),
        (b'{"traceEvents": [{}]} and more', "not whole JSON"),
        (b'{"traceEvents": [{}, 5]}', "event 2: Expected `object`, got `int`"),
        (b'{"traceEvents": [{}, {"dur": "long"}]}', "event 2, dur: Expected `float | null`, got `str`"),
        (b"[{}", "not whole JSON"),
        (b"[{}] []", "not whole JSON"),
    ],
)
@pytest.mark.parametrize("size", [5, 1 << 18])
def test_what_is_no_whole_trace_is_refused(text: bytes, named: str, size: int) -> None:
    with pytest.raises(DamagedDocumentError, match=r"^[^\n]*$") as raised:
        read(text, size=size)

    assert named in str(raised.value)


@pytest.mark.parametrize("index", [0, 7, 39])
def test_a_fault_is_counted_from_the_begin_of_the_file(index: int) -> None:
    events = [EVENT] * index + [{**EVENT, "name": 7}] + [EVENT] * (39 - index)

    with pytest.raises(DamagedDocumentError, match=f"event {index + 1}, name: Expected `str`, got `int`"):
        read(text_of(events), size=300)


@pytest.mark.parametrize(
    "content",
    [
        b'{"traceEvents": [{"name": "' + b"x" * (3 << 20),
        b'{"name": "' + b"x" * (3 << 20),
        b'{"traceEvents": [' + b" " * (3 << 20),
        b'{"traceEvents": [{"name": "' + b"\\" * (3 << 20),
        b'{"traceEvents": [{"args": [' + b'{"a": {}}, ' * (3 << 17),
        b'{"a":' + b'"traceEvents":[' * (3 << 17),
        b'{"traceEvents": [' + b'{"args":' * (3 << 17),
    ],
    ids=["long name", "long metadata", "spaces", "backslashes", "long list", "many begins", "deep"],
)
def test_a_megabyte_without_a_whole_event_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedDocumentError, match=r"it has 1 MiB of text without whole (events|metadata)"):
        read(content)
