import numpy as np
import pytest

from gpu_report.figures.frontier import reaches_frontier
from tests.factories import make_records, make_tables
from tests.unit.figures.drawn import draw_named, specs_by_name, study_of, texts_of, with_failures


def test_batches_that_did_not_fit_stand_as_crosses_above_the_memory_of_the_device() -> None:
    study = study_of("frontier")
    failures = {"b512": "oom", "b1024": "oom"}
    tables = make_tables(study, with_failures(make_records(study, processes=2), **failures))

    figure = draw_named("frontier_frontier", tables, study)

    text = texts_of(figure)
    assert "out of memory" in text
    assert "memory of CUDA" in text
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "X"]
    assert [list(np.asarray(line.get_xdata(), dtype=float)) for line in crosses] == [[512, 1024]] * 2


@pytest.mark.parametrize(("share", "reaches"), [(0.4, False), (0.6, True)])
def test_over_half_of_the_memory_is_near_the_frontier(share: float, *, reaches: bool) -> None:
    study = study_of("batch_size")
    table = make_tables(study, make_records(study, processes=1)).experiments["batch_size"]

    assert reaches_frontier(table.assign(memory_peak_mib=share * 1000, device_memory_mib=1000.0)) is reaches


def test_a_series_far_from_the_frontier_has_no_such_figure() -> None:
    study = study_of("batch_size")
    tables = make_tables(study, make_records(study, processes=1, memory_peak_mib=10.0))

    assert "batch_size_frontier" not in specs_by_name(tables, study)


def test_a_series_of_which_nothing_fits_still_says_so() -> None:
    study = study_of("frontier")
    tables = make_tables(study, with_failures(make_records(study, processes=1), unet="oom"))

    assert "out of memory" in texts_of(draw_named("frontier_frontier", tables, study))
