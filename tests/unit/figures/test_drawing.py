import os
import signal
import sys
from functools import partial

import pytest
from matplotlib.figure import Figure

from gpu_report.errors import ReportError
from gpu_report.figures.drawing import draw_all
from gpu_report.figures.registry import available_figures
from gpu_report.figures.style import figure_bytes
from tests.unit.figures.drawn import study_and_tables

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="figures are drawn by one process elsewhere"
)


@pytest.mark.slow
def test_figures_come_in_the_order_asked_for_with_the_bytes_of_one_process() -> None:
    study, tables = study_and_tables("workers", "precision")
    specs = available_figures(tables, study.experiments)

    drawn = list(draw_all([spec.draw for spec in specs], processes=2))

    assert len(specs) > 4
    assert drawn == [figure_bytes(spec.draw()) for spec in specs]


@linux_only
def test_a_process_that_is_killed_is_an_error_that_says_so() -> None:
    def die() -> Figure:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    with pytest.raises(ReportError, match="ended early"):
        list(draw_all([die] * 8, processes=2))


@linux_only
def test_what_goes_wrong_in_another_process_is_reported_as_it_is() -> None:
    def refuse(number: int) -> Figure:
        raise ReportError(f"no figure {number}")

    with pytest.raises(ReportError, match="no figure 0"):
        list(draw_all([partial(refuse, number) for number in range(8)], processes=2))
