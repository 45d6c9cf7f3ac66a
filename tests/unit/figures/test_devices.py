import numpy as np
import pytest

from tests.factories import make_calibration, make_records, make_tables
from tests.unit.figures.drawn import draw_named, study_of, texts_of


def test_the_links_of_several_numbers_of_devices_have_a_panel_each_and_a_line_per_operation() -> (
    None
):
    study = study_of("device", devices=("cpu", "cuda", "cuda:1", "cuda:2"))
    tables = make_tables(study, make_records(study), calibration=make_calibration(linked=3))

    figure = draw_named("study_links", tables, study)

    for axes, (_, rows) in zip(figure.axes, tables.links.groupby("devices"), strict=True):
        drawn = [line.get_ydata() for line in axes.lines if line.get_linestyle() == "-"]
        expected = [each["bus_bandwidth_gb_per_s"] for _, each in rows.groupby("operation")]
        assert np.concatenate(drawn) == pytest.approx(np.concatenate(expected))
    assert "25 MiB" in texts_of(figure)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["2 devices", "3 devices"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
