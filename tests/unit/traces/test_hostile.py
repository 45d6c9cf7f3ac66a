"""Hostile files end in one line of error or in a trace with its tables."""

import gzip
import json
import string
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import settings

from gpu_report.errors import TraceError
from gpu_report.traces.reading import read_trace
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables, as_csv, tabulate_trace
from tests.unit.traces.by_hand import fixture_file

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
