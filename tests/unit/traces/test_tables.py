"""All tables of a trace are made, hold what they declare, and survive their CSV files."""

from pathlib import Path

import pandas as pd
import pytest

from gpu_report.errors import TableError, TraceError
from gpu_report.records.record import Record
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
    tabulate_trace,
    tabulate_trace_of,
)
from tests.factories import make_record
from tests.unit.traces.by_hand import (
    MAIN,
    kernel,
    launch,
    operation,
    reasons,
    recorded,
    span,
    step,
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


def test_fractions_have_six_digits_and_above_a_thousand_three_decimals(tmp_path: Path) -> None:
    written_row = {"device": "cpu", "at_ms": 1234.56789, "allocated_mib": 12.3456789}
    rows = {**EMPTY_TABLES, MEMORY: [{**written_row, "reserved_mib": 20_000_000.0}]}

    (row,) = read_trace_tables(written(rows, tmp_path))[MEMORY]

    assert (row["at_ms"], row["allocated_mib"]) == (1234.568, 12.3457)
    assert row["reserved_mib"] == 20_000_000


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


GPU_FIXTURES = pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])


FILE = "rank0.pt.trace.json.gz"
SLUG = "unet-cpu-b16-w0-fp32-e2"
ON_CUDA = "unet-cuda-b16-w0-fp32-e2"
AGAIN = f"measure the configuration again with: gpu-report run {SLUG}$"


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
        asked = (("kernels", "operation"), ("kernels", "source"), ("steps", "kernel_ms"))
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


def test_a_missing_trace_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=AGAIN):
        tabulate_trace_of(make_record(SLUG), tmp_path, tmp_path / "rich")


def test_a_record_needs_steps_though_a_trace_on_its_own_does_not(tmp_path: Path) -> None:
    assert read_trace(write(tmp_path / FILE, [operation("aten::add", 1, 2)])).steps

    with pytest.raises(
        TraceError, match=f"it holds no ProfilerStep, so no step was profiled; {AGAIN}"
    ):
        tabulate_trace_of(make_record(SLUG), tmp_path, tmp_path / "rich")
