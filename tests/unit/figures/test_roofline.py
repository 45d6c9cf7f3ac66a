from itertools import pairwise

import pandas as pd

from tests.unit.figures.drawn import drawn, study_and_tables


def test_no_point_is_outside_the_panel() -> None:
    _, tables = study_and_tables("device", "precision")
    figure = drawn("study_roofline", "device", "precision")
    rows = tables.efficiency.groupby("device", sort=False)

    for axes, (_, points) in zip(figure.axes, rows, strict=True):
        low, high = axes.get_ylim()
        left, right = axes.get_xlim()
        assert points["achieved_flops_per_s"].between(low, high).all()
        assert points["intensity"].between(left, right).all()


def test_the_roof_of_a_precision_that_nothing_trained_in_is_not_shown() -> None:
    def with_another(peaks: pd.DataFrame) -> pd.DataFrame:
        faster = peaks[peaks["ceiling"] == "matrix product"].assign(precision="fp8")
        return pd.concat([peaks, faster.assign(value=1e6 * faster["value"])])

    shown = "study_roofline", "device", "precision"
    usual, extended = drawn(*shown).axes[0], drawn(*shown, peaks=with_another).axes[0]

    assert usual.get_xlim() == extended.get_xlim()
    assert usual.get_ylim() == extended.get_ylim()


def test_names_of_roofs_of_almost_the_same_height_do_not_overlap() -> None:
    figure = drawn(
        "study_roofline",
        *("device", "precision"),
        peaks=lambda peaks: peaks.assign(value=peaks.groupby("ceiling")["value"].transform("max")),
    )
    figure.draw_without_rendering()

    for axes in figure.axes:
        names = [text for text in axes.texts if "FLOP/s" in text.get_text()]
        boxes = sorted((text.get_window_extent() for text in names), key=lambda box: float(box.y0))
        assert boxes
        assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))
