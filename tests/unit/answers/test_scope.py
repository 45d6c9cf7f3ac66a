from dataclasses import replace

import pandas as pd
import pytest

from gpu_report.answers.scope import TRACE, chapter_scopes, differences, experiment_scope
from gpu_report.figures.labels import with_fields
from gpu_report.tables.bundle import rows_of
from tests.factories import with_tables
from tests.unit.answers.editing import base


def test_chapters_about_the_machine_are_left_out_where_they_have_no_data() -> None:
    tables, _ = base()
    unprofiled = with_tables(tables, step_shares=tables.step_shares.iloc[:0])

    assert [scope.name for scope in chapter_scopes(tables)] == ["trace"]
    assert chapter_scopes(unprofiled) == []


@pytest.mark.parametrize("strategy", ["dp", "split", "pipeline"])
def test_traces_of_devices_that_wait_for_each_other_by_design_are_not_asked(strategy: str) -> None:
    tables, _ = base()
    waiting = with_tables(tables, variants=tables.variants.assign(strategy=strategy))

    assert TRACE in {scope.name for scope in chapter_scopes(tables)}
    assert TRACE not in {scope.name for scope in chapter_scopes(waiting)}


FUSED = "unet-64px-cuda-b8-w0-fp32-e3-fused"


@pytest.mark.parametrize(
    ("after", "added"),
    [
        ("unet-64px-cuda-b8-w0-fp32-e3-fused+resident", ["resident"]),
        ("unet-64px-cuda-b8-w0-bf16-e3-fused", ["bf16"]),
        ("unet-64px-cuda-b8-w0-bf16-e3-fused+resident", ["bf16", "resident"]),
        (FUSED, []),
        ("unet-64px-cuda-b8-w0-fp32-e3-resident", []),
        ("unet-64px-cuda-b16-w0-fp32-e3-fused+resident", []),
        ("unet-64px-cuda-b8-w0-fp32-e3-ddp2-fused+resident", []),
        ("unet-64px-cuda-b8-w4-fp32-e3-fused+checkpoint", []),
        ("lstm-cuda-b8-w0-fp32-e3-fused+resident", []),
    ],
)
def test_what_was_added_is_known_where_two_trainings_differ_in_nothing_else(
    after: str, added: list[str]
) -> None:
    first, second = rows_of(with_fields(pd.DataFrame({"variant": [FUSED, after]})))

    assert differences(first, second) == added


def test_groups_through_precisions_are_not_named_by_one_of_them() -> None:
    tables, study = base()
    (ladder,) = (each for each in study.experiments if each.name == "optimization")
    rows = tables.experiments["optimization"]
    names = rows["optimization"].mask(rows["optimization"] == "fused", "bf16")
    precisions = rows["precision"].mask(rows["optimization"] == "fused", "bf16")
    changed = rows.assign(optimization=names, precision=precisions)
    tables = replace(tables, experiments={**tables.experiments, "optimization": changed})

    (group,) = experiment_scope(tables, ladder).groups

    assert group.title == "U-Net"
    assert [group.words(row) for row in group.rows if row["precision"] == "bf16"] == ["bf16"]
