from dataclasses import replace

import pytest

from gpu_report.figures.style import figure_bytes
from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables, texts_of


def test_every_device_has_its_roofs_and_every_workload_its_shape() -> None:
    study, tables = study_and_tables("device", "precision")

    figure = draw_named("study_roofline", tables, study)

    text = texts_of(figure)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["CPU", "CUDA"]
    for words in ("U-Net", "slope: device copy", "bf16", "tf32", "FLOP/s"):
        assert words in text


def test_no_point_is_outside_the_panel() -> None:
    study, tables = study_and_tables("device", "precision")
    figure = draw_named("study_roofline", tables, study)
    rows = tables.efficiency.groupby("device", sort=False)

    for axes, (_, points) in zip(figure.axes, rows, strict=True):
        low, high = axes.get_ylim()
        left, right = axes.get_xlim()
        assert points["achieved_flops_per_s"].between(low, high).all()
        assert points["intensity"].between(left, right).all()


def test_a_study_without_calibration_has_no_roofline() -> None:
    study, tables = study_and_tables("device")
    tables = replace(tables, efficiency=tables.efficiency.iloc[:0], peaks=tables.peaks.iloc[:0])

    assert "study_roofline" not in specs_by_name(tables, study)


@pytest.mark.parametrize("ceiling", ["device copy", "matrix product"])
def test_the_figure_draws_with_one_kind_of_roof_alone(ceiling: str) -> None:
    study, tables = study_and_tables("device")
    tables = replace(tables, peaks=tables.peaks[tables.peaks["ceiling"] == ceiling])

    assert figure_bytes(draw_named("study_roofline", tables, study)).startswith(b"%PDF")


def test_the_legend_has_shapes_and_colours_in_rows_of_their_own() -> None:
    study, tables = study_and_tables("device", "precision")

    (legend,) = draw_named("study_roofline", tables, study).legends
    by_column = [text.get_text() for text in legend.get_texts()]
    rows = [by_column[row :: len(by_column) // 4] for row in range(len(by_column) // 4)]

    assert "U-Net" in rows[0]
    assert rows[-1] == ["fp32", "tf32", "fp16", "bf16"]
