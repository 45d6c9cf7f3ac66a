"""A file's bytes come out whole, its events too wherever blocks cut them, names stay short; else it
is refused.
"""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.errors import TraceError
from gpu_report.traces.analysis import analyse
from gpu_report.traces.document import (
    MOST_CHARACTERS,
    MOST_EXPANDED,
    DamagedDocumentError,
    RawEvent,
    blocks_of,
    events_of,
    kept_name,
)
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.reading import read_trace
from tests.unit.traces import by_hand
from tests.unit.traces.by_hand import kernel, launch, operation, span, step, write


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


def test_no_block_is_longer_than_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(1000)))

    assert max(map(len, blocks_of(path, block_bytes=64))) <= 64


def test_a_gzipped_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(b"{}"))

    assert content_of(path) == b"{}"


def test_a_gzip_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"first, ") + gzip.compress(b"second"))

    assert content_of(path) == b"first, second"


@pytest.mark.parametrize("length", [3, 12, 30, -9, -1])
def test_a_cut_gzip_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(range(256)) * 9)[:length])

    with pytest.raises(TraceError, match=f"trace {path} (ends in the middle|is damaged)"):
        content_of(path)


def test_a_gzip_whose_checksum_is_wrong_is_refused(tmp_path: Path) -> None:
    zipped = bytearray(gzip.compress(b"content" * 99))
    zipped[-6] ^= 1
    path = tmp_path / "trace.json.gz"
    path.write_bytes(zipped)

    with pytest.raises(TraceError, match=f"trace {path} is damaged"):
        content_of(path)


def test_what_is_named_gzipped_and_is_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(b"{}")

    with pytest.raises(TraceError, match="is not gzipped although its name says so"):
        content_of(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=f"cannot read trace {tmp_path}: Is a directory"):
        content_of(tmp_path)


def test_what_expands_beyond_belief_is_refused_before_it_is_unzipped(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)) * 80)
    sizes: list[int] = []

    with pytest.raises(
        TraceError, match=f"more than {MOST_EXPANDED} times its size, as no trace does"
    ):
        sizes.extend(map(len, blocks_of(path)))

    assert 0 < sum(sizes) <= 1 << 26


def test_a_small_file_may_expand_far(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))

    assert len(content_of(path)) == 1 << 20


def test_without_isal_the_standard_library_unzips(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    program = """if True:
        import sys
        from pathlib import Path
        sys.modules["isal"] = None
        from gpu_report.traces.document import blocks_of
        sys.stdout.buffer.write(b"".join(blocks_of(Path(sys.argv[1]))))
    """

    unzipped = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, check=True
    )

    assert unzipped.stdout == b'{"traceEvents": []}'


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


@given(EVENTS, st.integers(1, 80))
def test_a_bare_list_of_events_is_read_alike(events: list[Any], size: int) -> None:
    found, said = read(b" \n" + json.dumps(events).encode(), size=size)

    assert [event["name"] for event in found] == [event["name"] for event in events]
    assert said == {}


@given(st.integers(0, 400), st.integers(1, 80))
def test_a_text_cut_before_its_end_is_refused(length: int, size: int) -> None:
    text = text_of([EVENT] * 5, rank=3)

    with pytest.raises(DamagedDocumentError):
        read(text[: min(length, len(text) - 1)], size=size)


def test_windows_line_ends_and_a_byte_order_mark_are_no_fault() -> None:
    text = (
        json.dumps({"rank": 3, "traceEvents": [EVENT] * 3}, indent=1).replace("\n", "\r\n").encode()
    )

    events, metadata = read(b"\xef\xbb\xbf" + text, size=100)

    assert (len(events), metadata) == (3, {"rank": 3})


def test_events_that_a_string_or_a_mapping_of_the_metadata_speaks_of_are_none() -> None:
    odd = {
        "note": '"traceEvents": [',
        'x"traceEvents': [],
        "inner": {"traceEvents": [{"name": "no event"}]},
    }

    events, metadata = read(text_of([EVENT], **odd), size=7)

    assert ([event["name"] for event in events], metadata) == (["aten::add"], odd)


def test_many_objects_within_an_event_do_not_hide_where_the_next_begins() -> None:
    crowded = {**EVENT, "args": {"list": [{"a": number} for number in range(50)]}}
    text = text_of([crowded] * 40)

    chunks = list(events_of(blocks(text, 2000), {}))

    assert sum(map(len, chunks)) == 40
    assert max(map(len, chunks)) < 10


