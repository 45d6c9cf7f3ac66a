"""Events become columns, chunk by chunk, and what an event does not say stands as none."""

import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.collecting import Collector, Numberings, Threads, _copied
from gpu_report.traces.events import DamagedDocumentError, RawEvent
from gpu_report.traces.trace import NONE, CallSpans, Columns, MemoryEvents, Spans, WorkSpans
from tests.unit.traces.by_hand import MAIN, kernel, operation, span, step, trace_of

OPERATIONS = st.lists(
    st.builds(
        operation,
        st.sampled_from(["aten::add", "aten::mm"]),
        st.integers(0, 99),
        st.integers(-3, 99),
        on=st.sampled_from([(1, 1), (1, "loader")]),
        external_id=st.integers(0, 5),
    ),
    max_size=12,
)


def raw(event: dict[str, Any]) -> RawEvent:
    return msgspec.json.decode(msgspec.json.encode(event), type=RawEvent)


def calls() -> Collector[CallSpans]:
    return Collector(CallSpans, Numberings())


def work() -> Collector[WorkSpans]:
    return Collector(WorkSpans, Numberings())


def with_arguments(event: dict[str, Any], **arguments: Any) -> RawEvent:
    return raw({**event, "args": {key.replace("_", " "): value for key, value in arguments.items()}})


def lists(columns: Columns) -> dict[str, list[float]]:
    return {column: getattr(columns, column).tolist() for column in columns.__struct_fields__}


@given(OPERATIONS, st.integers(1, 6))
def test_columns_do_not_depend_on_the_chunks_they_came_in(operations: list[dict[str, Any]], size: int) -> None:
    events = [raw(event) for event in operations]
    whole, pieces = calls(), calls()

    whole.add(events)
    for begin in range(0, len(events), size):
        pieces.add(events[begin : begin + size])

    columns = whole.collected()
    assert lists(pieces.collected()) == lists(columns)
    assert pieces.negative_durations == whole.negative_durations
    assert len(columns) + whole.negative_durations == len(events)


def test_without_events_every_column_is_empty() -> None:
    columns = work().collected()

    assert len(columns) == 0
    assert set(map(len, lists(columns).values())) == {0}


def test_what_is_not_written_is_none() -> None:
    collector = work()

    collector.add([raw(kernel("gemm", 1, 2))])

    found = lists(collector.collected())
    assert {name: found[name] for name in ("correlation", "device", "stream", "size_bytes", "registers")} == {
        "correlation": [NONE],
        "device": [NONE],
        "stream": [NONE],
        "size_bytes": [NONE],
        "registers": [NONE],
    }
    assert np.isnan(found["occupancy_percent"]).all()


def test_arguments_are_read_beside_those_nobody_asks_for() -> None:
    collector = work()
    asked = {"registers_per_thread": 40, "shared_memory": 16, "blocks_per_SM": 0.5, "est._achieved_occupancy_%": 25}

    collector.add([with_arguments(kernel("gemm", 1, 2), queued=0, context=1, grid=[8, 2, 1], **asked)])

    columns = collector.collected()
    assert (columns.registers.tolist(), columns.shared_memory_bytes.tolist()) == ([40], [16])
    assert (columns.blocks_per_multiprocessor.tolist(), columns.occupancy_percent.tolist()) == ([0.5], [25.0])


def test_texts_and_names_that_repeat_are_kept_once() -> None:
    numberings = Numberings()
    collector = Collector(CallSpans, numberings)
    dims = {"Input_Dims": [[3, 4], []]}

    collector.add([with_arguments(operation(name, 1, 2), **dims) for name in ("aten::add", "aten::mm", "aten::add")])

    columns = collector.collected()
    assert list(numberings.names) == ["aten::add", "aten::mm"]
    assert columns.name.tolist() == [0, 1, 0]
    assert {list(numberings.texts)[position] for position in columns.shapes} == {b"[[3,4],[]]"}


def test_events_are_chosen_by_flag_and_by_position() -> None:
    collector = Collector(Spans, Numberings())
    collector.add([raw(operation("aten::add", start, 1)) for start in (5, 6, 7)])
    columns = collector.collected()

    assert columns.chosen(columns.start_ns > 5000).start_ns.tolist() == [6000, 7000]
    assert columns.chosen(np.array([2, 0])).end_ns.tolist() == [8000, 6000]


