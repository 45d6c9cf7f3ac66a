from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest
import yaml
from matplotlib.figure import Figure
from matplotlib.text import Text

from gpu_report.figures.registry import FigureSpec, available_figures, draw
from gpu_report.figures.style import TEXT_WIDTH_IN, figure_bytes
from gpu_report.records import Record
from gpu_report.study import Study
from gpu_report.tables.bundle import Tables
from tests.factories import CONFIG, make_record, make_records, make_study, make_tables

PAGE_HEIGHT_IN: Final = 8.6


def with_failures(records: Sequence[Record], **statuses: Any) -> list[Record]:
    """The records, those whose name holds a key in place of which it failed with that status."""
    return [
        next(
            (make_record(record.variant, status=status) for part, status in statuses.items() if part in record.variant),
            record,
        )
        for record in records
    ]


@cache
def default_study(*devices: str) -> tuple[Study, Tables]:
    """The study of config/study.yaml for these devices, with plausible numbers."""
    study = make_study(devices=devices)
    return study, make_tables(study, make_records(study, processes=1))


def specs_by_name(tables: Tables, study: Study) -> dict[str, FigureSpec]:
    return {spec.name: spec for spec in available_figures(tables, study.experiments)}


def texts_of(figure: Figure) -> str:
    """Every text of the figure, ticks included."""
    for axes in figure.axes:
        axes.xaxis.get_majorticklabels()
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def many_groups(count: int) -> Study:
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    batches = [2**power for power in range(count)]
    config["experiments"]["device"]["grid"] = [{"workload": "lstm", "batch_size": batches, "epochs": 2}]
    config["experiments"]["workers"]["grid"] = [
        {"workload": "lstm", "batch_size": batches, "workers": [0, 1, 2], "epochs": 2}
    ]
    return make_study(config={**config, "experiments": {k: config["experiments"][k] for k in ("device", "workers")}})


def test_an_accelerator_brings_every_figure() -> None:
    study, tables = default_study("cpu", "cuda")

    names = list(specs_by_name(tables, study))

    assert names == [
        *(f"device_{kind}" for kind in ("speedup", "throughput", "memory", "quality", "epochs")),
        *(f"device_{kind}" for kind in ("convergence", "operations", "categories")),
        *(f"batch_size_{kind}" for kind in ("throughput", "memory", "quality", "epochs")),
        *(f"complexity_{kind}" for kind in ("throughput", "memory", "quality", "epochs")),
        *(f"workers_{kind}" for kind in ("throughput", "memory", "quality", "data_wait", "epochs")),
        "study_first_epoch",
    ]


def test_a_machine_without_accelerator_gets_no_speedup_and_no_word_of_one() -> None:
    study, tables = default_study("cpu")

    specs = specs_by_name(tables, study)

    assert "device_speedup" not in specs
    assert "device_convergence" in specs
    assert not any("CUDA" in texts_of(draw(spec, tables)) for spec in specs.values())


def test_a_study_in_which_everything_failed_has_no_figure() -> None:
    study = make_study()
    tables = make_tables(study, [make_record(variant.slug, status="failed") for variant in study.variants])

    assert available_figures(tables, study.experiments) == []


def test_a_new_experiment_gets_its_figures_without_code() -> None:
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    grid = [{"workload": "unet", "batch_size": 8, "size": ["32px", "128px"], "epochs": 3, "steps_per_epoch": 4}]
    entry = {"question": "What do larger pictures cost?", "axis": "size", "baseline": "32px", "grid": grid}
    study = make_study(config={**config, "experiments": {"resolution": entry}})
    tables = make_tables(study, make_records(study, processes=1))

    specs = specs_by_name(tables, study)

    assert "resolution_throughput" in specs
    assert "128px" in texts_of(draw(specs["resolution_throughput"], tables))


@pytest.mark.parametrize("name", ["batch_size_throughput", "batch_size_memory", "batch_size_epochs"])
def test_a_variant_that_ran_out_of_memory_is_a_gap_that_says_so(name: str) -> None:
    study = make_study()
    tables = make_tables(study, with_failures(make_records(study, processes=1), b1024="oom"))

    figure = draw(specs_by_name(tables, study)[name], tables)

    assert "out of memory" in texts_of(figure)
    assert "1024" in texts_of(figure)


def test_every_figure_of_a_study_with_a_failed_workload_draws() -> None:
    study = make_study()
    tables = make_tables(
        study, with_failures(make_records(study, processes=1), **{"lstm-cuda": "failed", "b1024": "oom"})
    )

    for spec in available_figures(tables, study.experiments):
        figure = draw(spec, tables)
        assert figure_bytes(figure).startswith(b"%PDF"), spec.name
        assert figure.get_figwidth() == TEXT_WIDTH_IN
        assert "{" not in spec.title + spec.caption


@pytest.mark.parametrize("count", [1, 12])
def test_any_number_of_groups_fits_the_page(count: int) -> None:
    study = many_groups(count)
    tables = make_tables(study, make_records(study, processes=1, facts={"train_samples": 64}))

    specs = available_figures(tables, study.experiments)

    for spec in specs:
        assert draw(spec, tables).get_figheight() <= PAGE_HEIGHT_IN, spec.name
    shown = [slug for spec in specs if spec.name.startswith("device_operations") for slug in spec.variants]
    assert sorted(shown) == sorted(variant.slug for variant in study.experiments[0].variants)


def test_the_parts_of_a_figure_have_names_and_captions_of_their_own() -> None:
    study = many_groups(5)
    records = make_records(study, processes=1, facts={"train_samples": 64})

    specs = specs_by_name(make_tables(study, records), study)

    assert specs["device_operations"].caption.endswith("Part 1 of 2.")
    assert specs["device_operations_2"].caption.endswith("Part 2 of 2.")


def test_names_of_kernels_are_drawn_as_they_are_and_short() -> None:
    study = make_study()
    kernel = "void cutlass::Kernel<$x_{1}^2$, \\frac%&#~>" + "y" * 300 + "(Params)"
    records = make_records(study, processes=1)
    tables = make_tables(study, records, operations={kernel: "convolution", "漢字": "nobody's category"})

    figure = draw(specs_by_name(tables, study)["device_operations"], tables)

    assert "void cutlass::Kern" in texts_of(figure)
    assert "y" * 30 not in texts_of(figure)
    assert figure_bytes(figure).startswith(b"%PDF")


def test_a_doubted_number_is_hollow_and_the_legend_says_why() -> None:
    study = make_study()
    tables = make_tables(study, make_records(study, processes=1, foreign_cpu_share=0.5))

    figure = draw(specs_by_name(tables, study)["device_throughput"], tables)

    assert "hollow: not alone" in texts_of(figure)


def test_the_same_tables_give_the_same_bytes() -> None:
    study, tables = default_study("cpu", "cuda")
    again = make_tables(study, make_records(study, processes=1))
    spec = specs_by_name(tables, study)["device_categories"]

    assert figure_bytes(draw(spec, tables)) == figure_bytes(draw(spec, again))


def test_a_variant_without_profile_keeps_its_row() -> None:
    study, tables = default_study("cpu", "cuda")
    shares = tables.category_shares
    tables = replace(tables, category_shares=shares[~shares["variant"].str.startswith("lstm-cuda")])

    figure = draw(specs_by_name(tables, study)["device_categories"], tables)

    assert "not profiled" in texts_of(figure)
