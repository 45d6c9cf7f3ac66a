"""The sources' figures stand beside ours where the same training was measured, and nowhere else."""

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_report.records.record import Record, Status
from gpu_report.study.study import Study, load_study
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.marks import Today
from gpu_report.tables.sources import reported
from gpu_report.writing.rows import results_of_sources
from tests.factories import CODE_DIGEST, make_record
from tests.tabulated import tabulate_sources

PROJECT = Path(__file__).parents[3]
GPU, CPU = "unet-128px-cuda-b16-w0-fp32-e5", "unet-128px-cpu-b16-w0-fp32-e5"


@pytest.fixture(scope="module")
def study() -> Study:
    config = yaml.safe_load((PROJECT / "config/sources.yaml").read_text("utf-8"))
    return load_study(config, devices=["cpu", "cuda"])


def record_of(
    study: Study, variant: str, *, throughput_per_s: float = 100.0, status: Status = "ok"
) -> Record:
    return make_record(
        variant,
        measurement=study.measurement(variant),
        throughput_per_s=throughput_per_s,
        status=status,
        first_epoch_ratio=3.0,
        facts={"train_samples": 500},
    )


def rows(study: Study, *records: Record) -> list[Any]:
    return list(
        rows_of(
            tabulate_sources(records, today=Today(code_digest=CODE_DIGEST, protocol=study.protocol))
        )
    )


def printed_rows(study: Study, *records: Record) -> list[Any]:
    return results_of_sources(
        tabulate_sources(records, today=Today(code_digest=CODE_DIGEST, protocol=study.protocol))
    )


def row_of(found: list[Any], variant: str, metric: str) -> Any:
    return next(row for row in found if row["variant"] == variant and row["metric"] == metric)


def test_the_study_of_the_sources_measures_every_training_that_has_a_figure(study: Study) -> None:
    asked = {variant.slug for variant in study.variants}

    for figure in reported().figures:
        assert {figure.variant, figure.over or figure.variant} <= asked
        settings = study.measurement(figure.variant).workload.settings
        assert (
            reported().settings[study.variant(figure.variant).workload].items() <= settings.items()
        )


def test_a_figure_without_a_record_is_not_measured(study: Study) -> None:
    found = rows(study, record_of(study, GPU))

    assert len(found) == len(reported().figures)
    assert math.isfinite(row_of(found, GPU, "training_time_s")["ours"])
    assert math.isnan(row_of(found, GPU, "speedup")["ours"])
    ours = {
        row["measured"]: row["ours in words"] for row in printed_rows(study, record_of(study, GPU))
    }
    assert ours["U-Net: training on the CPU"] == "not measured"
    assert ours["U-Net: training on the GPU"] != "not measured"


def test_the_time_is_that_of_all_epochs_and_the_ratio_ours_over_theirs(study: Study) -> None:
    row = row_of(rows(study, record_of(study, GPU, throughput_per_s=100.0)), GPU, "training_time_s")

    assert row["ours"] == pytest.approx((3 + 4) * 500 / 100, rel=0.01)
    assert row["ratio"] == pytest.approx(row["ours"] / 52.38)
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(
        (row["ours_low"] / 52.38, row["ours_high"] / 52.38)
    )