def test_what_the_allocator_says_is_read_of_its_moments() -> None:
    collector = Collector(MemoryEvents, Numberings())
    moment = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 4}

    collector.add([with_arguments(moment, Device_Type=1, Device_Id=0, Addr=77, Bytes=-512, Total_Allocated=1024)])

    columns = collector.collected()
    assert (columns.changed_bytes.tolist(), columns.allocated_bytes.tolist()) == ([-512], [1024])
    assert (columns.start_ns.tolist(), columns.reserved_bytes.tolist()) == ([4000], [NONE])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"correlation": "5"}, "correlation: '5' is not a whole number"),
        ({"correlation": 2**64}, f"correlation: {2**64} does not fit 64 bits"),
        ({"correlation": 1.5}, "correlation: 1.5 is not a whole number"),
        ({"correlation": [1]}, "correlation: [1] is not a whole number"),
        ({"shared memory": {}}, "shared memory: {} is not a whole number"),
        ({"blocks per SM": "many"}, "blocks per SM: 'many' is not a number"),
    ],
)
def test_arguments_of_another_type_are_refused(arguments: Any, named: str) -> None:
    sound = raw(kernel("copy", 0, 1))

    with pytest.raises(DamagedDocumentError) as raised:
        work().add([sound, raw({**kernel("gemm", 1, 2), "args": arguments})])

    assert str(raised.value) == f"the args of the event 'gemm', {named}"


@pytest.mark.parametrize("missing", [None, 2**64 - 1])
def test_a_number_that_is_written_as_none_is_none(missing: int | None) -> None:
    collector = work()

    collector.add([with_arguments(kernel("gemm", 1, 2), stream=missing, device=0)])

    columns = collector.collected()
    assert (columns.stream.tolist(), columns.device.tolist()) == ([NONE], [0])


def test_an_event_may_say_null_where_its_arguments_stand() -> None:
    collector = work()

    collector.add([raw({**kernel("gemm", 1, 2), "args": None})])

    assert collector.collected().correlation.tolist() == [NONE]


def test_events_are_put_in_order_in_their_own_memory() -> None:
    collector = Collector(Spans, Numberings())
    collector.add([raw(operation(name, start, 1)) for name, start in (("a", 7), ("b", 5), ("c", 6))])
    columns = collector.collected()
    starts_ns = columns.start_ns

    columns.put_in_order(np.array([1, 2, 0]))

    assert (starts_ns.tolist(), columns.name.tolist()) == ([5000, 6000, 7000], [1, 2, 0])


THREADS = [(pid, tid) for pid in (None, 1, "1") for tid in (None, 1, "1", 2)]


def test_threads_are_told_apart_by_both_their_words_and_by_the_type_of_each() -> None:
    threads = Threads()

    numbers = [threads[pid][tid] for pid, tid in THREADS]

    assert numbers == list(range(len(THREADS)))
    assert threads.pairs == THREADS
    assert [threads[pid][tid] for pid, tid in reversed(THREADS)] == numbers[::-1]


def test_threads_are_numbered_on_where_they_were_sent() -> None:
    threads = Threads()
    numbers = [threads[pid][tid] for pid, tid in THREADS]

    sent = pickle.loads(pickle.dumps(threads))

    assert [sent[pid][tid] for pid, tid in THREADS] == numbers
    assert [sent[1]["new"], sent["new"][1]] == [len(THREADS), len(THREADS) + 1]
    assert sent.pairs == [*THREADS, (1, "new"), ("new", 1)]
    assert threads.pairs == THREADS


@given(st.lists(st.sampled_from([b"", b"\0", b"\0\0", b'"a\0b"', b"[[3,4]]"])))
def test_texts_are_copied_whatever_bytes_they_hold(texts: list[bytes]) -> None:
    assert _copied([msgspec.Raw(text) for text in texts]) == texts


@pytest.mark.parametrize("arguments", [[1], [{}], "many", 5, 0.5, True])
@pytest.mark.parametrize("position", [0, 2])
def test_arguments_that_are_no_object_are_refused_where_they_are_kept(arguments: Any, position: int) -> None:
    events = [raw(kernel("copy", start, 1)) for start in range(4)]
    events[position] = raw({**kernel("gemm", 1, 2), "args": arguments})

    with pytest.raises(DamagedDocumentError) as raised:
        work().add(events)

    assert str(raised.value) == "the args of the event 'gemm' are not an object"


@pytest.mark.parametrize("arguments", [[], [1], "", "many", 5, 0.5, True])
def test_an_event_of_a_kind_that_nobody_reads_may_have_any_arguments(arguments: Any, tmp_path: Path) -> None:
    unread = {**span("overhead", "Buffer Flush", 3, 1, on=MAIN), "args": arguments}
    stacks = {**span("python_function", "train.py(3): step", 3, 1, on=MAIN), "args": arguments}

    trace = trace_of(tmp_path, step(1, 0, 10), unread, operation("aten::add", 1, 2), stacks, unread)

    assert (len(trace.calls), len(trace.functions)) == (1, 1)
