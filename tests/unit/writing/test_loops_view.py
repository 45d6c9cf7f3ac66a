"""The text's tables about a workload's own loops: rows, reasons, numbers of a pass, and its parts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpu_report.records import Record
from gpu_report.study import Study
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.writing.loops_view import LoopsView
from gpu_report.writing.table_block import TableBlock
from tests.factories import make_record, make_records, make_tables
from tests.unit.figures.drawn import study_and_tables, study_of

LOOPS, SIZES = "linear_regression", "linear_regression_size"
KERNELS = {
    "(anonymous namespace)::begin(Training, Sums<double>*)": 1.0,
    "(anonymous namespace)::forward(Training, float*)": 2.0,
    "(anonymous namespace)::loss(Training, float const*, float*, Sums<double>*)": 3.0,
    "(anonymous namespace)::gradient(Training, float const*, Sums<double>*)": 4.0,
    "(anonymous namespace)::update(Training, Sums<double>*, int)": 5.0,
}
"""Of the loop of separate kernels, with the time of all calls in ms."""


def view_of(experiment: str, tables: Tables, *, devices: Sequence[str] = ("cpu", "cuda")) -> LoopsView:
    rows = tuple(row for row in rows_of(tables.experiments[experiment]) if row["device"] in devices)
    return LoopsView(label=f"here/{experiment}", rows=rows, tables=tables, csv_path=lambda name: f"{name}.csv")


def typical(experiment: str = LOOPS, **changes: Any) -> LoopsView:
    """The loops of the default study, some columns of their table replaced."""
    _, tables = study_and_tables(LOOPS, SIZES)
    return view_of(experiment, replace(tables, own_loops=tables.own_loops.assign(**changes)))


def with_statuses(**statuses: Any) -> LoopsView:
    study = study_of(LOOPS)
    records = [_failing(study, record, statuses) for record in make_records(study, processes=2)]
    return view_of(LOOPS, make_tables(study, records))


def _failing(study: Study, record: Record, statuses: dict[str, Any]) -> Record:
    found = statuses.get(record.as_variant().options)
    measurement = study.measurement(record.variant)
    return make_record(record.variant, status=found[0], reason=found[1], measurement=measurement) if found else record


def cells_of(block: TableBlock, column: int) -> list[str]:
    return [str(row.cells[column]) for row in block.rows]


def numbers_of(block: TableBlock, metric: str) -> list[str]:
    return [number.quantity.plain(interval=False) for number in block.numbers if number.metric == metric]


def tables_of(view: LoopsView) -> list[TableBlock]:
    return [view.times_table(), view.sizes_table()]


def test_every_loop_has_a_row_of_times_in_the_order_of_the_study() -> None:
    view = typical()

    block = view.times_table()

    assert cells_of(block, 0) == [row["optimization"] for row in view.rows]
    assert (block.name, block.source) == (f"here/{LOOPS}_times", "own_loops.csv")


def test_what_was_skipped_has_its_reason_in_place_of_numbers_and_what_failed_that_it_failed() -> None:
    view = with_statuses(
        triton=("skipped", "no CUDA compiler"), streams=("failed", "RuntimeError: a long story"), graphs=("oom", "")
    )

    rows = {str(row.cells[0]): " ".join(map(str, row.cells[1:])) for row in view.times_table().rows}

    assert r"{\itshape skipped: no CUDA compiler}" in rows["triton"]
    assert ("failed" in rows["streams"], "story" in rows["streams"]) == (True, False)
    assert "out of memory" in rows["graphs"]
    assert not [row for name, row in rows.items() if name not in ("triton", "streams", "graphs") and "itshape" in row]


def test_times_are_those_of_a_pass_each_in_its_unit() -> None:
    view = typical(
        training_ms=12.5,
        training_ms_low=12.5,
        training_ms_high=12.5,
        pass_us=62.5,
        pass_us_low=62.5,
        pass_us_high=62.5,
        work_per_pass=4.0,
        bytes_per_point=28.0,
        floor_us=25.0,
        times_floor=2.5,
    )

    block = view.times_table()

    columns = ("training_ms", "pass_us", "work_per_pass", "bytes_per_point", "floor_us")
    told = {column: set(numbers_of(block, column)) for column in columns}
    assert told == {
        "training_ms": {"12.5 ms"},
        "pass_us": {"62.5 µs"},
        "work_per_pass": {"4.00"},
        "bytes_per_point": {"28.0"},
        "floor_us": {"25.0 µs"},
    }
    assert [text[:4] for text in numbers_of(block, "times_floor")] == ["2.50"] * len(view.rows)


def test_what_no_loop_tells_is_no_column() -> None:
    block = typical(work_per_pass=float("nan"), floor_us=float("nan"), times_floor=float("nan")).times_table()

    shown = {number.metric for number in block.numbers}
    assert shown == {"training_ms", "pass_us", "bytes_per_point", "reference_error"}
    assert len(block.header) == 5


def test_a_device_without_a_floor_is_named_where_another_has_one() -> None:
    _, tables = study_and_tables(LOOPS, SIZES)
    on_cpu = tables.own_loops["device"] == "cpu"
    floors = tables.own_loops.assign(floor_us=2.0)
    floors.loc[on_cpu, "floor_us"] = float("nan")
    view = view_of(LOOPS, replace(tables, own_loops=floors))

    noted = {table.name: "No bound is known on CPU" in " ".join(table.notes) for table in tables_of(view)}

    assert noted == {table.name: table.name.endswith("times") for table in tables_of(view)}
    assert "No floor" not in " ".join(typical(floor_us=2.0).times_table().notes)


def test_loops_of_several_numbers_of_points_or_workloads_are_told_apart() -> None:
    view = typical(SIZES)
    renamed = [{**row, "workload_title": row["variant"]} for row in view.rows]
    several = LoopsView(label="here", rows=tuple(renamed), tables=view.tables, csv_path=lambda name: f"{name}.csv")

    headers = [[str(header) for header in one.times_table().header] for one in (typical(), view, several)]

    assert [[name for name in each if name in ("workload", "loop", "points")] for each in headers] == [
        ["loop"],
        ["loop", "points"],
        ["workload", "loop", "points"],
    ]


def test_sizes_tell_how_often_the_points_could_have_been_read_in_a_pass() -> None:
    view = typical(SIZES, pass_us=30.0, pass_us_low=30.0, pass_us_high=30.0, readings=2.5)

    block = view.sizes_table()

    assert {text[:4] for text in numbers_of(block, "readings")} == {"2.50"}
    assert len(block.rows) == len(view.rows)
    assert {"8000", "80,000", "4,000,000"} <= set(cells_of(block, 1))


def test_passes_and_points_are_told_by_their_least_and_most() -> None:
    assert (typical().passes, typical().points) == ("20 to 200", "4,000,000")
    assert typical(SIZES).points == "8000 to 4,000,000"


def test_devices_are_headings_where_there_are_several() -> None:
    _, tables = study_and_tables(LOOPS, SIZES)

    both, alone = (
        [str(row.heading) for row in view_of(LOOPS, tables, devices=devices).times_table().rows if row.heading]
        for devices in (["cpu", "cuda"], ["cuda"])
    )

    assert (both, alone) == (["CPU", "CUDA"], [])


def test_that_the_bound_is_no_training_is_said_where_there_is_one() -> None:
    _, tables = study_and_tables(LOOPS, SIZES)

    on_gpu, on_cpu = (
        " ".join(view_of(LOOPS, tables, devices=[device]).times_table().notes) for device in ("cuda", "cpu")
    )

    assert ("is no training" in on_gpu, "is no training" in on_cpu) == (True, False)


def test_an_experiment_without_loops_has_none_to_show() -> None:
    _, tables = study_and_tables("workers", LOOPS)

    view = view_of("workers", tables)

    assert (view.measured, view.passes) == ([], "no")
