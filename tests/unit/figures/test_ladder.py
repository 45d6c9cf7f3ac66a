from dataclasses import replace

from gpu_report.figures.style import figure_bytes
from tests.factories import make_record, make_records, make_tables
from tests.unit.figures.drawn import (
    draw_named,
    drawn_after_failures,
    study_and_tables,
    study_of,
    texts_of,
)


def test_steps_until_it_pays_are_reported_only_where_something_is_prepared() -> None:
    study, tables = study_and_tables("optimization")

    unknown = tables.experiments["optimization"].assign(break_even_steps=float("nan"))
    without = replace(tables, experiments={"optimization": unknown})
    assert "break-even" in texts_of(draw_named("optimization_ladder", tables, study))
    assert "break-even" not in texts_of(draw_named("optimization_ladder", without, study))


def test_a_step_that_failed_says_so_where_its_number_would_be() -> None:
    figure = drawn_after_failures(
        "optimization_ladder", "optimization", graphs="failed", compile="failed"
    )

    assert texts_of(figure).count("failed") == 6, (
        "each step alone, and cumulative from the first of them on"
    )
    assert figure_bytes(figure).startswith(b"%PDF")


def test_a_variant_that_did_not_fit_is_in_the_legend_with_its_reason() -> None:
    text = texts_of(drawn_after_failures("memory_trade_off", "memory", checkpoint="oom"))

    assert "gradient checkpointing: out of memory" in text
    assert "accumulation in 4 parts" in text


def test_the_others_are_drawn_where_the_eager_baseline_failed() -> None:
    study = study_of("memory")
    plain = study.experiments[0].variants[0].slug

    records = [
        make_record(plain, status="failed") if record.variant == plain else record
        for record in make_records(study, processes=1)
    ]

    text = texts_of(draw_named("memory_trade_off", make_tables(study, records), study))

    assert "eager baseline: failed" in text
    assert "gradient checkpointing: failed" not in text
