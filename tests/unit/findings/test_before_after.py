import math
from typing import Any

import pytest

from gpu_report.findings.before_after import derive_before_after
from gpu_report.findings.finding import Finding
from gpu_report.glossary import Row
from gpu_report.tables.before_after import BEFORE_AFTER, MEMORY, NO_CHANGE, NO_VERDICT, STATUS, TIME
from tests.unit.findings.editing import one


def row(verdict: str, *, what: str = TIME, name: str = "a", **cells: Any) -> Row:
    numbers = {column.name: math.nan for column in BEFORE_AFTER.columns}
    return {
        **numbers,
        "configuration": name,
        "compared": what,
        "verdict": verdict,
        "why": "a reason",
        **cells,
    }


def answers(*rows: Row, differences: tuple[str, ...] = ()) -> list[Finding]:
    return derive_before_after(
        rows, machine="xeon-2c", sides="Before: a. After: b", remarks=[], differences=differences
    )


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["slower", NO_VERDICT, NO_CHANGE], "yes"),
        (["faster", NO_VERDICT], "not resolved"),
        (["faster", NO_CHANGE, "not slower"], "no"),
    ],
)
def test_one_configuration_that_is_worse_is_enough_and_one_without_verdict_leaves_it_open(
    verdicts: list[str], expected: str
) -> None:
    found = one(answers(*map(row, verdicts)), "before_after_slower")

    assert found.verdict == expected
    assert all(f"{verdict} in 1" in found.statement.lower() for verdict in verdicts)


def test_each_thing_compared_has_its_own_answer() -> None:
    found = answers(row(NO_CHANGE), row("more memory", what=MEMORY))

    assert [(each.rule, each.verdict) for each in found[:2]] == [
        ("slower", "no"),
        ("memory", "yes"),
    ]


def test_a_configuration_that_fails_as_before_is_not_worth_an_answer() -> None:
    rules = [
        [each.rule for each in answers(row(verdict, what=STATUS))]
        for verdict in (NO_CHANGE, "fails")
    ]

    assert ["status" in found for found in rules] == [False, True]


def test_many_differences_are_counted_after_the_first() -> None:
    *_, last = answers(
        row(NO_CHANGE), differences=tuple(f"difference {number}" for number in range(100))
    )

    assert "difference 0" in last.statement
    assert "difference 99" not in last.statement
    assert "94 more differences" in last.statement
