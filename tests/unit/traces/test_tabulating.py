"""All tables of a trace are made, hold what they declare, and do not depend on the order of the file."""

import gzip
import json
import random
from pathlib import Path

import pytest

from gpu_report.traces.reading import read_trace
from gpu_report.traces.schema import KERNELS, OPERATIONS, SHAPES
from gpu_report.traces.tables import TRACE_TABLES, as_csv
from gpu_report.traces.tabulating import tabulate_trace
from tests.unit.traces.by_hand import operation, step, trace_of, write

FIXTURES = Path(__file__).parents[2] / "data" / "traces"
GPU_FIXTURES = pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])


def fixture_file(name: str) -> Path:
    return FIXTURES / f"{name}.pt.trace.json.gz"


@GPU_FIXTURES
def test_every_table_is_made_and_holds_what_it_declares(fixture: str) -> None:
    rows = tabulate_trace(read_trace(fixture_file(fixture)))

    assert list(rows) == list(TRACE_TABLES)
    for table in TRACE_TABLES:
        table.from_rows(rows[table])


def test_a_trace_of_the_cpu_alone_has_all_tables_too(tmp_path: Path) -> None:
    rows = tabulate_trace(trace_of(tmp_path, step(1, 0, 100), operation("aten::add", 10, 20)))

    assert [len(rows[table]) for table in (OPERATIONS, SHAPES, KERNELS)] == [1, 0, 0]
    assert set(as_csv(rows)) == {f"{table.name}.csv" for table in TRACE_TABLES}


def test_a_step_in_which_nothing_ran_has_all_tables_too(tmp_path: Path) -> None:
    rows = tabulate_trace(trace_of(tmp_path, step(1, 0, 100)))

    assert not rows[OPERATIONS]
    assert set(as_csv(rows)) == {f"{table.name}.csv" for table in TRACE_TABLES}


@GPU_FIXTURES
def test_the_order_of_the_events_in_the_file_does_not_matter(tmp_path: Path, fixture: str) -> None:
    path = fixture_file(fixture)
    document = json.loads(gzip.decompress(path.read_bytes()))
    events = document.pop("traceEvents")
    shuffled = write(tmp_path / path.name, random.Random(7).sample(events, len(events)), **document)

    assert as_csv(tabulate_trace(read_trace(shuffled))) == as_csv(tabulate_trace(read_trace(path)))


@GPU_FIXTURES
def test_kernels_add_up_to_the_device_time_of_the_operations(fixture: str) -> None:
    rows = tabulate_trace(read_trace(fixture_file(fixture)))

    on_device = sum(row["self_ms"] for row in rows[OPERATIONS] if row["device"] == "cuda")

    assert sum(row["total_ms"] for row in rows[KERNELS]) == pytest.approx(on_device)
    assert sum(row["share"] for row in rows[KERNELS]) == pytest.approx(1)