@pytest.mark.parametrize(
    "fault", [b"nan", b"-Infinity", b'"C:\\Users"', b'"tab\there"', b'"\xff"', b"{", b"]"]
)
@pytest.mark.parametrize("size", [150, 1 << 18])
def test_what_json_does_not_allow_is_refused(fault: bytes, size: int) -> None:
    faulty = json.dumps(EVENT).encode().replace(b'"args": {}', b'"args": {"odd": ' + fault + b"}")
    text = b", ".join([json.dumps(EVENT).encode(), faulty, json.dumps(EVENT).encode()])

    with pytest.raises(DamagedDocumentError, match="not whole JSON"):
        read(b'{"traceEvents": [' + text + b"]}", size=size)


def test_events_that_begin_with_another_key_are_read_all_at_once() -> None:
    turned = {key: EVENT[key] for key in reversed(EVENT)}

    events, _ = read(text_of([turned] * 40), size=100)

    assert len(events) == 40


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


@pytest.mark.parametrize("index", [0, 7, 39])
def test_a_fault_is_counted_from_the_begin_of_the_file(index: int) -> None:
    events = [EVENT] * index + [{**EVENT, "name": 7}] + [EVENT] * (39 - index)

    with pytest.raises(
        DamagedDocumentError, match=f"event {index + 1}, name: Expected `str`, got `int`"
    ):
        read(text_of(events), size=300)


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


HANGS_AFTER_S: Final = 60
LONGEST: Final = 20_000_000


def training(**names: Any) -> list[by_hand.RawEvent]:
    """One step of an operation, a Python function and a kernel, by these names."""
    on = (100, names.get("thread", 100))
    return [
        step(1, 0, 1000),
        span("user_annotation", names.get("mark", "forward"), 1, 900, on=on),
        operation(names.get("operation", "aten::mm"), 100, 300, on=on, external_id=1),
        span("python_function", names.get("function", "train.py(1): step"), 0, 1000, on=on),
        span(names.get("kind", "cuda_runtime"), "cudaLaunchKernel", 150, 10, on=on, correlation=1),
        kernel(names.get("kernel", "gemm"), 200, 600, correlation=1),
    ]


@given(st.text(max_size=50), st.integers(1, 60))
def test_a_kept_name_is_on_one_line_and_a_short_printable_one_is_unchanged(
    name: str, most: int
) -> None:
    kept = kept_name(name, most=most)

    assert len(kept.splitlines()) <= 1
    assert kept == name or len(name) > most or not name.isprintable()
    assert kept_name(kept, most=len(kept)) == kept


def test_a_long_name_keeps_its_begin_and_its_end_and_says_what_is_left_out() -> None:
    kept = kept_name("void begin" + "x" * 1_000_000 + "end<float>")

    assert kept.startswith("void begin")
    assert kept.endswith("end<float>")
    assert " ... 996,020 characters left out ... " in kept
    assert len(kept) < MOST_CHARACTERS + 100


def test_a_kernel_of_cutlass_is_kept_whole() -> None:
    name = "void cutlass::device_kernel<" + "cute::tuple<cute::C<128>, " * 100 + ">"

    assert kept_name(name) == name


def test_kernels_that_differ_only_in_what_is_left_out_are_one(tmp_path: Path) -> None:
    end = "y" * MOST_CHARACTERS
    kernels = [
        kernel(f"{end}{middle}{end}", 100 * n, 50, correlation=n)
        for n, middle in enumerate("ab", start=1)
    ]
    path = write(
        tmp_path / "trace.json", [step(1, 0, 1000), launch(1, 10), launch(2, 20), *kernels]
    )

    (row,) = analyse(path).rows[KERNELS]

    assert row["calls"] == 2


def test_names_threads_kinds_and_devices_are_kept_short(tmp_path: Path) -> None:
    long = "w" * 100_000
    names = dict.fromkeys(("thread", "mark", "operation", "function", "kernel"), long) | {
        "kind": f"{long}_runtime"
    }
    path = write(
        tmp_path / "trace.json",
        training(**names),
        deviceProperties=[{"name": long}],
        gpu_report_run=long,
    )

    trace = read_trace(path)

    assert max(map(len, (*trace.names, *trace.threads, *trace.kinds))) < MOST_CHARACTERS + 100
    assert len(analyse(path).device_name) < 300


@pytest.mark.parametrize("named", ["kernel", "function"])
def test_a_name_of_20_mb_is_answered(named: str, tmp_path: Path) -> None:
    name = "x" * LONGEST + (".py(1): step" if named == "function" else "")
    path = write(tmp_path / "trace.json", training(**{named: name}))
    program = "import sys; from gpu_report.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "trace", str(path), "--out", str(tmp_path / "tables")]

    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S)

    assert "step time 1.00 ms" in run.stdout
    assert len(run.stdout) < 100_000
    assert all(table.stat().st_size < 100_000 for table in (tmp_path / "tables").iterdir())
