import math
from typing import Any

import pytest

from gpu_report.number_format import NOT_MEASURED, Quantity, quantity
from gpu_report.writing.cells import NOTHING, aligned
from gpu_report.writing.metrics import METRICS


def row(column: str, *values: float) -> dict[str, Any]:
    value, low, high = values if len(values) == 3 else (values[0], math.nan, math.nan)
    return {column: value, f"{column}_low": low, f"{column}_high": high}


def test_numbers_of_a_column_have_the_same_room_after_the_point() -> None:
    cells = aligned([quantity(12.25), quantity(7.0), Quantity(value="3")])

    assert [str(cell.value) for cell in cells] == [r"12.2\phantom{0}", "7.00", r"3\phantom{.00}"]


def test_a_number_that_was_not_measured_is_a_dash() -> None:
    assert aligned([Quantity(value=NOT_MEASURED)])[0].value == NOTHING


def test_an_interval_stands_in_brackets_and_a_number_without_has_none() -> None:
    with_interval, without = aligned([quantity(12.0, low=11.5, high=12.5), quantity(12.0)])

    assert str(with_interval.interval) == "{[}11.50, 12.50{]}"
    assert str(without.interval) == ""


def test_a_column_has_one_unit_though_its_numbers_differ_in_size() -> None:
    rows = [row("step_time_ms", 2.0), row("step_time_ms", 4000.0)]

    assert METRICS["step_time"].unit(rows) == "ms"
    assert [str(cell.value) for cell in METRICS["step_time"].cells(rows)] == ["2.00", r"4000\phantom{.00}"]


@pytest.mark.parametrize(("milliseconds", "unit"), [([2000.0, 4000.0], "s"), ([2.0], "ms")])
def test_long_steps_are_in_seconds(milliseconds: list[float], unit: str) -> None:
    assert METRICS["step_time"].unit([row("step_time_ms", value) for value in milliseconds]) == unit


def test_a_metric_without_any_number_is_in_no_table() -> None:
    assert not METRICS["speedup"].is_in([row("speedup", math.nan)])
    assert METRICS["speedup"].is_in([row("speedup", math.nan), row("speedup", 2.0)])
