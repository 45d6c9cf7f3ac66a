"""A training block by block."""

from gpu_report.figures.blocks import blocks_figure
from gpu_report.tables.statistics import summarise


def test_no_memory_in_use_is_drawn_without_a_warning() -> None:
    times_ms = [2.0, 3.0, 2.5, 2.0]

    figure = blocks_figure(times_ms, [0.0] * 4, mean_ms=summarise(times_ms))

    assert figure.axes[1].get_ylim() == (0, 1)
