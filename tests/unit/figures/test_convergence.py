import pytest

from tests.factories import NOTHING_HELD_OUT, make_record, make_records, make_tables
from tests.unit.figures.drawn import draw_named, specs_by_name, study_of, texts_of, with_failures


@pytest.mark.parametrize("failed", [{}, {"highscale": "failed"}])
def test_a_loss_scale_has_a_figure_where_it_moves_more_than_once(failed: dict[str, str]) -> None:
    study = study_of("precision")
    records = with_failures(make_records(study), **failed)

    found = specs_by_name(make_tables(study, records), study)

    assert ("precision_loss_scale" in found) == (not failed)


def test_a_workload_without_a_metric_has_no_axes_for_it() -> None:
    study = study_of("device")
    records = [make_record(each.slug, facts=NOTHING_HELD_OUT) for each in study.variants]

    figure = draw_named("device_convergence", make_tables(study, records), study)

    assert (
        texts_of(figure).count("not measured")
        == len([axes for axes in figure.axes if not axes.axison])
        > 0
    )
