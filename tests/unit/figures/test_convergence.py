import numpy as np

from tests.factories import NOTHING_HELD_OUT, make_record, make_tables
from tests.unit.figures.drawn import (
    draw_named,
    drawn,
    specs_of,
    study_and_tables,
    study_of,
    texts_of,
)

NAME = "precision_loss_scale"


def test_every_fp16_training_is_a_line_of_its_median_factor_after_each_step() -> None:
    _, tables = study_and_tables("precision")
    rows = tables.experiments["precision"]
    scaled = list(rows.loc[rows["precision"] == "fp16", "variant"])

    (axes,) = drawn(NAME, "precision").axes
    unscaled = specs_of("precision", losses=lambda rows: rows.assign(loss_scale=float("nan")))

    assert NAME not in unscaled
    assert len(axes.lines) == len(scaled) > 0
    for line, variant in zip(axes.lines, scaled, strict=True):
        steps = (
            tables.losses[tables.losses["variant"] == variant]
            .groupby("step")["loss_scale"]
            .median()
        )
        assert list(np.asarray(line.get_xdata(), float)) == [step + 1 for step in steps.index]
        assert list(np.asarray(line.get_ydata(), float)) == list(np.log2(steps))


def test_a_workload_without_a_metric_has_no_axes_for_it() -> None:
    study = study_of("device", devices=("cpu",))
    records = [make_record(each.slug, facts=NOTHING_HELD_OUT) for each in study.variants]

    figure = draw_named("device_convergence", make_tables(study, records), study)

    assert (
        texts_of(figure).count("not measured")
        == len([axes for axes in figure.axes if not axes.axison])
        > 0
    )
