from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_report.figures.style import figure_bytes
from tests.unit.figures.drawn import drawn, specs_of, study_and_tables


def test_no_point_is_outside_the_panel() -> None:
    _, tables = study_and_tables("device", "precision")
    figure = drawn("study_roofline", "device", "precision")
    rows = tables.efficiency.groupby("device", sort=False)

    for axes, (_, points) in zip(figure.axes, rows, strict=True):
        low, high = axes.get_ylim()
        left, right = axes.get_xlim()
        assert points["achieved_flops_per_s"].between(low, high).all()
        assert points["intensity"].between(left, right).all()


def test_a_study_without_calibration_has_no_roofline() -> None:
    nothing: Any = dict.fromkeys(("efficiency", "peaks"), lambda table: table.iloc[:0])

    assert "study_roofline" not in specs_of("device", **nothing)


@pytest.mark.parametrize("ceiling", ["device copy", "matrix product"])
def test_the_figure_draws_with_one_kind_of_roof_alone(ceiling: str) -> None:
    figure = drawn(
        "study_roofline", "device", peaks=lambda peaks: peaks[peaks["ceiling"] == ceiling]
    )

    assert figure_bytes(figure).startswith(b"%PDF")


def test_the_legend_has_shapes_and_colours_in_rows_of_their_own() -> None:
    (legend,) = drawn("study_roofline", "device", "precision").legends
    by_column = [text.get_text() for text in legend.get_texts()]
    rows = [by_column[row :: len(by_column) // 4] for row in range(len(by_column) // 4)]

    assert "U-Net" in rows[0]
    assert rows[-1] == ["fp32", "tf32", "fp16", "bf16"]


def test_of_roofs_that_are_nearly_the_same_both_are_seen() -> None:
    def equal(peaks: pd.DataFrame) -> pd.DataFrame:
        return peaks.assign(value=peaks["value"].where(peaks["ceiling"] != "matrix product", 1e14))

    (axes,) = drawn("study_roofline", "precision", peaks=equal).axes

    ends = [(line, np.asarray(line.get_ydata(), float)) for line in axes.lines]
    widths = [
        line.get_linewidth() for line, rates in ends if len(rates) == 2 and set(rates) == {1e14}
    ]
    assert widths[-1] < min(widths[:-1])
