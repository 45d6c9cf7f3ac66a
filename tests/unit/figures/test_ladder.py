from dataclasses import replace

from gpu_report.figures.style import figure_bytes
from gpu_report.tables.bundle import Tables
from tests.factories import make_records, make_tables
from tests.unit.figures.drawn import draw_named, study_and_tables, study_of, texts_of, with_failures


def without_pay_off(tables: Tables) -> Tables:
    frame = tables.experiments["optimization"].assign(break_even_steps=float("nan"))
    return replace(tables, experiments={"optimization": frame})


def test_every_step_has_one_row_with_both_its_speedups() -> None:
    study, tables = study_and_tables("optimization")

    figure = draw_named("optimization_ladder", tables, study)

    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert labels.count("CUDA graphs") == 2, "one per workload"
    assert labels[1:6] == [
        "prefetch on a side stream",
        "data on the device",
        "channels-last layout",
        "CUDA graphs",
        "torch.compile",
    ]
    assert "+" not in "".join(labels)


def test_steps_until_it_pays_are_told_only_where_something_is_prepared() -> None:
    study, tables = study_and_tables("optimization")

    assert "break-even" in texts_of(draw_named("optimization_ladder", tables, study))
    assert "break-even" not in texts_of(draw_named("optimization_ladder", without_pay_off(tables), study))


def test_a_rung_that_failed_says_so_where_its_number_would_be() -> None:
    study = study_of("optimization")
    tables = make_tables(study, with_failures(make_records(study, processes=1), graphs="failed", compile="failed"))

    figure = draw_named("optimization_ladder", tables, study)

    assert texts_of(figure).count("failed") == 6, "each step alone, and cumulative from the first of them on"
    assert figure_bytes(figure).startswith(b"%PDF")


def test_optimizations_that_make_no_ladder_are_a_trade_off() -> None:
    study, tables = study_and_tables("memory")

    figure = draw_named("memory_trade_off", tables, study)

    assert "4 accumulated parts" in texts_of(figure)
