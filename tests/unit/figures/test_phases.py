from dataclasses import replace

import pytest

from tests.unit.figures.drawn import draw_named, study_and_tables, texts_of


def test_the_phases_of_every_model_are_named() -> None:
    study, tables = study_and_tables("models")

    text = texts_of(draw_named("models_phases", tables, study))

    for words in ("forward", "backward", "optimizer", "Image CNN medium", "convolution, cuDNN (%)"):
        assert words in text


def test_convolutions_are_told_as_a_share_of_all_time() -> None:
    study, tables = study_and_tables("models")
    phases = tables.phases[tables.phases["phase"].isin(["forward", "backward"])]
    phases = phases.assign(share=0.5, convolution_share=[0.4, 0.8] * (len(phases) // 2), cudnn_share=0.1)

    text = texts_of(draw_named("models_phases", replace(tables, phases=phases), study))

    assert "60.0, 10.0" in text


def test_a_model_without_profile_keeps_its_row() -> None:
    study, tables = study_and_tables("models")
    phases, steps = (each[each["workload"] != "resnet18"] for each in (tables.phases, tables.step_shares))

    text = texts_of(draw_named("models_phases", replace(tables, phases=phases, step_shares=steps), study))

    assert "not profiled" in text
    assert "not reliable" not in text


@pytest.mark.parametrize("figure", ["device_phases", "device_categories"])
def test_what_was_profiled_and_cannot_be_told_is_not_reliable(figure: str) -> None:
    study, tables = study_and_tables("device")
    names = ("phases", "category_shares", "top_operations")
    kept = {name: table[table["workload"] != "lstm"] for name in names for table in [getattr(tables, name)]}

    text = texts_of(draw_named(figure, replace(tables, **kept), study))

    assert "not reliable" in text
    assert "not profiled" not in text
