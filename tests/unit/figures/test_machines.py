from functools import cache

import pandas as pd

from gpu_report.figures.machines import comparison_figures
from gpu_report.figures.style import TEXT_WIDTH_IN, figure_bytes
from tests.factories import make_comparison


@cache
def comparison() -> pd.DataFrame:
    return make_comparison(("laptop-4c", "nvidia-h100-80gb-hbm3-x1-xeon-platinum-8480-16c"))


def test_every_pair_of_rows_is_drawn_once_in_figures_that_fit_a_page() -> None:
    specs = comparison_figures(comparison())

    assert sorted(slug for spec in specs for slug in spec.variants) == sorted(
        comparison()["variant"]
    )
    assert [spec.name for spec in specs][:2] == ["machines_comparison", "machines_comparison_2"]
    for spec in specs:
        figure = spec.draw()
        assert figure.get_figheight() <= 8.6
        assert figure.get_figwidth() == TEXT_WIDTH_IN
        assert figure_bytes(figure).startswith(b"%PDF")
