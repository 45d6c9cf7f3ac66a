"""Whether a rule of the advice can be told at all, on rows written by hand."""

from pathlib import Path
from typing import Any

import pytest

from gpu_report.traces.advice import RULES, Rule
from gpu_report.traces.copies import COPIES
from gpu_report.traces.idle import LAUNCHES
from gpu_report.traces.memory import MEMORY
from gpu_report.traces.quality import QUALITY, row_of
from gpu_report.traces.steps import STEPS
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import operation, step, trace_of
from tests.unit.traces.limited import H100, LIMITED, advice_rows, launch_row, rules, step_row, unanswered, waiting


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return trace_of(tmp_path, step(1, 0, 100), operation("aten::mm", 10, 10), deviceProperties=[H100])


@pytest.mark.parametrize(
    ("rule", "spoils"),
    [(rule, f"{table.name}.{column}") for rule in RULES for table, columns in rule.reads.items() for column in columns],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_rule_keeps_silent_where_a_column_that_it_reads_is_spoiled(rule: Rule, spoils: str, tmp_path: Path) -> None:
    failed, trace = row_of("any", 0, 0, passed=False, text="so it is", spoils=[spoils]), waiting(tmp_path)

    assert rule.name in rules({**LIMITED, QUALITY: []}, trace)
    assert rule.name not in rules({**LIMITED, QUALITY: [failed]}, trace)
    assert unanswered({**LIMITED, QUALITY: [failed]}, trace)[rule.name] == "so it is"


def test_a_missing_number_is_not_taken_for_zero(trace: Trace) -> None:
    tables = {STEPS: [step_row(device_busy_ms=None)]}

    assert rules(tables, trace) == []
    assert unanswered(tables, trace)["accelerator busy"] == "its table steps lacks device_busy_ms"


@pytest.mark.parametrize(
    ("rule", "properties"),
    [
        ("tensor cores", []),
        ("peak memory", [{}]),
        ("peak memory", [{**H100, "totalGlobalMem": 0}]),
        ("peak memory", [{**H100, "totalGlobalMem": 10**400}]),
    ],
)
def test_what_the_trace_does_not_say_of_its_device_is_not_taken_for_no(
    rule: str, properties: list[dict[str, Any]], tmp_path: Path
) -> None:
    trace = trace_of(tmp_path, step(1, 0, 100), deviceProperties=properties)

    assert unanswered(LIMITED, trace)[rule].startswith("it does not say")


def test_memory_that_was_not_recorded_is_not_taken_for_enough(trace: Trace) -> None:
    assert unanswered({**LIMITED, MEMORY: []}, trace) == {"peak memory": "it has no memory of an accelerator"}


def test_a_rule_that_finds_nothing_is_answered(tmp_path: Path) -> None:
    pascal = trace_of(tmp_path, step(1, 0, 100), deviceProperties=[{**H100, "computeMajor": 6}])

    assert unanswered({**LIMITED, COPIES: []}, pascal) == {}


def test_wall_time_of_one_step_and_launches_of_another_tell_nothing_together(trace: Trace) -> None:
    failed = [
        row_of("any", 0, 0, passed=False, text="", spoils=[table], step=number)
        for number, table in ((1, "steps"), (2, "launches"))
    ]
    tables = {STEPS: [step_row(), step_row(step=2)], LAUNCHES: [launch_row(), launch_row(step=2)], QUALITY: failed}

    assert "launch-bound" in unanswered(tables, trace)


def test_the_share_that_launches_take_is_one_of_the_steps_whose_launches_are_told(trace: Trace) -> None:
    failed = row_of("any", 0, 0, passed=False, text="", spoils=["launches"], step=2)
    rows = [launch_row(launch_bound_share=0.3), launch_row(step=2, launch_bound_share=0.0)]

    advice = advice_rows({STEPS: [step_row(), step_row(step=2)], LAUNCHES: rows, QUALITY: [failed]}, trace)

    assert [row["value"] for row in advice if row["rule"] == "launch-bound"] == [pytest.approx(0.3)]
