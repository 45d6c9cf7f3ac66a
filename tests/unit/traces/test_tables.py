"""All tables of a trace are made, hold what they declare, and survive their CSV files."""

import gzip
import json
import random
from pathlib import Path

import pandas as pd
import pytest

from gpu_report.columns import TableError
from gpu_report.traces.advice import ADVICE
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.memory import ALLOCATIONS
from gpu_report.traces.operations import OPERATIONS
from gpu_report.traces.quality import QUALITY
from gpu_report.traces.reading import read_trace
from gpu_report.traces.shapes import SHAPES
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import (
    EMPTY_TABLES,
    TRACE_TABLES,
    TraceTables,
    as_csv,
    file_name,
    read_trace_tables,
    tabulate_trace,
)
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import FIXTURES, fixture_file, kernel, launch, operation, recorded, step, trace_of, write


def written(rows: TraceTables, folder: Path) -> Path:
    for name, text in as_csv(rows).items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_tables_read_back_are_the_tables_written(tmp_path: Path, fixture: str) -> None:
    rows = tabulate_trace(recorded(fixture))

    read = read_trace_tables(written(rows, tmp_path))

    for table in TRACE_TABLES:
        same = pd.DataFrame(table.checked(rows[table]))
        pd.testing.assert_frame_equal(pd.DataFrame(read[table]), same)


def test_without_a_trace_the_tables_have_columns_and_no_rows(tmp_path: Path) -> None:
    folder = written(EMPTY_TABLES, tmp_path)

    read = read_trace_tables(folder)

    for table in TRACE_TABLES:
        assert not read[table]
        assert (folder / file_name(table)).read_text("utf-8") == ",".join(table.column_names) + "\n"


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    written(EMPTY_TABLES, tmp_path)
    (tmp_path / "kernels.csv").unlink()

    with pytest.raises(TableError, match=r"kernels\.csv"):
        read_trace_tables(tmp_path)


def test_a_table_that_an_older_bundle_does_not_hold_has_no_rows(tmp_path: Path) -> None:
    written(EMPTY_TABLES, tmp_path)
    (tmp_path / file_name(ALLOCATIONS)).unlink()

    assert not read_trace_tables(tmp_path)[ALLOCATIONS]


def test_every_time_and_share_says_its_unit_and_meaning() -> None:
    for table in TRACE_TABLES:
        for column in table.columns:
            assert column.meaning
            assert column.unit == {"ms": "ms", "us": "us"}.get(column.name.rsplit("_", 1)[-1], column.unit)
            assert column.unit or column.dtype in ("str", "bool") or table in (QUALITY, ADVICE)


EVERY_FIXTURE = pytest.mark.parametrize(
    "fixture", sorted(path.name.partition(".")[0] for path in FIXTURES.glob("*.gz"))
)
GPU_FIXTURES = pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])


@GPU_FIXTURES
def test_every_table_is_made_and_holds_what_it_declares(fixture: str) -> None:
    rows = tabulate_trace(recorded(fixture))

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


@EVERY_FIXTURE
def test_kernels_add_up_to_the_busy_time_of_the_steps_and_what_ran_side_by_side(fixture: str) -> None:
    trace = recorded(fixture)
    rows = tabulate_trace(trace)

    busy_ms = sum(row["device_busy_ms"] for row in rows[STEPS])
    shared_out_ms = sum(row[f"{part}_ms"] for row in rows[STEPS] for part in ("kernel", "memcpy", "memset"))
    total_ms = sum(row["total_ms"] for row in rows[KERNELS])
    assert total_ms == pytest.approx(busy_ms + side_by_side_ms(trace))
    assert shared_out_ms <= busy_ms * (1 + 1e-9)
    assert sum(row["share"] for row in rows[KERNELS]) == pytest.approx(1)


def side_by_side_ms(trace: Trace) -> float:
    """How long more than one piece of work ran within the steps, each piece beyond the first counted."""
    edges = [
        (time_ns, change)
        for one in trace.steps
        for start_ns, end_ns in zip(trace.work.start_ns.tolist(), trace.work.end_ns.tolist(), strict=True)
        if start_ns < one.end_ns and end_ns > one.start_ns
        for time_ns, change in ((max(start_ns, one.start_ns), 1), (min(end_ns, one.end_ns), -1))
    ]
    running, before_ns, extra_ns = 0, 0, 0
    for time_ns, change in sorted(edges):
        extra_ns += max(running - 1, 0) * (time_ns - before_ns)
        running, before_ns = running + change, time_ns
    return extra_ns / 1e6


@EVERY_FIXTURE
def test_operations_on_the_device_add_up_to_the_work_that_the_steps_launched(fixture: str) -> None:
    trace = recorded(fixture)
    rows = tabulate_trace(trace)

    on_device = sum(row["self_ms"] for row in rows[OPERATIONS] if row["device"] == "cuda")

    assert on_device == pytest.approx(trace.work.duration_ns.sum() / 1e6)


def test_work_whose_launch_was_lost_counts_in_the_kernels_as_in_the_steps(tmp_path: Path) -> None:
    rows = tabulate_trace(
        trace_of(
            tmp_path,
            step(1, 10, 60),
            kernel("began before the step", 5, 10, correlation=7),
            kernel("launch lost", 20, 10, correlation=8),
            operation("aten::mm", 30, 4),
            launch(1, 31),
            kernel("launched", 40, 10, correlation=1),
            kernel("runs on after the step", 65, 10, correlation=9),
        )
    )

    assert {row["name"]: row["total_ms"] for row in rows[KERNELS]} == {
        "began before the step": 0.005,
        "launch lost": 0.01,
        "launched": 0.01,
        "runs on after the step": 0.005,
    }
    assert sum(row["device_busy_ms"] for row in rows[STEPS]) == pytest.approx(0.03)
