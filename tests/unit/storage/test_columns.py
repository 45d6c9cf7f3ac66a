"""A declared table refuses what does not fit, and its CSV gives back what was written."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.errors import TableError
from gpu_report.storage.columns import Column, Table

KERNELS = Table(
    name="kernels",
    meaning="One row per kernel.",
    columns=(
        Column(name="name", dtype="str", meaning="Name."),
        Column(name="calls", dtype="int64", unit="1", meaning="Calls."),
        Column(name="total_ms", dtype="float64", unit="ms", meaning="Time."),
        Column(name="library", dtype="bool", meaning="From a library."),
    ),
)
ROW = {"name": "gemm<float, 4>", "calls": 3, "total_ms": 0.1, "library": True}


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.text(st.characters(exclude_categories=["Cs"])),
                "calls": st.integers(-(2**63), 2**63 - 1),
                "total_ms": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                "library": st.booleans(),
            }
        ),
        max_size=5,
    )
)
def test_a_table_read_back_is_the_table_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    path = tmp_path_factory.mktemp("tables") / "kernels.csv"
    path.write_text(KERNELS.rows_to_csv(rows), encoding="utf-8", newline="")

    read = KERNELS.read_rows(path)

    pd.testing.assert_frame_equal(KERNELS.read_csv(path), KERNELS.from_rows(rows))
    pd.testing.assert_frame_equal(KERNELS.from_rows(read), KERNELS.from_rows(rows))
    assert KERNELS.rows_to_csv(read) == path.read_bytes().decode()


def test_a_text_cannot_turn_around_or_hide_what_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "kernels.csv"
    name = "\u202egemm\u2066\x1b[2J\x00\r\x85, \xe9\n\U0001f600"
    seen = "\\u202egemm\\u2066\\x1b[2J\\x00\\r\\x85, \xe9\n\U0001f600"

    path.write_text(KERNELS.rows_to_csv([{**ROW, "name": name}]), encoding="utf-8", newline="")

    assert f'"{seen}",3' in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace(seen, name), encoding="utf-8", newline="")
    assert [row["name"] for row in KERNELS.read_rows(path)] == [seen]


def test_an_empty_table_keeps_its_columns_and_dtypes(tmp_path: Path) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(KERNELS.rows_to_csv([]))

    read = KERNELS.read_csv(path)

    assert read.empty
    assert [str(dtype) for dtype in read.dtypes][1:] == ["int64", "float64", "bool"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"calls": 1.5}, "1.5"),
        ({"calls": True}, "True"),
        ({"name": None}, "None"),
        ({"library": None}, "None"),
        ({"total_ms": "0.1"}, "'0.1'"),
        ({"total_ms": float("inf")}, "inf"),
        ({"mean_us": 1.0}, "mean_us"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_value(
    changed: dict[str, object], named: str
) -> None:
    with pytest.raises(TableError, match=named):
        KERNELS.from_rows([{**ROW, **changed}])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "its columns are none, expected name"),
        ("name,calls\n", "total_ms, library"),
        ("name,calls,total_ms,library\nx,1\n", "line 2: 2 values for 4 columns"),
        ("name,calls,total_ms,library\nx,many,0.1,true\n", "line 2, column calls: 'many'"),
        (
            "name,calls,total_ms,library\nx,1,0.1,true\nx,1,9a,true\n",
            "line 3, column total_ms: '9a'",
        ),
        ("name,calls,total_ms,library\nx,1,0.1,maybe\n", "line 2, column library: 'maybe'"),
    ],
)
def test_a_damaged_csv_is_refused_in_one_line(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(text)

    with pytest.raises(TableError, match=named) as raised:
        KERNELS.read_csv(path)

    assert "\n" not in str(raised.value)


def test_a_missing_csv_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"absent\.csv"):
        KERNELS.read_csv(tmp_path / "absent.csv")
