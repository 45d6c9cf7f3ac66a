"""Hostile files end in one line of error or in a trace with its tables."""

import gzip
import json
import string
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import settings

from gpu_report.cli import main
from gpu_report.errors import TraceError
from gpu_report.traces.reading import read_trace
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables, as_csv, tabulate_trace
from tests.unit.traces.by_hand import RawEvent, fixture_file, kernel, launch, operation, span, step

PER_SORT: Final = settings().max_examples
SMALL_BLOCK: Final = 4096
EXCLUSIVE: Final = tuple(
    f"{name}_ms"
    for name in (
        "kernel",
        "memcpy",
        "memset",
        "communication",
        "runtime",
        "loader",
        "operator",
        "other",
    )
)

Document = dict[str, Any]
Spoil = Callable[[Random, Document], bytes]

ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    2**64 - 1,
    2**70,
    -(2**63),
    1e300,
    -1e15,
    0.1,
    "",
    "17",
    "\u0000\ud7ff\u2028",
    [],
    [[1], {}],
    {},
    {"traceEvents": []},
    float("nan"),
    float("inf"),
    -float("inf"),
)
ODD_BYTES: Final = (
    b"\\",
    b'"',
    b"\xff\xfe",
    b"\x00",
    b"}, {",
    b"]",
    b"[",
    b"NaN",
    b"1e999",
    b"9" * 400,
    b'"traceEvents": [',
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\\ud800",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
)


def cut_lines(random: Random, document: Document) -> bytes:
    text = json.dumps(document).encode()
    return text[: random.randrange(len(text))]


def cut_gzip(random: Random, document: Document) -> bytes:
    zipped = gzip.compress(json.dumps(document).encode(), compresslevel=1)
    return zipped[: random.randrange(2, len(zipped))]


def flip_bytes_of_gzip(random: Random, document: Document) -> bytes:
    zipped = bytearray(gzip.compress(json.dumps(document).encode(), compresslevel=1))
    for _ in range(random.randint(1, 3)):
        zipped[random.randrange(2, len(zipped))] ^= random.randint(1, 255)
    return bytes(zipped)


def repeat_a_piece(random: Random, document: Document) -> bytes:
    text = json.dumps(document).encode()
    begin = random.randrange(len(text))
    end = min(begin + random.choice((1, 30, 1000, len(text))), len(text))
    return text[:end] + text[begin:end] * random.choice((1, 2, 20)) + text[end:]


def insert_bytes(random: Random, document: Document) -> bytes:
    text = json.dumps(document).encode()
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(text))
        text = text[:at] + random.choice(ODD_BYTES) + text[at + random.choice((0, 0, 1, 5)) :]
    return text


def replace_values(random: Random, document: Document) -> bytes:
    for _ in range(random.randint(1, 3)):
        event = random.choice(document["traceEvents"])
        holder = random.choice([event, event, event.get("args")])
        holder = holder if holder and isinstance(holder, dict) else event
        holder[random.choice(list(holder))] = random.choice(ODD_VALUES)
    return json.dumps(document).encode()


