import math
from typing import Any

import pytest

from gpu_report.errors import ReportError
from gpu_report.glossary import SHOWN, Metric
from gpu_report.printing.number_format import NOT_MEASURED
from gpu_report.writing.table import TableBlock, Text, UnknownColumnError, metric, table

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


def test_the_header_has_the_unit_and_the_cells_have_not() -> None:
    assert [str(unit) for unit in block().units] == [
        "{}",
        r"\multicolumn{2}{c}{\ensuremath{\times}}",
    ]
    assert str(block().rows[1].cells[1]) == r"2.00 & $\pm$\,0.50"


def test_an_interval_is_beside_its_number_unless_it_is_left_out() -> None:
    assert [str(row.cells[1]) for row in block().rows[:2]] == ["1.00 & ", r"2.00 & $\pm$\,0.50"]
    assert str(block(intervals=False).rows[1].cells[1]) == "2.00"
    assert [(each.has_intervals, each.width) for each in (block(), block(intervals=False))] == [
        (True, 3),
        (False, 2),
    ]


def test_every_number_of_a_table_has_a_key_of_its_own() -> None:
    twins = [ROWS[1], {**ROWS[1], "speedup": 3.0}, ROWS[2]]

    found = block(twins).numbers

    assert [(number.row, number.metric, number.quantity.value) for number in found] == [
        ("b", "speedup", "2.00"),
        ("b/2", "speedup", "3.0"),
    ]


def test_the_list_of_tables_has_the_first_clause_of_the_caption_or_a_title() -> None:
    assert str(block(caption="What it is: and more. Then more.").title) == "What it is"
    assert str(block(title="In short").title) == "In short"


def test_a_row_without_numbers_says_why_across_their_columns() -> None:
    assert str(block().rows[2].cells[1]) == r"\multicolumn{2}{l}{\itshape out of memory}"


def test_a_flag_is_a_letter_behind_the_name_and_is_explained_below() -> None:
    assert str(block().rows[1].cells[0]) == r"b\textsuperscript{a}"
    (note,) = block().notes
    assert str(note).startswith(r"\textsuperscript{a} ")
    assert "interval" in note


def test_after_the_last_letter_flags_have_two() -> None:
    rows = [{**ROWS[0], "name": str(number), "marks": [f"reason {number}"]} for number in range(28)]

    found = block(rows)

    assert str(found.rows[27].cells[0]) == r"27\textsuperscript{ab}"
    assert str(found.notes[27]) == r"\textsuperscript{ab} reason 27."


def test_names_are_escaped() -> None:
    assert str(block().rows[0].cells[0]) == r"a\_1"


def test_rows_of_another_group_are_set_off_but_the_first() -> None:
    groups = {"a_1": 1, "b": 1, "c": 2}

    assert [row.starts_group for row in block(group=lambda row: groups[row["name"]]).rows] == [
        False,
        False,
        True,
    ]


def test_long_texts_get_a_column_that_breaks_lines_and_short_ones_do_not() -> None:
    field = Text("text", "name", width=0.25)

    assert field.column_type([{"name": "short"}]) == "l"
    assert field.column_type([{"name": "k" * 50}]) == r"\gpureptexts{0.25}"


def test_a_name_too_long_for_a_table_loses_its_middle() -> None:
    cell = str(Text("variant", "name", width=0.3).cell({"name": "a" + "k" * 300 + "z"}))

    assert len(cell.replace(r"\gpurepbreak{}", "").replace(r"\dots{}", ".")) == 60


def test_a_long_table_is_cut_where_a_group_begins() -> None:
    pages = block([*[ROWS[0]] * 4, *[ROWS[2]] * 3], group=lambda row: row["name"]).pages(5)

    assert [len(page.rows) for page in pages] == [4, 3]


def test_a_table_that_fits_a_page_stays_as_it_is() -> None:
    assert block().pages(40) == [block()]


def test_a_long_table_is_cut_into_pages_whose_labels_differ() -> None:
    pages = block().pages(2)

    assert [len(page.rows) for page in pages] == [2, 1]
    assert [page.name for page in pages] == ["t", "t_2"]
    assert pages[1].caption.endswith("(continued)")


