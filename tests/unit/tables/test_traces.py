"""What the traces of all variants say, by hand: shares over the trusted steps, gaps by cause,
kernels, doubts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from gpu_report.storage.columns import Table
from gpu_report.tables.traces import STEP_PARTS
from gpu_report.traces.advice import ADVICE, ADVICE_OF
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.operations import CATEGORY_TIMES
from gpu_report.traces.quality import QUALITY
from gpu_report.traces.ranks import COLLECTIVES, RANKS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import EMPTY_TABLES as EMPTY
from gpu_report.traces.tables import TraceTables, slowness_of_profiled_steps
from gpu_report.traces.timeline import TIMELINE
from tests.tabulated import tabulate_profiles
from tests.trace_frames import with_failed_check

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


def with_steps(*steps: Mapping[str, float | None]) -> TraceTables:
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

    assert (row["steps"], row["wall_ms"]) == (2, 20.0)
    assert (row["kernel_share"], row["other_share"]) == (0.5, 0.5)
    assert (row["device_busy_share"], row["device_idle_share"]) == (0.3, 0.7)


def worked(*kernels: tuple[str, str, float], **step: float) -> TraceTables:
    """Two steps of 10 ms in which the GPU works for 6, by these kernels: name, category and sum of
    their times. `step` has other cells of both.
    """
    tables = with_steps(step, step)
    rows = [
        {"name": name, "category": category, "total_ms": total_ms}
        for name, category, total_ms in kernels
    ]
    return with_rows(tables, KERNELS, rows)


def test_the_categories_of_a_step_and_its_idle_time_sum_to_it() -> None:
    # Both streams together ran for 24 ms in the 12 ms in which any of them did.
    tables = worked(
        ("sm90_xmma_fprop", "convolution", 12.0),
        ("void cudnn::nchwToNhwcKernel", "convolution", 8.0),
        ("multi_tensor_apply", "optimizer", 4.0),
    )

    table = table_of("step_categories", {CUDA: tables})

    times = dict(zip(table["category"], table["ms_per_step"], strict=True))
    assert times == pytest.approx(
        {"convolution": 3.0, "layout conversion": 2.0, "optimizer": 1.0, "idle": 4.0}
    )
    assert table["share"].sum() == pytest.approx(1.0)


def test_communication_has_the_time_of_a_step_in_which_nothing_else_runs() -> None:
    # Its kernels ran for 8 ms in each step, waits and what kernels hid of them included.
    tables = worked(
        ("sm90_xmma_fprop", "convolution", 12.0),
        ("ncclDevKernel_AllReduce", "communication", 16.0),
        kernel_ms=5.5,
    )

    table = table_of("step_categories", {CUDA: tables})

    times = dict(zip(table["category"], table["ms_per_step"], strict=True))
    assert times == pytest.approx({"convolution": 5.5, "communication": 0.5, "idle": 4.0})


def test_kernels_of_a_cuda_graph_are_known_by_their_names() -> None:
    tables = worked(("sm90_xmma_fprop_implicit_gemm", "other", 12.0))
    in_graph = with_failed_check(tables, "kernels.category")

    table = table_of("step_categories", {CUDA: in_graph})

    assert [*table["category"]] == ["convolution", "idle"]


def test_on_the_cpu_the_categories_are_those_of_its_operations() -> None:
    rows = [
        {"device": "cpu", "category": "convolution", "self_ms": 12.0, "share": 0.75},
        {"device": "cpu", "category": "dispatch", "self_ms": 4.0, "share": 0.25},
    ]
    tables = with_rows(with_steps({}, {}), CATEGORY_TIMES, rows)

    table = table_of("step_categories", {CPU: tables})

    assert [*table["ms_per_step"]] == pytest.approx([6.0, 2.0, 2.0])
    for failed in ("steps.wall_ms", "steps.host_busy_ms"):
        for step in (-1, 1):
            in_doubt = with_failed_check(tables, failed, step=step)
            assert table_of("step_categories", {CPU: in_doubt}).empty


NOTHING = with_steps({"kernel_ms": None, "device_busy_ms": None, "device_idle_share": None})
TWO = with_steps({"kernel_ms": 2.0}, {"kernel_ms": 4.0, "loader_ms": 8.0})
SLOWED = with_failed_check(TWO, "steps.host_busy_ms")
NOT_TIMED = with_failed_check(TWO, "steps.host_busy_ms", "steps.device_idle_share")


@pytest.mark.parametrize(
    ("tables", "shares"),
    [
        (NOTHING, {"kernel": None, "device_busy": None, "device_idle": None}),
        (with_failed_check(TWO, "steps", step=1), {"kernel": 0.2, "loader": 0.0}),
        (with_failed_check(TWO, "steps.loader_ms"), {"kernel": 0.3, "loader": None}),
        (SLOWED, {"kernel": 0.3, "loader": None, "device_idle": 0.4, "other": None}),
        (NOT_TIMED, {"kernel": None, "device_busy": None, "device_idle": None}),
    ],
    ids=["no numbers", "one step", "one column", "slowed by the profiler", "longer than timed"],
)
def test_a_share_leaves_out_what_is_not_reliable_and_takes_no_other_with_it(
    tables: TraceTables, shares: dict[str, float | None]
) -> None:
    row = the_row(table_of("step_shares", {CUDA: tables}))

    assert row["wall_ms"] == 10.0
    for name, share in shares.items():
        if share is None:
            assert pd.isna(row[f"{name}_share"]), name
        else:
            assert row[f"{name}_share"] == pytest.approx(share), name


def launched(*rows: dict[str, float | None]) -> TraceTables:
    """Steps of 10 and 30 ms with these rows of launches."""
    tables = with_steps({"wall_ms": 10.0}, {"wall_ms": 30.0})
    return with_rows(tables, LAUNCHES, [{"step": step, **row} for step, row in enumerate(rows)])


def test_short_work_is_a_share_of_launches_and_a_queue_a_mean_over_time() -> None:
    tables = launched(
        {"launches": 100, "short_share": 0.5, "mean_queue": 4.0, "launch_bound_share": 0.2},
        {"launches": 300, "short_share": 0.1, "mean_queue": 8.0, "launch_bound_share": 0.4},
    )
    with_none = launched(
        {"launches": 0, "short_share": None}, {"launches": 300, "short_share": 0.1}
    )

    row = the_row(table_of("step_shares", {CUDA: tables}))
    graph = the_row(
        table_of("step_shares", {CUDA: with_failed_check(tables, "launches.mean_queue")})
    )

    assert row["launches_per_step"] == graph["launches_per_step"] == 200.0
    assert row["short_share"] == pytest.approx((50 + 30) / 400)
    assert row["mean_queue"] == pytest.approx((4 * 10 + 8 * 30) / 40)
    assert pd.isna(graph["mean_queue"])
    assert row["launch_bound_share"] == pytest.approx((2 + 12) / 40)
    launching = the_row(table_of("step_shares", {CUDA: with_none}))
    assert launching["short_share"] == pytest.approx(0.1)


def gap(cause: str, operation: str, total_ms: float, *, longest_us: float = 1.0) -> dict[str, Any]:
    times = {"gaps": 2, "total_ms": total_ms, "longest_us": longest_us, "share": total_ms / 100}
    return {"cause": cause, "operation": operation, **times}


def timeline(*lanes: tuple[str, str]) -> TraceTables:
    stretch = {"step": 1, "wall_ms": 9.0, "begin_ms": 0.0, "end_ms": 9.0, "busy_share": 1.0}
    rows = [{**stretch, "category": "copy", "lane": lane, "device": on} for lane, on in lanes]
    return with_rows(EMPTY, TIMELINE, rows)


BOTH_SIDES = timeline(("host 1", "cpu"), ("stream 7", "cuda"))


@pytest.mark.parametrize(
    ("spoils", "step", "shown"),
    [
        ("timeline on device", -1, [("host 1", "copy")]),
        ("timeline.category on device", -1, [("host 1", "copy"), ("stream 7", "")]),
        ("timeline", 0, [("host 1", "copy"), ("stream 7", "copy")]),
        ("timeline", 1, []),
    ],
)
def test_a_timeline_leaves_out_what_is_not_reliable_of_its_step(
    spoils: str, step: int, shown: list[tuple[str, str]]
) -> None:
    table = table_of("timelines", {CUDA: with_failed_check(BOTH_SIDES, spoils, step=step)})

    assert list(zip(table["lane"], table["category"], strict=True)) == shown


def test_advice_of_a_stored_trace_that_today_s_rules_would_not_give_does_not_count() -> None:
    values = {
        "data loader": ADVICE_OF["data loader"].threshold,
        "pageable copies": ADVICE_OF["pageable copies"].threshold / 2,
        "accelerator busy": ADVICE_OF["accelerator busy"].threshold,
        "given up": 1.0,
    }
    stored = [
        {"rule": rule, "value": value, "threshold": value / 2} for rule, value in values.items()
    ]

    row = the_row(table_of("trace_advice", {CUDA: with_rows(EMPTY, ADVICE, stored)}))

    assert (row["rank"], row["rule"]) == (1, "data loader")


def test_gaps_of_a_cause_beyond_the_third_operation_are_one_row() -> None:
    times_ms = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0}
    rows = [gap("host", name, time_ms) for name, time_ms in times_ms.items()]
    tables = with_rows(EMPTY, IDLE, [*rows, gap("host", "e", 1.0, longest_us=9.0)])

    table = table_of("idle_causes", {CUDA: tables})

    assert list(table["operation"]) == ["a", "b", "c", "(others)"]
    others = table.iloc[3][["gaps", "total_ms", "longest_us", "share"]].tolist()
    assert others == [4, 3.0, 9.0, pytest.approx(0.03)]


IDLING = with_rows(EMPTY, IDLE, [gap("host", "a", 1.0)])
WORKING = with_rows(
    EMPTY,
    KERNELS,
    [{"name": "k", "category": "copy", "operation": "aten::to", "launch_delay_us": 5.0}],
)


@pytest.mark.parametrize(
    ("table", "tables", "spoils"),
    [
        ("idle_causes", IDLING, "idle"),
        ("idle_causes", IDLING, "idle.cause"),
        ("top_kernels", WORKING, "kernels"),
    ],
)
def test_what_a_failed_check_invalidates_is_left_out_and_nothing_of_another_name(
    table: str, tables: TraceTables, spoils: str
) -> None:
    assert table_of(table, {CUDA: with_failed_check(tables, spoils)}).empty
    assert len(table_of(table, {CUDA: with_failed_check(tables, f"{spoils}ness")})) == 1


def test_what_the_launching_call_shows_is_left_out_where_no_launch_is_reliable() -> None:
    tables = with_failed_check(WORKING, "kernels.operation", "kernels.launch_delay_us")

    row = the_row(table_of("top_kernels", {CUDA: tables}))

    assert (row["operation"], row["category"]) == ("", "copy")
    assert pd.isna(row["launch_delay_us"])


def with_ranks(*waits_ms: float | None) -> TraceTables:
    """Two ranks with a step for each number, which the first waits; in each step they exchange
    once.
    """
    times = {"wall_ms": 10.0, "communication_ms": 3.0, "exposed_ms": 1.0}
    exchange = {"operation": "all-reduce", "bytes": 64.0}
    steps = [(rank, step, wait) for rank in (0, 1) for step, wait in enumerate(waits_ms)]
    ranks = [
        {"rank": rank, "step": step, **times, "wait_ms": wait if rank == 0 or wait is None else 0.0}
        for rank, step, wait in steps
    ]
    exchanges = [
        {"step": step, "rank": rank, **exchange, "duration_ms": 2.0 - rank}
        for rank, step, _ in steps
    ]
    return with_rows(with_rows(EMPTY, RANKS, ranks), COLLECTIVES, exchanges)


@pytest.mark.parametrize(
    ("waits_ms", "share", "is_slow"),
    [
        ((2.0, 3.0, 1.0, 3.0, 2.0), 0.2, [False, True]),
        ((1.9, 1.9, 0.1, 3.0, 1.9), 0.19, [False, False]),
        ((None, 2.0), None, [False, False]),
    ],
)
def test_each_rank_has_the_median_of_its_steps_and_the_one_that_the_other_waits_for_is_slow(
    waits_ms: tuple[float | None, ...], share: float | None, is_slow: list[bool]
) -> None:
    table = table_of("ranks", {CUDA: with_ranks(*waits_ms)})

    assert table["wait_share"].tolist() == pytest.approx(
        [math.nan] * 2 if share is None else [share, 0.0], nan_ok=True
    )
    assert list(table["is_slow"]) == is_slow
    assert list(table["communication_ms"]) == [3.0, 3.0]


def test_a_rank_that_the_profiler_may_have_slowed_is_not_called_slow() -> None:
    tables = with_ranks(2.0, 3.0, 1.0, 3.0, 2.0)
    found = [
        [*table_of("ranks", {CUDA: {**tables, QUALITY: [check]}})["is_slow"]]
        for check in map(slowness_of_profiled_steps, (1.09, 1.11))
    ]

    assert found == [[False, True], [False, False]]


def test_ranks_whose_traces_lost_work_have_no_rows() -> None:
    tables = with_failed_check(with_ranks(1.0, 2.0), "ranks", "collectives")

    assert table_of("ranks", {CUDA: tables}).empty
    assert table_of("collectives", {CUDA: tables}).empty
