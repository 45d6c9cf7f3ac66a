import pytest

from gpu_report.printing.number_format import NOT_MEASURED, Quantity, quantity
from gpu_report.writing.table import NOTHING, Text, aligned


def test_a_column_has_room_for_the_longest_of_each_part() -> None:
    numbers = [quantity(12.25, low=11.9, high=12.6), quantity(-7.0), Quantity(value="3,021")]
    column = aligned(numbers)

    assert [str(cell) for cell in column.cells] == [
        r"12.25 & $\pm$\,\gpurepnum{0.35}",
        "-7.00 & ",
        "3021 & ",
    ]
    assert str(column.column_type) == r"\gpurepnumbers{-4.2}@{\,}l"
    assert column.width == 2
    assert str(aligned(numbers, intervals=False).cells[0]) == "12.25"


@pytest.mark.parametrize(
    ("numbers", "column_type"),
    [
        ((12.3, 4560.0), r"\gpurepplainnumbers{4.1}"),
        ((12300.0,), r"\gpurepnumbers{5}"),  # its digits are grouped
        ((1.5e-12,), r"\gpurepnumbers{1.2e-2}"),
        ((1.5e12, 2e9), r"\gpurepnumbers{1.2e2}"),
    ],
)
def test_a_column_has_room_for_digits_and_powers_of_ten(
    numbers: tuple[float, ...], column_type: str
) -> None:
    assert str(aligned([*map(quantity, numbers)]).column_type) == column_type


@pytest.mark.parametrize(
    ("shown", "cell"),
    [
        (Quantity(value=NOT_MEASURED), f"{{{NOTHING}}}"),
        (Quantity(value="$<$0.1", unit="%"), r"{$<$\gpurepnum{0.1}}"),
    ],
)
def test_what_is_no_number_is_not_aligned(shown: Quantity, cell: str) -> None:
    assert str(aligned([shown]).cells[0]) == cell


def test_an_interval_that_is_longer_on_one_side_is_written_out() -> None:
    column = aligned([quantity(13.0, low=11.0, high=30.0), quantity(1.5, low=1.4, high=1.6)])

    assert [str(cell) for cell in column.cells] == [
        r"13 & (\gpurepnum{11} to \gpurepnum{30})",
        r"1.50 & $\pm$\,\gpurepnum{0.10}",
    ]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        (31_037_763, r"\gpurepnum{31037763}"),
        (
            "7.51 GB/s (6.02 to 8,000)",
            r"\gpurepnum{7.51}\,GB/s (\gpurepnum{6.02} to \gpurepnum{8000})",
        ),
        ("16, 32", r"\gpurepnum{16}, \gpurepnum{32}"),
        ("", NOTHING),
    ],
)
def test_a_number_in_a_column_of_texts_follows_the_settings_of_the_document_too(
    text: object, cell: str
) -> None:
    assert str(Text("ours", is_number=True).cell({"ours": text})) == cell
