from typing import Final

import pytest

from gpu_report.figures.registry import FIGURES, available_figures
from gpu_report.figures.style import TEXT_WIDTH_IN, figure_bytes
from gpu_report.study.study import Study
from gpu_report.tables.bundle import Tables
from tests.factories import SCALING, make_calibration, make_record, make_records, make_tables
from tests.unit.figures.drawn import (
    drawn_after_failures,
    specs_by_name,
    specs_of,
    study_of,
    texts_of,
    with_failures,
)
from tests.unit.findings.shared import CONFIG as SHARED

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


def test_a_machine_without_accelerator_gets_no_speedup_and_no_word_of_one() -> None:
    specs = specs_of("device", "precision", devices=("cpu",))

    assert "device_speedup" not in specs
    assert not any(name.startswith("precision") for name in specs)
    assert "device_convergence" in specs
    assert not any("CUDA" in texts_of(spec.draw()) for spec in specs.values())


def test_experiments_in_which_everything_failed_have_no_figure() -> None:
    study = study_of("device", "frontier", "precision", "optimization")
    tables = make_tables(
        study, [make_record(variant.slug, status="failed") for variant in study.variants]
    )

    assert [spec for spec in available_figures(tables, study.experiments) if spec.variants] == []


def test_a_new_experiment_gets_its_figures_without_code() -> None:
    grid = [
        {
            "workload": "unet",
            "batch_size": 8,
            "size": ["32px", "128px"],
            "epochs": 3,
            "steps_per_epoch": 4,
        }
    ]
    entry = {
        "question": "What do larger pictures cost?",
        "axis": "size",
        "baseline": "32px",
        "grid": grid,
    }
    study = study_of(resolution=entry)
    tables = make_tables(study, make_records(study, processes=1))

    specs = specs_by_name(tables, study)

    assert "resolution_throughput" in specs
    assert "128px" in texts_of(specs["resolution_throughput"].draw())


def test_a_variant_that_ran_out_of_memory_is_a_gap_that_says_so() -> None:
    assert "out of memory" in texts_of(
        drawn_after_failures("workers_throughput", "workers", w2="oom")
    )


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

    assert first_of_kind.keys() == {figure.name for figure in FIGURES}
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


def test_the_parts_of_a_figure_have_names_and_captions_of_their_own() -> None:
    study, tables = many_groups(8)

    specs = specs_by_name(tables, study)

    assert specs["device_convergence"].caption.endswith("Part 1 of 2.")
    assert specs["device_convergence_2"].caption.endswith("Part 2 of 2.")


@pytest.mark.parametrize(
    ("processes", "bars"), [(3, "the range of three processes"), (5, "95 % intervals")]
)
def test_a_caption_says_what_the_bars_are(processes: int, bars: str) -> None:
    study = study_of("workers")

    specs = specs_by_name(make_tables(study, make_records(study, processes=processes)), study)

    assert f"bars show {bars}" in specs["workers_throughput"].caption


def test_categories_are_drawn_of_one_variant_for_each_workload_and_device() -> None:
    study, tables = many_groups(3)

    spec = specs_by_name(tables, study)["device_categories"]

    assert [slug.split("-b")[0] for slug in spec.variants] == ["lstm-cpu", "lstm-cuda"]
