import math
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.glossary import SHOWN
from gpu_report.printing.number_format import NOT_MEASURED, Quantity, quantity
from gpu_report.writing.table import NOTHING, aligned


def row(column: str, *values: float) -> dict[str, Any]:
    value, low, high = values if len(values) == 3 else (values[0], math.nan, math.nan)
    return {column: value, f"{column}_low": low, f"{column}_high": high}


def test_a_column_has_room_for_the_longest_of_each_part() -> None:
    column = aligned(
        [quantity(12.25, low=11.9, high=12.6), quantity(-7.0), Quantity(value="3,021")]
    )

    assert [str(cell) for cell in column.cells] == [r"12.25 & $\pm$\,0.35", "-7.00 & ", "3021 & "]
    assert str(column.column_type) == r"\gpurepnumbers{-4.2}@{\,}l"
    assert column.width == 2


def test_a_column_of_digits_and_a_point_is_not_parsed_unless_its_digits_may_be_grouped() -> None:
    assert (
        str(aligned([quantity(12.3), quantity(4560.0)]).column_type) == r"\gpurepplainnumbers{4.1}"
    )
    assert str(aligned([quantity(12300.0)]).column_type) == r"\gpurepnumbers{5}"


def test_numbers_too_small_to_write_out_have_room_for_their_power_of_ten() -> None:
    assert str(aligned([quantity(1.5e-12)]).column_type) == r"\gpurepnumbers{1.2e-2}"


def test_large_numbers_have_room_for_a_power_of_ten_without_a_sign() -> None:
    assert str(aligned([quantity(1.5e12), quantity(2e9)]).column_type) == r"\gpurepnumbers{1.2e2}"


def test_a_power_of_ten_beside_numbers_without_one_is_not_in_line_with_them() -> None:
    column = aligned(
        [quantity(12.25, low=11.9, high=12.6), quantity(8.9e11, low=8.79e11, high=9.15e11)]
    )

    assert [str(cell) for cell in column.cells] == [
        r"12.25 & $\pm$\,0.35",
        r"{\gpurepnum{8.90e11}} & ($8.79\times10^{11}$ to $9.15\times10^{11}$)",
    ]
    assert str(column.column_type) == r"\gpurepplainnumbers{2.2}@{\,}l"


def test_a_number_that_was_not_measured_is_a_dash_that_is_not_aligned() -> None:
    assert str(aligned([Quantity(value=NOT_MEASURED)]).cells[0]) == f"{{{NOTHING}}}"


def test_the_interval_can_be_left_out() -> None:
    assert str(aligned([quantity(12.0, low=11.5, high=12.5)], intervals=False).cells[0]) == "12.00"


def test_an_interval_that_is_longer_on_one_side_and_a_range_are_written_out() -> None:
    a_range = replace(quantity(1.5, low=1.4, high=1.6), is_range=True)
    column = aligned(
        [quantity(13.0, low=11.0, high=30.0), quantity(1.5, low=1.4, high=1.6), a_range]
    )

    assert [str(cell) for cell in column.cells] == [
        "13 & (11 to 30)",
        r"1.50 & $\pm$\,0.10",
        "1.50 & (1.40 to 1.60)",
    ]


def test_the_count_of_processes_says_whether_there_is_an_interval_or_a_range() -> None:
    ranges = [
        SHOWN["speedup"].quantity({**row("speedup", 2.0, 1.5, 2.5), "speedup_count": n}).is_range
        for n in (3, 4)
    ]

    assert ranges == [True, False]


def test_what_is_no_number_is_in_braces_as_it_is() -> None:
    assert str(aligned([Quantity(value="$<$0.1", unit="%")]).cells[0]) == "{$<$0.1}"


def test_a_column_has_one_unit_though_its_numbers_differ_in_size() -> None:
    rows = [row("step_time_ms", 2.0), row("step_time_ms", 4000.0)]

    assert SHOWN["step_time"].unit_of(rows) == "ms"
    assert [found.plain() for found in SHOWN["step_time"].quantities(rows)] == [
        "2.00 ms",
        "4000 ms",
    ]


@pytest.mark.parametrize(("milliseconds", "unit"), [([2000.0, 4000.0], "s"), ([2.0], "ms")])
def test_long_steps_are_in_seconds(milliseconds: list[float], unit: str) -> None:
    assert (
        SHOWN["step_time"].unit_of([row("step_time_ms", value) for value in milliseconds]) == unit
    )


def test_a_metric_without_any_number_is_in_no_table() -> None:
    assert not SHOWN["speedup"].is_in([row("speedup", math.nan)])
    assert SHOWN["speedup"].is_in([row("speedup", math.nan), row("speedup", 2.0)])