def rearrange_events(random: Random, document: Document) -> bytes:
    """Events doubled, left out, out of order, moved in time, made longer, moved into each other."""
    events = [
        dict(event)
        for event in document["traceEvents"]
        if random.random() < random.choice((0.3, 1.0))
    ]
    events += (
        [dict(event) for event in random.choices(events, k=random.randrange(20))] if events else []
    )
    random.shuffle(events)
    for event in random.sample(events, k=len(events) // 3):
        event["ts"] = event.get("ts", 0) + random.choice(
            (0, -1e6, 1e9, 0.001, -4391511187862, 3.9e15, -3.9e15)
        )
        event["dur"] = random.choice((0, -5, 1e-3, 1e6, 9.9e12, event.get("dur", 1)))
        event["cat"] = random.choice(
            ("kernel", "gpu_memcpy", "cpu_op", "cuda_runtime", "user_annotation", "nothing")
        )
    return json.dumps({**document, "traceEvents": events}).encode()


def spoil_metadata(random: Random, document: Document) -> bytes:
    keys = random.sample(
        ("deviceProperties", "distributedInfo", "rank", "gpu_report_run", "traceEvents", "odd"), 3
    )
    odd = {key: random.choice(ODD_VALUES) for key in keys}
    events = {"traceEvents": document["traceEvents"]}
    return json.dumps({**events, **odd} if random.random() < 0.5 else {**odd, **events}).encode()


SPOILS: Final[tuple[Spoil, ...]] = (
    cut_lines,
    cut_gzip,
    flip_bytes_of_gzip,
    repeat_a_piece,
    insert_bytes,
    replace_values,
    rearrange_events,
    spoil_metadata,
)


@pytest.fixture(scope="module")
def small_trace() -> Document:
    """A hundred events of all sorts, those of one step, its first operations, kernels and their
    launches among them.
    """
    with gzip.open(fixture_file("unet_cuda")) as file:
        document: Document = json.load(file)
    events = document["traceEvents"]
    marks = [event for event in events if event.get("cat") == "user_annotation"]
    kernels = [
        event for event in events if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}
    ][::20][:20]
    wanted = {event["args"].get("correlation") for event in kernels}
    launches = [
        event
        for event in events
        if "_runtime" in event.get("cat", "") and event["args"]["correlation"] in wanted
    ]
    others = [
        event
        for event in events
        if event.get("cat") in {"cpu_op", "python_function", "cpu_instant_event"}
    ][::150]
    return {**document, "traceEvents": [*marks, *kernels, *launches, *others]}


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
def test_a_damaged_trace_is_refused_in_one_line_or_tabulated(
    spoil: Spoil, small_trace: Document, tmp_path: Path
) -> None:
    text = json.dumps(small_trace)
    outcomes = set()
    for seed in range(PER_SORT):
        random = Random(f"{spoil.__name__} {seed}")
        content = spoil(random, json.loads(text))
        path = tmp_path / f"{seed}.json"
        path.write_bytes(content)
        outcomes.add(refused_or_tabulated(path, block_bytes=random.choice((SMALL_BLOCK, 1 << 18))))
    assert "refused" in outcomes or spoil is rearrange_events


def refused_or_tabulated(path: Path, *, block_bytes: int) -> str:
    try:
        trace = read_trace(path, block_bytes=block_bytes)
    except TraceError as error:
        message = str(error)
        assert str(path) in message
        assert set(message) <= set(string.printable) - set("\n\r\x0b\x0c") or message.isprintable()
        assert len(message) < 500 + len(str(path))
        return "refused"
    tables = tabulate_trace(trace)
    as_csv(tables)
    assert_sound(tables)
    return "tabulated"


def assert_sound(tables: TraceTables) -> None:
    """Shares lie between 0 and 1, and what a step is shared out into sums to its wall time."""
    for table, rows in tables.items():
        shares = [column.name for column in table.columns if column.name.endswith("share")]
        for row in rows:
            assert all(row[name] is None or 0 <= row[name] <= 1 for name in shares), (
                table.name,
                row,
            )
    for row in tables[STEPS]:
        assert sum(row[name] or 0 for name in EXCLUSIVE) == pytest.approx(
            row["wall_ms"], rel=1e-9, abs=1e-3
        )


def test_what_is_not_damaged_is_tabulated(small_trace: Document, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(small_trace))

    assert refused_or_tabulated(path, block_bytes=SMALL_BLOCK) == "tabulated"


def test_a_gzip_bomb_of_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    events = b'{"ph": "f", "ts": 1},' * 50_000
    path.write_bytes(gzip.compress(b'{"traceEvents": [') + gzip.compress(events) * 80)

    with pytest.raises(TraceError, match="expands to more than 250 times its size"):
        read_trace(path)


DEPTH: Final = 100_000
HOLE: Final = "@nested@"
NESTED: Final = {
    "lists": b"[" * DEPTH + b"]" * DEPTH,
    "objects": b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    "open lists": b"[" * DEPTH,
}


