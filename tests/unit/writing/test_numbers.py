import csv
import io
from pathlib import Path

import pytest

from gpu_report.errors import TableError
from gpu_report.printing.number_format import Quantity
from gpu_report.workloads.textures import CLASSES
from gpu_report.writing.numbers import NUMBERS, method_numbers, numbers_csv, numbers_tex
from gpu_report.writing.table import KeyedNumber

ONE = KeyedNumber(
    key="a/b",
    quantity=Quantity(value="12,345.3", low="12,345.1", high="12,345.6", unit="%"),
    table="t.csv",
    run="cnn-cpu",
)


def test_of_two_numbers_with_one_key_the_first_counts() -> None:
    other = KeyedNumber(key="a/b", quantity=Quantity(value="7"), table="")

    assert numbers_tex([ONE, other], machine="m").count("{a/b}") == 1
    assert list(csv.reader(io.StringIO(numbers_csv([ONE, other]))))[1:] == [
        [
            "a/b",
            "12,345.3",
            "12,345.1",
            "12,345.6",
            "%",
            "12,345.3 % (12,345.1 to 12,345.6)",
            "t.csv",
            "cnn-cpu",
        ]
    ]


def test_a_list_that_is_cut_short_or_of_other_columns_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("key,text\n", encoding="utf-8")
    (tmp_path / "cut.csv").write_text(numbers_csv([ONE])[:-30], encoding="utf-8")

    for name in ("old.csv", "cut.csv"):
        with pytest.raises(TableError, match="make it again"):
            NUMBERS.read_rows(tmp_path / name)


def test_the_text_has_the_number_of_classes_that_resnets_are_built_with() -> None:
    numbers = {number.key: number.quantity.plain() for number in method_numbers()}

    assert numbers["network/resnet/classes"] == str(CLASSES)
