from dataclasses import replace

import pandas as pd
import pytest

from gpu_report.figures.labels import with_fields
from gpu_report.findings.scope import (
    TRACE,
    chapter_scopes,
    experiment_scope,
    only_difference,
)
from gpu_report.tables.bundle import rows_of
from tests.factories import make_study, make_tables
from tests.unit.findings.editing import CONFIG, base


def test_groups_follow_a_numeric_axis_whatever_the_order_of_the_rows() -> None:
    tables, study = base()
    batch_size = next(
        experiment for experiment in study.experiments if experiment.name == "batch_size"
    )
    shuffled = tables.experiments["batch_size"].iloc[::-1]
    tables = replace(tables, experiments={"batch_size": shuffled})

    (group,) = experiment_scope(tables, batch_size).groups

    assert [row["batch_size"] for row in group.rows] == [16, 64, 256, 1024]


def test_a_group_is_titled_by_the_compared_variant_where_the_baseline_has_fewer_steps() -> None:
    shortened = {
        "workload": "lstm",
        "batch_size": 64,
        "epochs": 5,
        "needs_accelerator": True,
        "on_cpu": {"epochs": 2, "steps_per_epoch": 10},
    }
    plain = {"workload": "lstm", "batch_size": 32, "epochs": 3}
    device = {**CONFIG["experiments"]["device"], "grid": [shortened, plain]}
    study = make_study(config={**CONFIG, "experiments": {"device": device}})

    groups = experiment_scope(make_tables(study), study.experiments[0]).groups

    assert groups[0].title == "bidirectional LSTM (batch size 64)"


def test_chapters_about_the_machine_are_left_out_where_they_have_no_data() -> None:
    assert [scope.name for scope in chapter_scopes(base()[0])] == [
        "efficiency",
        "transfer",
        "energy",
        "trace",
    ]
    assert [scope.name for scope in chapter_scopes(base(("cpu",))[0])] == ["efficiency", "trace"]


@pytest.mark.parametrize("strategy", ["dp", "split", "pipeline"])
def test_traces_of_devices_that_wait_for_each_other_by_design_are_not_asked(strategy: str) -> None:
    tables, _ = base()
    waiting = replace(tables, variants=tables.variants.assign(strategy=strategy))

    assert TRACE in {scope.name for scope in chapter_scopes(tables)}
    assert TRACE not in {scope.name for scope in chapter_scopes(waiting)}


FUSED = "unet-64px-cuda-b8-w0-fp32-e3-fused"


@pytest.mark.parametrize(
    ("after", "difference"),
    [
        ("unet-64px-cuda-b8-w0-fp32-e3-fused+resident", "resident"),
        ("unet-64px-cuda-b8-w0-bf16-e3-fused", "bf16"),
        (FUSED, ""),
        ("unet-64px-cuda-b8-w0-fp32-e3-resident", ""),
        ("unet-64px-cuda-b8-w0-bf16-e3-fused+resident", ""),
        ("unet-64px-cuda-b16-w0-fp32-e3-fused+resident", ""),
        ("unet-64px-cuda-b8-w0-fp32-e3-ddp2-fused+resident", ""),
        ("unet-64px-cuda-b8-w4-fp32-e3-fused+checkpoint", ""),
        ("lstm-cuda-b8-w0-fp32-e3-fused+resident", ""),
    ],
)
def test_one_further_option_or_another_precision_is_the_only_difference(
    after: str, difference: str
) -> None:
    first, second = rows_of(with_fields(pd.DataFrame({"variant": [FUSED, after]})))

    assert only_difference(first, second) == difference