def filled(document: Any, nested: bytes) -> bytes:
    return json.dumps(document).encode().replace(f'"{HOLE}"'.encode(), nested)


def lists(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def events(**first_kernel: Any) -> list[RawEvent]:
    """A step with one event of each sort, the first of them a kernel, with one of a kind that
    nobody reads.
    """
    ran = kernel("gemm", 200, 600, correlation=1)
    ran["args"] |= first_kernel
    return [
        ran,
        step(1, 0, 1000),
        operation("aten::mm", 100, 300, external_id=1),
        launch(1, 150, 10),
        span("python_function", "a.py(1): f", 0, 900, on=(100, 100)),
        {
            "ph": "i",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": 5,
            "args": {"Addr": 1, "Bytes": 5},
        },
        {"ph": "M", "name": "process_name", "pid": 1, "ts": 0, "args": {"name": "python"}},
    ]


def changed(sort: int, **fields: Any) -> dict[str, Any]:
    all_events = events()
    all_events[sort] |= fields
    return {"traceEvents": all_events}


KERNEL, _, OPERATION, LAUNCH, FUNCTION, MEMORY, UNREAD = range(7)
PLACES: Final[dict[str, Any]] = {
    "top": HOLE,
    "list of events": {"traceEvents": HOLE},
    "one event": {"traceEvents": [*events(), HOLE]},
    "an event of a list alone": [*events(), HOLE],
    "metadata before": {"odd": HOLE, "traceEvents": events()},
    "metadata behind": {"traceEvents": events(), "odd": HOLE},
    "device": {
        "deviceProperties": [{"name": HOLE, "totalGlobalMem": HOLE, "computeMajor": HOLE}],
        **changed(0),
    },
    "ranks": {**changed(0), "distributedInfo": {"rank": HOLE, "world_size": HOLE}},
    **{
        f"{key} of a kernel": {"traceEvents": events(**{key: HOLE})}
        for key in ("grid", "block", "bytes", "odd")
    },
    **{
        f"{key} of an operation": changed(OPERATION, args={key: HOLE})
        for key in ("Input Dims", "Concrete Inputs", "Input dims", "External id", "odd")
    },
    **{
        f"args of event {sort}": changed(sort, args=HOLE)
        for sort in (OPERATION, LAUNCH, FUNCTION, MEMORY, UNREAD)
    },
    **{
        f"within the args of event {sort}": changed(sort, args={"odd": HOLE})
        for sort in (MEMORY, UNREAD)
    },
    **{
        f"{field} of an event": changed(UNREAD, **{field: HOLE})
        for field in ("name", "pid", "ts", "odd")
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("nested", NESTED)
def test_what_is_nested_100_000_deep_is_one_line_of_error_or_a_trace(
    place: str, nested: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = filled(PLACES[place], NESTED[nested])
    (tmp_path / "plain.json").write_bytes(text)
    (tmp_path / "zipped.json.gz").write_bytes(gzip.compress(text, compresslevel=1))

    for path in (tmp_path / "plain.json", tmp_path / "zipped.json.gz"):
        status = main(["trace", str(path), "--out", str(tmp_path / "tables")])

        error = capsys.readouterr().err
        assert (status, error.count("\n")) in {(0, 0), (2, 1)}
        assert len(error) < 500 + len(str(path))
        assert status == 0 or str(path) in error


@pytest.mark.parametrize("key", ["External id", "bytes"])
def test_an_argument_nested_as_deep_as_can_be_read_is_refused_in_one_line(
    key: str, tmp_path: Path
) -> None:
    """What is just not too deep to be read must not be too deep for the error that shows it."""
    path = tmp_path / "trace.json"
    document = {"traceEvents": events(**{key: HOLE})}
    for depth in range(sys.getrecursionlimit() - 150, sys.getrecursionlimit()):
        path.write_bytes(filled(document, lists(depth)))

        with pytest.raises(TraceError, match=r"nested deeper|not a whole number"):
            read_trace(path)
