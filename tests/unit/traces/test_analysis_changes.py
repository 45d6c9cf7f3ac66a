"""What changed between two traces, per step."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.analysis import TRACE_CHANGES, AnalysedTrace, change_rows
from gpu_report.traces.attribution import attribute
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.quality import QUALITY, row_of
from gpu_report.traces.ranks import exchange_of
from gpu_report.traces.steps import PARTS_OF_STEP, STEPS
from tests.unit.traces.by_hand import step, trace_of

Row = dict[str, Any]


def operation_row(name: str, self_ms: float, calls: int = 4, *, device: str = "cpu") -> Row:
    return {"name": name, "device": device, "category": "copy", "self_ms": self_ms, "calls": calls}


def analysed(
    *operations: Row, steps: int = 2, quality: tuple[Row, ...] = (), step_ms: float = 10.0
) -> AnalysedTrace:
    return AnalysedTrace(
        path=Path("trace.json"),
        rank=None,
        device="cuda",
        device_name="",
        has_steps=True,
        exchange=exchange_of(*attribute(trace_of(step(1, 0, 1)))),
        rows={
            OPERATIONS: operations,
            CATEGORY_TIMES: [
                {
                    "device": device,
                    "category": "copy",
                    "self_ms": sum(row["self_ms"] for row in rows),
                    "calls": 1,
                }
                for device in ("cpu", "cuda")
                if (rows := [row for row in operations if row["device"] == device])
            ],
            STEPS: [
                {
                    "step": number,
                    **dict.fromkeys(PARTS_OF_STEP, 0.0),
                    "wall_ms": step_ms,
                    "kernel_ms": 2.0,
                    "other_ms": step_ms - 2,
                }
                for number in range(steps)
            ],
            QUALITY: quality,
        },
    )


def of(rows: list[Row], name: str, device: str = "cpu") -> Row:
    (row,) = (row for row in rows if (row["name"], row["device"]) == (name, device))
    return row


def changes(a: AnalysedTrace, b: AnalysedTrace) -> list[Row]:
    return [dict(row) for row in change_rows(a.rows, b.rows)]


def test_traces_of_different_length_are_compared_per_step() -> None:
    rows = changes(
        analysed(operation_row("aten::mm", 8.0)), analysed(operation_row("aten::mm", 12.0), steps=4)
    )

    row = of(rows, "aten::mm")
    assert (row["a_ms"], row["b_ms"], row["change_ms"], row["ratio"]) == (4.0, 3.0, -1.0, 0.75)
    assert (row["a_calls"], row["b_calls"]) == (2.0, 1.0)


def test_the_parts_change_by_as_much_as_the_step() -> None:
    rows = changes(analysed(step_ms=10.0), analysed(step_ms=30.0))

    parts = [row for row in rows if row["level"] == "part"]
    assert (parts[0]["name"], parts[0]["change_ms"]) == ("nothing recorded", 20.0)
    assert sum(row["change_ms"] for row in parts) == of(rows, "wall time", "")["change_ms"]


def test_a_number_that_the_gate_invalidates_is_missing_even_where_the_trace_has_no_such_row() -> (
    None
):
    failed = row_of("graphs", 1, 0, passed=False, text="", invalidates=["operations on device"])
    before = analysed(operation_row("aten::mm", 8.0, device="cuda"), operation_row("aten::mm", 1.0))
    after = analysed(operation_row("aten::mm", 2.0), quality=(failed,))

    rows = changes(before, after)

    on_device = of(rows, "aten::mm", "cuda")
    assert (on_device["b_ms"], on_device["change_ms"], on_device["ratio"]) == (None, None, None)
    assert on_device["a_ms"] == 4.0
    assert of(rows, "aten::mm")["change_ms"] == 0.5


_OPERATIONS = st.lists(
    st.builds(
        operation_row,
        st.sampled_from("abc"),
        st.floats(0, 1e6),
        st.integers(1, 99),
        device=st.sampled_from(["cpu", "cuda"]),
    ),
    unique_by=lambda row: (row["name"], row["device"]),
)


@given(_OPERATIONS)
def test_a_trace_compared_with_itself_has_not_changed(operations: list[Row]) -> None:
    rows = changes(analysed(*operations), analysed(*operations))

    assert all(row["change_ms"] == 0 for row in rows)
    assert all(row["ratio"] in (1.0, None) for row in rows)
    TRACE_CHANGES.rows_to_csv(rows)


@given(_OPERATIONS, _OPERATIONS)
def test_exchanging_the_traces_turns_every_change_round(
    first: list[Row], second: list[Row]
) -> None:
    there = changes(analysed(*first), analysed(*second, steps=3))
    back = changes(analysed(*second, steps=3), analysed(*first))

    assert [(row["name"], row["change_ms"]) for row in there] == [
        (row["name"], pytest.approx(-row["change_ms"], abs=0)) for row in back
    ]
