import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.report import excerpt

SOURCE = '''"""A module."""


@decorated
def train(data):
    """One "epoch"."""
    for batch in data:  # every one
        step(batch, 'x')


def step(batch, name): ...
'''


def test_a_function_is_listed_whole_with_the_numbers_of_the_file() -> None:
    lines = excerpt(SOURCE, "train")

    assert [line["number"] for line in lines] == [4, 5, 6, 7, 8]
    assert [line["indent"] for line in lines] == [0, 0, 4, 4, 8]


def test_quotes_stay_straight() -> None:
    lines = excerpt(SOURCE, "train")

    text = str(lines[4]["text"]).replace(r"\gpurepbreak{}", "")
    assert r"\textquotesingle{}x\textquotesingle{}" in text


def test_a_function_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(ReportError, match="no function 'fit'"):
        excerpt(SOURCE, "fit")
