from gpu_report.figures.style import figure_bytes
from tests.unit.figures.drawn import drawn_after_failures, texts_of


def test_a_step_that_failed_says_so_where_its_number_would_be() -> None:
    figure = drawn_after_failures(
        "optimization_ladder", "optimization", graphs="failed", compile="failed"
    )

    assert texts_of(figure).count("failed") == 6, (
        "each step alone, and cumulative from the first of them on"
    )
    assert figure_bytes(figure).startswith(b"%PDF")
