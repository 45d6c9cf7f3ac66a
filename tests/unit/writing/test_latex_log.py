import pytest

from gpu_report.writing.latex import first_error


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            "./sections/device.tex:12: Undefined control sequence.\nl.12 \\foo\n         {x}\n",
            r"sections/device.tex:12: Undefined control sequence at \foo",
        ),
        ("! Emergency stop.\n<*> gpu_report.tex\n", "Emergency stop."),
        ("nothing to see\n", ""),
    ],
)
def test_the_first_error_is_one_line_with_its_place(log: str, message: str) -> None:
    assert first_error(log) == message
