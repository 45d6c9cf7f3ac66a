from tests.factories import make_records, make_tables
from tests.unit.figures.drawn import draw_named, study_and_tables, study_of, texts_of


def test_quality_stands_over_samples_only_where_one_device_trained_less() -> None:
    study, tables = study_and_tables("device")
    alike = study_of("device", devices=("cpu",))

    text = texts_of(draw_named("device_convergence", tables, study))
    text_alike = texts_of(draw_named("device_convergence", make_tables(alike, make_records(alike, processes=1)), alike))

    assert text.count("Samples seen") == 2
    assert "Samples seen" not in text_alike
