"""The history of the loss scale is that of the fp16 trainings, and of no other."""

from dataclasses import replace

import numpy as np

from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables

NAME = "precision_loss_scale"


def test_every_fp16_training_is_a_line_of_its_median_factor_after_each_step() -> None:
    study, tables = study_and_tables("precision")
    rows = tables.experiments["precision"]
    scaled = list(rows.loc[rows["precision"] == "fp16", "variant"])

    (axes,) = draw_named(NAME, tables, study).axes

    assert len(axes.lines) == len(scaled) > 0
    for line, variant in zip(axes.lines, scaled, strict=True):
        steps = tables.losses[tables.losses["variant"] == variant].groupby("step")["loss_scale"].median()
        assert list(np.asarray(line.get_xdata(), float)) == [step + 1 for step in steps.index]
        assert list(np.asarray(line.get_ydata(), float)) == list(np.log2(steps))


def test_without_a_scaler_there_is_no_history() -> None:
    study, tables = study_and_tables("precision")
    unscaled = replace(tables, losses=tables.losses.assign(loss_scale=float("nan")))

    assert NAME in specs_by_name(tables, study)
    assert NAME not in specs_by_name(unscaled, study)
