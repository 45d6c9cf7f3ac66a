"""All tables of a trace are made, hold what they declare, and survive their CSV files."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpu_report.errors import TableError, TraceError
from gpu_report.records.record import Record
from gpu_report.traces.advice import ADVICE
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.memory import ALLOCATIONS, MEMORY
from gpu_report.traces.operations import OPERATIONS
from gpu_report.traces.quality import QUALITY
from gpu_report.traces.reading import read_trace
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import (
    EMPTY_TABLES,
    TRACE_TABLES,
    TraceTables,
    as_csv,
    file_name,
    read_trace_tables,
    slowness_of_profiled_steps,
    table_as_csv,
    tabulate_trace,
    tabulate_trace_of,
)
from gpu_report.traces.trace import Trace
from tests.factories import make_record
from tests.unit.traces.by_hand import (
    FIXTURES,
    MAIN,
    kernel,
    launch,
    operation,
    reasons,
    recorded,
    span,
    step,
    trace_of,
    trusted,
    write,
)


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


def test_a_fraction_has_nine_digits_in_the_file_and_a_whole_number_all_of_its_own() -> None:
    row = {
        "device": "cuda",
        "at_ms": 1234.5678912345,
        "allocated_mib": 12345678901.0,
        "reserved_mib": float("nan"),
    }

    line = table_as_csv(MEMORY, [row]).splitlines()[1]

    assert line == "cuda,1234.56789,12345678901.0,"


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
            assert column.unit == {"ms": "ms", "us": "us"}.get(
                column.name.rsplit("_", 1)[-1], column.unit
            )
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
    rows = tabulate_trace(trace_of(step(1, 0, 100), operation("aten::add", 10, 20)))

    assert [len(rows[table]) for table in (OPERATIONS, KERNELS)] == [1, 0]
    assert set(as_csv(rows)) == {f"{table.name}.csv" for table in TRACE_TABLES}


def test_a_step_in_which_nothing_ran_has_all_tables_too(tmp_path: Path) -> None:
    rows = tabulate_trace(trace_of(step(1, 0, 100)))

    assert not rows[OPERATIONS]
    assert set(as_csv(rows)) == {f"{table.name}.csv" for table in TRACE_TABLES}


@EVERY_FIXTURE
def test_kernels_add_up_to_the_busy_time_of_the_steps_and_what_ran_side_by_side(
    fixture: str,
) -> None:
    trace = recorded(fixture)
    rows = tabulate_trace(trace)

    busy_ms = sum(row["device_busy_ms"] for row in rows[STEPS])
    shared_out_ms = sum(
        row[f"{part}_ms"] for row in rows[STEPS] for part in ("kernel", "memcpy", "memset")
    )
    total_ms = sum(row["total_ms"] for row in rows[KERNELS])
    assert total_ms == pytest.approx(busy_ms + side_by_side_ms(trace))
    assert shared_out_ms <= busy_ms * (1 + 1e-9)
    assert sum(row["share"] for row in rows[KERNELS]) == pytest.approx(1)


def side_by_side_ms(trace: Trace) -> float:
    """How long more than one piece of work ran within the steps, each piece beyond the first
    counted.
    """
    edges = [
        (time_ns, change)
        for one in trace.steps
        for start_ns, end_ns in zip(
            trace.work.start_ns.tolist(), trace.work.end_ns.tolist(), strict=True
        )
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


FILE = "rank0.pt.trace.json.gz"
SLUG = "unet-cpu-b16-w0-fp32-e2"
ON_CUDA = "unet-cuda-b16-w0-fp32-e2"
AGAIN = f"measure the variant again with: gpu-report run {SLUG}$"


def test_a_records_trace_gives_the_tables_of_that_trace(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / FILE, [step(1, 0, 10), operation("aten::add", 1, 2)]))
    record = make_record(SLUG)

    made = tabulate_trace_of(record, tmp_path, tmp_path / "rich")

    assert made == tabulate_trace(
        trace, checks=[slowness_of_profiled_steps(record.profile_overhead)]
    )


def with_rich_trace(slug: str) -> Record:
    record = make_record(slug)
    assert record.profile is not None
    profile = record.profile.model_copy(update={"rich_trace_file": record.profile.trace_file})
    return record.model_copy(update={"profile": profile})


def test_times_come_from_the_light_trace_and_memory_and_source_lines_from_the_rich_one(
    tmp_path: Path,
) -> None:
    stepping = [
        step(1, 0, 100),
        operation("aten::mm", 10, 10),
        launch(1, 12),
        kernel("gemm", 20, 9, correlation=1),
    ]
    slow = [
        step(1, 0, 900),
        operation("aten::mm", 10, 500),
        launch(1, 12),
        kernel("gemm", 20, 9, correlation=1),
    ]
    stack = span("python_function", "unet.py(80): forward", 0, 800, on=MAIN)
    block = {
        "Device Type": 1,
        "Device Id": 0,
        "Addr": 1,
        "Bytes": 2**20,
        "Total Allocated": 2**20,
        "Total Reserved": 0,
    }
    memory = {**span("cpu_instant_event", "[memory]", 30, 0, on=MAIN, **block), "ph": "i"}
    for name, events in (("light", stepping), ("rich", [*slow, stack, memory])):
        (tmp_path / name).mkdir()
        write(tmp_path / name / FILE, events)

    made = tabulate_trace_of(with_rich_trace(ON_CUDA), tmp_path / "light", tmp_path / "rich")

    assert [row["wall_ms"] for row in made[STEPS]] == [0.1]
    assert [row["median_us"] for row in made[OPERATIONS] if row["name"] == "aten::mm"] == [
        10.0,
        9.0,
    ]
    assert [(row["name"], row["source"]) for row in made[KERNELS]] == [
        ("gemm", "unet.py(80): forward")
    ]
    assert max(row["allocated_mib"] for row in made[MEMORY]) == 1.0


def test_what_fails_in_one_trace_invalidates_nothing_that_the_other_decides(tmp_path: Path) -> None:
    stepping = [
        step(1, 0, 100),
        operation("aten::mm", 10, 10),
        launch(1, 12),
        kernel("gemm", 20, 9, correlation=1),
    ]
    lost = [*stepping, kernel("launch lost", 40, 9, correlation=5)]
    for name, events in (("whole", stepping), ("lost", lost)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / FILE, events)

    def trusts(light: str, rich: str) -> dict[str, bool]:
        rows = tabulate_trace_of(with_rich_trace(ON_CUDA), tmp_path / light, tmp_path / rich)[
            QUALITY
        ]
        asked = (
            ("kernels", "operation"),
            ("kernels", "source"),
            ("steps", "kernel_ms"),
        )
        return {f"{table}.{column}": trusted(table, column, rows) for table, column in asked}

    light = {"kernels.operation", "steps.kernel_ms"}
    assert {column for column, told in trusts("whole", "lost").items() if told} == light
    assert {column for column, told in trusts("lost", "whole").items() if told} == {
        "kernels.source",
        "steps.kernel_ms",
    }


@pytest.mark.parametrize(("overhead", "is_trusted"), [(0.3, False), (1.4, True), (1.6, False)])
def test_steps_that_took_another_time_than_timed_ones_say_nothing_of_idleness(
    overhead: float, *, is_trusted: bool
) -> None:
    checks = [slowness_of_profiled_steps(overhead)]

    assert trusted("steps", "device_idle_share", checks) is is_trusted
    assert trusted("idle", "share", checks) is is_trusted
    assert trusted("kernels", "total_ms", checks)
    assert f"{overhead:.2f} times" in checks[0]["text"]


def test_a_trace_of_an_accelerator_without_any_of_its_events_shows_nothing_of_it(
    tmp_path: Path,
) -> None:
    write(tmp_path / FILE, [step(1, 0, 100), operation("aten::mm", 10, 10)])

    quality = tabulate_trace_of(make_record(ON_CUDA), tmp_path, tmp_path / "rich")[QUALITY]

    for table, column in (
        ("steps", "kernel_ms"),
        ("copies", "total_ms"),
        ("launches", "launches"),
        ("idle", "share"),
    ):
        assert reasons(table, column, quality) == [
            "0 kernels, copies and fills on cuda are in the trace; at least one was expected"
        ]
    assert not trusted("timeline", "busy_share", quality, on="cuda")
    assert trusted("timeline", "busy_share", quality, on="cpu")
    assert trusted("steps", "wall_ms", quality)


@pytest.mark.parametrize(
    ("slug", "events"), [(SLUG, []), (ON_CUDA, [launch(1, 12), kernel("k", 20, 9, correlation=1)])]
)
def test_a_trace_with_the_work_of_its_device_passes_every_check(
    slug: str, events: list[dict[str, Any]], tmp_path: Path
) -> None:
    write(tmp_path / FILE, [step(1, 0, 100), operation("aten::mm", 10, 10), *events])

    quality = tabulate_trace_of(make_record(slug), tmp_path, tmp_path / "rich")[QUALITY]

    assert all(row["passed"] for row in quality)


def test_what_was_not_profiled_has_tables_without_rows(tmp_path: Path) -> None:
    assert (
        tabulate_trace_of(make_record(SLUG, profile_overhead=None), tmp_path, tmp_path)
        == EMPTY_TABLES
    )


def test_a_missing_trace_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=AGAIN):
        tabulate_trace_of(make_record(SLUG), tmp_path, tmp_path / "rich")


def test_a_record_needs_steps_though_a_trace_on_its_own_does_not(tmp_path: Path) -> None:
    assert read_trace(write(tmp_path / FILE, [operation("aten::add", 1, 2)])).steps

    with pytest.raises(
        TraceError, match=f"it holds no ProfilerStep, so no step was profiled; {AGAIN}"
    ):
        tabulate_trace_of(make_record(SLUG), tmp_path, tmp_path / "rich")
