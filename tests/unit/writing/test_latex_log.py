import pytest

from gpu_report.writing.latex import first_error
from tests.report.latex_log import log_problems

LOG = r"""This is pdfTeX (./gpu_report.tex
LaTeX2e <2022-11-01> (/usr/share/texlive/article.cls) (./sections/summary.tex
LaTeX Warning: Reference `gpurep:tab:gone' on page 3 undefined on input line 9.
Overfull \hbox (1.2pt too wide) in paragraph at lines 1--2
) (./sections/device.tex [5 <./figures/a.pdf>]
Overfull \hbox (15.5pt too wide) in paragraph at lines 12--13
Overfull \vbox (30.0pt too high) has occurred while \output is active
Missing character: There is no é in font nullfont!
LaTeX Warning: Label `x' multiply defined.
)
LaTeX Font Warning: Some font shapes were not available.
)
"""


def test_a_readers_problems_are_found_with_the_file_they_are_in() -> None:
    assert log_problems(LOG) == [
        "sections/summary.tex: Reference `gpurep:tab:gone' on page 3 undefined on input line 9.",
        r"sections/device.tex: Overfull \hbox (15.5pt too wide) in paragraph at lines 12--13",
        r"sections/device.tex: Overfull \vbox (30.0pt too high) has occurred while \output is "
        r"active",
        "sections/device.tex: There is no é in font nullfont!",
        "sections/device.tex: Label `x' multiply defined.",
    ]


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
