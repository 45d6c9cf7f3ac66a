from typing import Final

import pytest

from gpu_report.figures.registry import FIGURES, available_figures
from gpu_report.figures.style import TEXT_WIDTH_IN, figure_bytes
from gpu_report.study.study import Study
from gpu_report.tables.bundle import Tables
from tests.factories import SCALING, make_calibration, make_record, make_records, make_tables
from tests.unit.answers.shared import CONFIG as SHARED
from tests.unit.figures.drawn import specs_by_name, study_of, with_failures

PAGE_HEIGHT_IN: Final = 8.6


def many_groups(count: int) -> tuple[Study, Tables]:
    grid = [
        {"workload": "lstm", "batch_size": 64, "epochs": 2 + n, "steps_per_epoch": 2}
        for n in range(count)
    ]
    workers = [{**row, "workers": [0, 1, 2]} for row in grid]
    study = study_of(
        device={"question": "Which is faster?", "axis": "device", "baseline": "cpu", "grid": grid},
        workers={"question": "How many?", "axis": "workers", "baseline": 0, "grid": workers},
    )
    return study, make_tables(study, make_records(study, processes=1, facts={"train_samples": 64}))


def test_experiments_in_which_everything_failed_have_no_figure() -> None:
    study = study_of("device", "frontier", "precision", "optimization")
    tables = make_tables(
        study, [make_record(variant.slug, status="failed") for variant in study.variants]
    )

    assert [spec for spec in available_figures(tables, study.experiments) if spec.variants] == []


def test_every_kind_of_figure_of_a_study_with_failures_draws() -> None:
    study = study_of(
        *("device", "crossover", "frontier", "complexity", "models"),
        *(
            "workers",
            "precision",
            "optimization",
            "memory",
            "linear_regression",
            "linear_regression_size",
        ),
        scaling=SCALING,
        **SHARED["experiments"],
    )
    failures = {"lstm-cuda": "failed", "b512": "oom", "a4": "oom", "resnet18": "failed"}
    failures["transformer-cuda-b64-w0-fp16"] = "skipped"
    records = with_failures(make_records(study, processes=1), **failures)
    tables = make_tables(study, records, calibration=make_calibration(linked=2))

    first_of_kind = {
        spec.kind: spec for spec in reversed(available_figures(tables, study.experiments))
    }

    assert first_of_kind.keys() == {figure.keywords["name"] for figure in FIGURES}
    for spec in first_of_kind.values():
        figure = spec.draw()
        assert figure_bytes(figure).startswith(b"%PDF"), spec.name
        assert figure.get_figwidth() == TEXT_WIDTH_IN
        assert "{" not in spec.title + spec.caption


@pytest.mark.parametrize("count", [1, 12])
def test_any_number_of_groups_fits_the_page(count: int) -> None:
    study, tables = many_groups(count)

    specs = available_figures(tables, study.experiments)

    for spec in specs:
        assert spec.draw().get_figheight() <= PAGE_HEIGHT_IN, spec.name
    shown = [
        slug
        for spec in specs
        if spec.name.startswith("device_convergence")
        for slug in spec.variants
    ]
    assert sorted(shown) == sorted(variant.slug for variant in study.experiments[0].variants)


def test_a_caption_says_what_the_bars_are() -> None:
    study = study_of("device")

    specs = specs_by_name(make_tables(study, make_records(study, processes=3)), study)

    assert "bars show 95 % intervals" in specs["device_speedup"].caption