def test_a_long_name_made_of_parts_goes_on_in_the_line_below() -> None:
    rows = [{**ROWS[1], "name": "workers4+pinned+prefetch+autotune+channelslast+fused"}, ROWS[1]]

    first, second = block(
        rows, columns=[Text("optimization", "name", parts_at=24)], flags=lambda _: []
    ).rows

    above, below = (
        str(cells[0]).replace(r"\gpurepbreak{}", "") for cells in (first.cells, first.below)
    )
    assert above == "workers4+pinned+prefetch+"
    assert below.endswith("autotune+channelslast+fused")
    assert second.below == ()


def test_rows_that_share_a_heading_are_below_it_on_every_page() -> None:
    headings = {"a_1": "U-Net", "b": "LSTM", "c": "LSTM"}

    whole = block(heading=lambda row: headings[row["name"]])
    _, last = whole.pages(4)

    assert [str(row.heading) for row in whole.rows] == ["U-Net", "LSTM", ""]
    assert str(last.rows[0].heading) == "LSTM (continued)"


def test_what_was_not_prepared_took_no_time_to_report() -> None:
    rows = [{"preparation_cold_s": 0.0}, {"preparation_cold_s": 1.5}]

    assert [found.plain(unit=False) for found in SHOWN["preparation_cold"].quantities(rows)] == [
        NOT_MEASURED,
        "1.50",
    ]


def test_words_in_place_of_some_numbers_are_printed_once_for_those_side_by_side() -> None:
    rows = [
        {"name": "a", "x": 1.0, "y": math.nan, "z": math.nan},
        {"name": "b", "x": 1.0, "y": 2.0, "z": 3.0},
    ]
    columns = [Text("name"), *(metric(name, name) for name in "xyz")]

    found = block(
        rows,
        columns=columns,
        flags=lambda _: (),
        instead=lambda row, each: "lost" if math.isnan(row[each.column]) else "",
    )

    assert [str(cell) for cell in found.rows[0].cells] == [
        "a",
        "1.00",
        r"\multicolumn{2}{c}{\itshape lost}",
    ]
    assert len(found.rows[1].cells) == 4


def test_a_text_that_no_row_has_or_that_shall_differ_and_does_not_is_no_column() -> None:
    columns = [
        Text("variant", "name"),
        Text("why"),
        Text("kind", lambda _: "same", if_differs=True),
    ]

    assert [str(text) for text in block(ROWS[:2], columns=columns).header] == ["{variant}"]
    assert [str(text) for text in block(columns=columns).header] == ["{variant}", "{why}"]


def test_a_table_without_rows_has_no_page() -> None:
    assert table([], name="t", caption="None.", columns=[Text("variant")]) == []


def test_a_column_of_numbers_with_prefixes_has_that_of_their_median() -> None:
    rates = metric("rate", "rate", unit="FLOP/s")

    assert [
        found.plain() for found in rates.quantities([{"rate": 2e12}, {"rate": 3e12}, {"rate": 5e9}])
    ] == [
        "2.00 TFLOP/s",
        "3.00 TFLOP/s",
        "0.00500 TFLOP/s",
    ]


def test_a_difference_too_small_to_show_is_no_power_of_ten() -> None:
    (row,) = block(
        [{"name": "a", "off": 1.4e-6}],
        columns=[Text("name"), metric("off", "off", "small percent")],
        flags=lambda _: (),
        instead=lambda *_: "",
    ).rows

    assert str(row.cells[1]) == "{$<$0.1}"


def test_a_metric_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(ReportError, match=r"there is no metric 'speed'; use one of .*speedup"):
        metric("speed")


@pytest.mark.parametrize("column", [Text("varyant"), metric("speedop", "speedup")])
def test_a_column_that_the_rows_do_not_have_is_an_error_that_names_those_they_have(
    column: Text | Metric,
) -> None:
    with pytest.raises(
        UnknownColumnError,
        match=r"there is no column '(varyant|speedop)'; use one of name, .*speedup",
    ):
        block(columns=[Text("variant", "name"), column])


def test_a_number_cannot_be_written_in_a_way_that_there_is_not() -> None:
    with pytest.raises(
        ReportError, match=r"no number is written as 'percents'; use one of .*share"
    ):
        metric("speedup", "speedup", "percents")
