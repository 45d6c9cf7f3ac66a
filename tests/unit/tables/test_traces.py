"""What the traces of all variants say, by hand: shares over the trusted steps, gaps by cause,
kernels, doubts.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from gpu_report.storage.columns import Table
from gpu_report.tables.traces import ROWS_OF_PROFILE, STEP_PARTS
from gpu_report.traces.advice import ADVICE, UNANSWERED
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.quality import QUALITY, row_of
from gpu_report.traces.ranks import COLLECTIVES, RANKS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import EMPTY_TABLES as EMPTY
from gpu_report.traces.tables import TraceTables
from gpu_report.traces.timeline import TIMELINE
from tests.tabulated import tabulate_profiles
from tests.trace_frames import make_trace_tables, with_failed_check

CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "cnn-medium-cuda1-b64-w0-fp32-e3"
WHOLE_STEP = {"wall_ms": 10.0, "host_busy_ms": 8.0, "device_busy_ms": 6.0, "device_idle_share": 0.4}
NO_PARTS = dict.fromkeys([f"{part}_ms" for part in STEP_PARTS], 0.0)


def with_rows(tables: TraceTables, table: Table, rows: Sequence[dict[str, Any]]) -> TraceTables:
    """The rows in place of the table's own; columns that a row leaves out are empty, 0 or
    missing.
    """
    blank = {
        column.name: {"str": "", "int64": 0, "float64": None}[column.dtype]
        for column in table.columns
    }
    return {**tables, table: table.checked({**blank, **row} for row in rows)}


def with_steps(*steps: dict[str, float | None]) -> TraceTables:
    return with_rows(
        EMPTY,
        STEPS,
        [{**NO_PARTS, **WHOLE_STEP, "step": i, **step} for i, step in enumerate(steps)],
    )


def table_of(name: str, traces: dict[str, TraceTables]) -> pd.DataFrame:
    return tabulate_profiles(name, traces)


def the_row(table: pd.DataFrame) -> "pd.Series[Any]":
    assert len(table) == 1
    return table.iloc[0]


def test_shares_are_of_the_time_of_all_steps_and_not_the_mean_of_their_shares() -> None:
    tables = with_steps(
        {"wall_ms": 10.0, "kernel_ms": 10.0}, {"wall_ms": 30.0, "kernel_ms": 10.0, "other_ms": 20.0}
    )

    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row["steps"] == 2
    assert row["wall_ms"] == 20.0
    assert row["kernel_share"] == 0.5
    assert row["other_share"] == 0.5
    assert row["device_busy_share"] == 0.3
    assert row["device_idle_share"] == 0.7


@pytest.mark.parametrize("slug", [CPU, CUDA])
def test_the_parts_of_a_step_are_the_whole_of_it(slug: str) -> None:
    row = the_row(table_of("step_shares", {slug: make_trace_tables(slug)}))

    assert sum(row[f"{part}_share"] for part in STEP_PARTS) == pytest.approx(1.0)


def test_on_the_cpu_the_accelerators_parts_are_zero_and_its_own_columns_are_missing() -> None:
    row = the_row(table_of("step_shares", {CPU: make_trace_tables(CPU)}))

    assert list(row[["kernel_share", "memcpy_share", "memset_share"]]) == [0.0, 0.0, 0.0]
    assert (
        row[["device_busy_share", "device_idle_share", "exposed_copy_share", "launches_per_step"]]
        .isna()
        .all()
    )


def test_an_accelerator_whose_steps_have_no_number_for_it_did_not_do_nothing() -> None:
    tables = with_steps({"kernel_ms": None, "device_busy_ms": None, "device_idle_share": None})

    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row[["kernel_share", "device_busy_share", "device_idle_share"]].isna().all()


def test_a_step_that_is_invalidated_is_left_out_of_the_shares() -> None:
    tables = with_failed_check(with_steps({"kernel_ms": 2.0}, {"kernel_ms": 4.0}), "steps", step=1)

    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row["steps"] == 2
    assert row["kernel_share"] == pytest.approx(0.2)


def test_of_a_step_that_the_profiler_slowed_no_share_is_reported_though_its_length_is() -> None:
    tables = with_failed_check(
        with_steps({"kernel_ms": 2.0}), "steps.host_busy_ms", "steps.device_idle_share"
    )

    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row["wall_ms"] == 10.0
    assert row[[column for column in row.index if column.endswith("_share")]].isna().all()


def test_an_invalidated_column_takes_no_other_with_it() -> None:
    tables = with_failed_check(with_steps({"kernel_ms": 2.0, "loader_ms": 8.0}), "steps.loader_ms")

    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row["kernel_share"] == pytest.approx(0.2)
    assert pd.isna(row["loader_share"])


def launched(*rows: dict[str, float | None]) -> TraceTables:
    """Steps of 10 and 30 ms with these rows of launches."""
    tables = with_steps({"wall_ms": 10.0}, {"wall_ms": 30.0})
    return with_rows(tables, LAUNCHES, [{"step": step, **row} for step, row in enumerate(rows)])


def test_short_work_is_a_share_of_launches_and_a_queue_a_mean_over_time() -> None:
    tables = launched(
        {"launches": 100, "short_share": 0.5, "mean_queue": 4.0, "launch_bound_share": 0.2},
        {"launches": 300, "short_share": 0.1, "mean_queue": 8.0, "launch_bound_share": 0.4},
    )

    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row["launches_per_step"] == 200.0
    assert row["short_share"] == pytest.approx((50 + 30) / 400)
    assert row["mean_queue"] == pytest.approx((4 * 10 + 8 * 30) / 40)
    assert row["launch_bound_share"] == pytest.approx((2 + 12) / 40)


def test_a_step_that_launched_nothing_has_no_part_in_how_short_work_is() -> None:
    tables = launched({"launches": 0, "short_share": None}, {"launches": 300, "short_share": 0.1})

    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row["launches_per_step"] == 150.0
    assert row["short_share"] == pytest.approx(0.1)


def test_a_graph_invalidates_the_queue_and_not_the_number_of_launches() -> None:
    tables = with_failed_check(
        launched({"launches": 10, "mean_queue": 4.0}, {"launches": 10, "mean_queue": 4.0}),
        "launches.mean_queue",
    )

    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row["launches_per_step"] == 10.0
    assert pd.isna(row["mean_queue"])


def gap(cause: str, operation: str, total_ms: float, *, longest_us: float = 1.0) -> dict[str, Any]:
    return {
        "cause": cause,
        "operation": operation,
        "gaps": 2,
        "total_ms": total_ms,
        "longest_us": longest_us,
        "share": total_ms / 100,
    }


def test_gaps_of_a_cause_beyond_the_third_operation_are_one_row() -> None:
    rows = [
        gap("host", name, total) for name, total in {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0}.items()
    ]
    tables = with_rows(EMPTY, IDLE, [*rows, gap("host", "e", 1.0, longest_us=9.0)])

    table = table_of("idle_causes", {CUDA: tables})

    assert list(table["operation"]) == ["a", "b", "c", "(others)"]
    assert table.iloc[3][["gaps", "total_ms", "longest_us", "share"]].tolist() == [
        4,
        3.0,
        9.0,
        pytest.approx(0.03),
    ]


def test_the_cause_with_the_longest_gaps_in_all_comes_first() -> None:
    rows = [
        gap("launch", "a", 3.0),
        gap("host", "a", 2.0),
        gap("host", "b", 2.0),
        gap("unknown", "", 1.0),
    ]

    table = table_of("idle_causes", {CUDA: with_rows(EMPTY, IDLE, rows)})

    assert list(zip(table["cause"], table["operation"], strict=True)) == [
        ("host", "a"),
        ("host", "b"),
        ("launch", "a"),
        ("unknown", ""),
    ]


@pytest.mark.parametrize("spoiled", ["idle", "idle.cause"])
def test_gaps_whose_causes_are_not_reliable_are_left_out(spoiled: str) -> None:
    tables = with_rows(EMPTY, IDLE, [gap("host", "a", 1.0)])

    assert table_of("idle_causes", {CUDA: with_failed_check(tables, spoiled)}).empty
    assert len(table_of("idle_causes", {CUDA: with_failed_check(tables, "idleness")})) == 1


def kernels(count: int) -> TraceTables:
    rows = [
        {"name": f"kernel {i}", "category": "copy", "operation": "aten::to", "total_ms": float(i)}
        for i in range(count)
    ]
    return with_rows(EMPTY, KERNELS, [{**row, "launch_delay_us": 5.0} for row in rows])


def test_the_ten_longest_kernels_are_listed_from_the_top() -> None:
    table = table_of("top_kernels", {CUDA: kernels(12)})

    assert list(table["rank"]) == list(range(1, 11))
    assert list(table["name"]) == [f"kernel {i}" for i in range(11, 1, -1)]


def test_what_the_launching_call_shows_is_left_out_where_no_launch_is_reliable() -> None:
    table = table_of(
        "top_kernels",
        {CUDA: with_failed_check(kernels(1), "kernels.operation", "kernels.launch_delay_us")},
    )

    row = the_row(table)
    assert row["operation"] == ""
    assert pd.isna(row["launch_delay_us"])
    assert row["category"] == "copy"


def test_kernels_whose_times_are_not_reliable_are_left_out() -> None:
    assert table_of("top_kernels", {CUDA: with_failed_check(kernels(3), "kernels")}).empty


def test_advice_keeps_the_order_of_its_trace() -> None:
    tables = make_trace_tables(CUDA)
    twice = {
        **tables,
        ADVICE: [*tables[ADVICE], *({**row, "rule": "data loader"} for row in tables[ADVICE])],
    }

    table = table_of("trace_advice", {CUDA: twice})

    assert list(table["rank"]) == [1, 2]
    assert list(table["rule"]) == ["synchronising calls", "data loader"]


def test_a_rule_that_a_trace_cannot_answer_is_kept_with_the_reason() -> None:
    unanswered = UNANSWERED.checked([{"rule": "peak memory", "reason": "it has no memory"}])

    row = the_row(table_of("trace_unanswered", {CUDA: {**EMPTY, UNANSWERED: unanswered}}))

    assert (row["variant"], row["rule"], row["reason"]) == (CUDA, "peak memory", "it has no memory")


def test_a_doubt_is_a_check_that_failed_with_what_it_invalidates() -> None:
    passed = row_of("marked steps", 3, 1, passed=True, text="3 steps are marked", invalidates=())
    tables = with_failed_check(EMPTY, "steps", "launches", step=2, check="whole last step")

    row = the_row(table_of("trace_doubts", {CUDA: {**tables, QUALITY: [*tables[QUALITY], passed]}}))

    assert (row["check"], row["step"], row["spoils"]) == ("whole last step", 2, "steps, launches")
    assert (row["value"], row["limit"], row["text"]) == (2.0, 1.0, "2 were found; at most 1")


def timeline(*lanes: tuple[str, str]) -> TraceTables:
    rows = [
        {
            "step": 1,
            "wall_ms": 9.0,
            "lane": lane,
            "device": device,
            "end_ms": 9.0,
            "category": "copy",
            "busy_share": 1.0,
        }
        for lane, device in lanes
    ]
    return with_rows(EMPTY, TIMELINE, [{**row, "begin_ms": 0.0} for row in rows])


BOTH_SIDES = timeline(("host 1", "cpu"), ("stream 7", "cuda"))


def test_a_timeline_has_the_lanes_of_host_and_device_and_is_its_variants() -> None:
    table = table_of("timelines", {CUDA: BOTH_SIDES})

    assert list(table["lane"]) == ["host 1", "stream 7"]
    assert set(table["device"]) == {"cuda:1"}


def test_a_timeline_keeps_the_lanes_of_the_host_where_those_of_the_device_are_not_reliable() -> (
    None
):
    table = table_of("timelines", {CUDA: with_failed_check(BOTH_SIDES, "timeline on device")})

    assert list(table["lane"]) == ["host 1"]


def test_a_stretch_whose_category_alone_is_not_reliable_is_shown_without_one() -> None:
    table = table_of(
        "timelines", {CUDA: with_failed_check(BOTH_SIDES, "timeline.category on device")}
    )

    assert list(table["category"]) == ["copy", ""]


def test_a_timeline_of_another_step_than_the_invalidated_one_is_shown() -> None:
    assert (
        len(table_of("timelines", {CUDA: with_failed_check(BOTH_SIDES, "timeline", step=0)})) == 2
    )
    assert table_of("timelines", {CUDA: with_failed_check(BOTH_SIDES, "timeline", step=1)}).empty


def test_a_variant_that_was_not_profiled_has_no_rows_in_any_table() -> None:
    assert all(
        tabulate_profiles(table.name, {CPU: EMPTY, CUDA: EMPTY}).empty for table in ROWS_OF_PROFILE
    )


def with_ranks(*waits_ms: float | None) -> TraceTables:
    """Two ranks with a step for each number, which the first waits; in each step they exchange
    once.
    """
    steps = list(enumerate(waits_ms))
    tables = with_rows(
        EMPTY,
        RANKS,
        [
            {
                "rank": rank,
                "step": step,
                "wall_ms": 10.0,
                "communication_ms": 3.0,
                "exposed_ms": 1.0,
                "wait_ms": each,
            }
            for rank in (0, 1)
            for step, each in (
                (step, wait_ms if rank == 0 or wait_ms is None else 0.0) for step, wait_ms in steps
            )
        ],
    )
    return with_rows(
        tables,
        COLLECTIVES,
        [
            {
                "step": step,
                "rank": rank,
                "operation": "all-reduce",
                "bytes": 64.0,
                "duration_ms": 2.0 - rank,
            }
            for step, _ in steps
            for rank in (0, 1)
        ],
    )


@pytest.mark.parametrize(
    ("waits_ms", "share", "is_slow"),
    [
        ((2.0, 3.0, 1.0, 3.0, 2.0), 0.2, [False, True]),
        ((1.9, 1.9, 0.1, 3.0, 1.9), 0.19, [False, False]),
    ],
)
def test_each_rank_has_the_median_of_its_steps_and_the_one_that_the_other_waits_for_is_slow(
    waits_ms: tuple[float, ...], share: float, is_slow: list[bool]
) -> None:
    table = table_of("ranks", {CUDA: with_ranks(*waits_ms)})

    assert list(table["wait_share"]) == pytest.approx([share, 0.0])
    assert list(table["is_slow"]) == is_slow
    assert list(table["communication_ms"]) == [3.0, 3.0]


def test_where_waits_are_unknown_no_rank_is_slow() -> None:
    table = table_of("ranks", {CUDA: with_ranks(None, 2.0)})

    assert table["wait_ms"].isna().all()
    assert not table["is_slow"].any()


def test_a_collective_of_all_ranks_is_one_row() -> None:
    row = the_row(table_of("collectives", {CUDA: with_ranks(1.0, 1.0, 1.0)}))

    assert (row["operation"], row["steps"], row["bytes"], row["longest_ms"]) == (
        "all-reduce",
        3,
        64.0,
        2.0,
    )


def test_ranks_whose_traces_lost_work_have_no_rows() -> None:
    tables = with_failed_check(with_ranks(1.0, 2.0), "ranks", "collectives")

    assert table_of("ranks", {CUDA: tables}).empty
    assert table_of("collectives", {CUDA: tables}).empty
