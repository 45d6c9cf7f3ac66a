from tests.factories import make_record, make_records, make_tables
from tests.unit.figures.drawn import draw_named, study_of, texts_of, with_failures


def test_a_variant_that_did_not_fit_is_in_the_legend_with_its_reason() -> None:
    study = study_of("memory")
    tables = make_tables(study, with_failures(make_records(study, processes=2), checkpoint="oom"))

    text = texts_of(draw_named("memory_trade_off", tables, study))

    assert "gradient checkpointing: out of memory" in text
    assert "4 accumulated parts" in text


def test_the_others_are_drawn_where_the_plain_loop_failed() -> None:
    study = study_of("memory")
    plain = study.experiments[0].variants[0].slug
    records = [
        make_record(plain, status="failed") if record.variant == plain else record
        for record in make_records(study, processes=2)
    ]

    text = texts_of(draw_named("memory_trade_off", make_tables(study, records), study))

    assert "eager baseline: failed" in text
