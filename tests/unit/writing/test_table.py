import math
from typing import Any

import pytest

from gpu_report.errors import ReportError
from gpu_report.glossary import SHOWN, Metric
from gpu_report.writing.table import (
    LINES_PER_PAGE,
    TableBlock,
    Text,
    metric,
    table,
)

MISSING = math.nan
ROWS: list[dict[str, Any]] = [
    {
        "name": name,
        "marks": marks,
        "why": why,
        "speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
    }
    | {"quality": MISSING}
    for name, marks, why, speedup, low, high in (
        ("a_1", [], "", 1.0, 1.0, 1.0),
        ("b", ["high variance"], "", 2.0, 1.5, 2.5),
        ("c", [], "out of memory", MISSING, MISSING, MISSING),
    )
]


def block(rows: list[dict[str, Any]] = ROWS, **changes: Any) -> TableBlock:
    values: dict[str, Any] = {
        "name": "t",
        "caption": "What is in it.",
        "columns": [Text("variant", "name"), SHOWN["speedup"], SHOWN["quality"]],
        "instead": lambda row, _: row["why"],
        "flags": lambda row: row["marks"],
    }
    (page,) = table(rows, **{**values, **changes})
    return page


def test_a_column_without_any_number_is_left_out() -> None:
    assert [str(text) for text in block().header] == ["{variant}", r"\multicolumn{2}{c}{speedup}"]


def test_every_number_of_a_table_has_a_key_of_its_own() -> None:
    twins = [ROWS[1], {**ROWS[1], "speedup": 3.0}, ROWS[2]]

    found = block(twins).numbers

    assert [(number.key, number.quantity.value) for number in found] == [
        ("t/b/speedup", "2.00"),
        ("t/b/2/speedup", "3.0"),
    ]


def test_a_row_without_numbers_says_why_across_their_columns() -> None:
    assert str(block().rows[2].cells[1]) == r"\multicolumn{2}{l}{\itshape out of memory}"


def test_a_flag_is_a_letter_behind_the_name_and_is_explained_below() -> None:
    assert str(block().rows[1].cells[0]) == r"b\textsuperscript{a}"
    (note,) = block().notes
    assert str(note).startswith(r"\textsuperscript{a} ")
    assert "interval" in note


def test_a_note_explains_only_the_intervals_that_the_table_has() -> None:
    lopsided = {**ROWS[1], "speedup_high": 20.0}

    assert block(intervals=False).intervals == set()
    assert block().intervals == {"half"}
    assert block([ROWS[1], lopsided]).intervals == {"half", "ends"}


def test_a_long_table_is_cut_into_pages_whose_labels_differ() -> None:
    pages = block().pages(2)

    assert [len(page.rows) for page in pages] == [2, 1]
    assert [page.name for page in pages] == ["t", "t_2"]
    assert pages[1].caption.endswith("(continued)")


def test_a_page_explains_the_letters_of_its_own_rows_alone() -> None:
    marked, plain = ROWS[1], ROWS[0]

    first, *others = table(
        [marked, *[plain] * 2 * LINES_PER_PAGE],
        name="t",
        caption="What is in it.",
        columns=[Text("variant", "name"), SHOWN["speedup"]],
        flags=lambda row: row["marks"],
    )

    assert [len(page.notes) for page in (first, *others)] == [1, *(0 for _ in others)]
    assert others


def test_a_metric_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(ReportError, match=r"there is no metric 'speed'; use one of .*speedup"):
        metric("speed")


@pytest.mark.parametrize("column", [Text("varyant"), metric("speedop", "speedup")])
def test_a_column_that_the_rows_do_not_have_is_an_error_that_names_those_they_have(
    column: Text | Metric,
) -> None:
    with pytest.raises(
        ReportError,
        match=r"there is no column '(varyant|speedop)'; use one of name, .*speedup",
    ):
        block(columns=[Text("variant", "name"), column])


def test_a_number_cannot_be_written_in_a_way_that_there_is_not() -> None:
    with pytest.raises(
        ReportError, match=r"no number is written as 'percents'; use one of .*share"
    ):
        metric("speedup", "speedup", "percents")
