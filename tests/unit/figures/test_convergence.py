from tests.factories import NOTHING_HELD_OUT, make_record, make_tables
from tests.unit.figures.drawn import draw_named, study_of, texts_of


def test_a_workload_without_a_metric_has_no_axes_for_it() -> None:
    study = study_of("device")
    records = [make_record(each.slug, facts=NOTHING_HELD_OUT) for each in study.variants]

    figure = draw_named("device_convergence", make_tables(study, records), study)

    assert (
        texts_of(figure).count("not measured")
        == len([axes for axes in figure.axes if not axes.axison])
        > 0
    )
