import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.listing import SourceFile, excerpt

SOURCE = SourceFile(
    name="loop.py",
    text='''"""A module."""


@decorated
def train(data):
    """One "epoch"."""
    for batch in data:  # every one
        step(batch, 'x')


def step(batch, name): ...
''',
)


def test_a_function_is_listed_whole_with_the_numbers_of_the_file() -> None:
    (first,), lines = excerpt(SOURCE, ["step", "train"])

    assert first.number == 11
    assert [line.number for line in lines] == [4, 5, 6, 7, 8]
    assert [line.indent for line in lines] == [0, 0, 4, 4, 8]


def test_a_function_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(ReportError, match=r"loop\.py has no function 'fit'"):
        excerpt(SOURCE, ["fit"])


def test_a_file_that_is_no_python_is_an_error_that_names_the_line() -> None:
    with pytest.raises(ReportError, match=r"loop\.py:2: "):
        excerpt(SourceFile(name="loop.py", text="x = 1\ndef (:\n"), ["train"])
