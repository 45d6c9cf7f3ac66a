import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from gpu_report.figures.declaration import Shown, Subject
from gpu_report.figures.steps import CAUSE_COLORS, PART_COLORS, profiled_rows
from gpu_report.tables.bundle import Tables
from gpu_report.tables.trace_schema import STEP_PARTS
from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables, texts_of


def with_shares(tables: Tables, device: str, **shares: float) -> Tables:
    """The tables, on that device with these shares of a step and 0 of its other parts."""
    changed = {f"{part}_share": shares.get(part, 0.0) for part in STEP_PARTS}
    rows = tables.step_shares
    on_device = rows["device"] == device
    return replace(tables, step_shares=pd.concat([rows[~on_device], rows[on_device].assign(**changed)]))


def bars_of(figure: Any) -> list[Rectangle]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle) and patch.get_width() > 0]


def test_the_parts_of_a_step_fill_the_axis_in_the_order_in_which_they_count() -> None:
    study, tables = study_and_tables("models")
    tables = with_shares(tables, "cuda", kernel=0.5, runtime=0.3, other=0.2)

    bars = bars_of(draw_named("study_steps", tables, study))

    first = [bar for bar in bars if bar.get_y() == bars[0].get_y()]
    assert [round(bar.get_x()) for bar in first] == [0, 50, 80]
    assert [round(bar.get_width()) for bar in first] == [50, 30, 20]


def test_the_legend_names_the_parts_that_occur_and_no_other() -> None:
    study, tables = study_and_tables("models")

    text = texts_of(draw_named("study_steps", with_shares(tables, "cuda", kernel=0.7, loader=0.3), study)).split("\n")

    assert {"kernel", "loader"} <= set(text)
    assert not set(PART_COLORS) - {"kernel", "loader"} & set(text)


def test_how_busy_and_how_launch_bound_the_device_was_stands_at_the_right() -> None:
    study, tables = study_and_tables("models")
    shares = tables.step_shares.assign(device_busy_share=0.617, launch_bound_share=0.084)

    text = texts_of(draw_named("study_steps", replace(tables, step_shares=shares), study))

    assert "61.7, 8.4" in text
    assert "kernel-active, launch-bound (%)" in text


def test_a_variant_without_reliable_shares_is_a_gap_that_says_so() -> None:
    study, tables = study_and_tables("device")
    shares = tables.step_shares
    spoiled = shares["workload"] == "unet"
    shares.loc[spoiled, [f"{part}_share" for part in STEP_PARTS]] = math.nan

    figure = draw_named("study_steps", replace(tables, step_shares=shares), study)

    lines = texts_of(figure).split("\n")
    others = shares[~spoiled].drop_duplicates(["workload", "device"])
    reliable = int(others["other_share"].notna().sum())
    assert lines.count("not reliable") == 2 + len(others) - reliable
    assert len({bar.get_y() for bar in bars_of(figure)}) == reliable


def test_a_step_on_the_cpu_is_whole_without_the_parts_of_an_accelerator() -> None:
    study, tables = study_and_tables("device", devices=("cpu",))

    text = texts_of(draw_named("study_steps", tables, study))

    assert "not reliable" not in text
    assert "busy" not in text
    assert "kernel" not in text


def test_the_first_of_each_workload_and_device_is_that_of_the_study_and_not_of_the_alphabet() -> None:
    _, tables = study_and_tables("device", "complexity")

    shown = profiled_rows(Shown(rows=tables.variants, subject=Subject(), tables=tables))

    networks = shown[shown["workload"] == "cnn"]
    assert networks["size"].tolist() == ["medium", "medium"]
    assert networks["device"].tolist() == ["cpu", "cuda"]


def test_without_a_profiled_variant_there_is_no_figure_of_steps() -> None:
    study, tables = study_and_tables("device")

    names = specs_by_name(replace(tables, step_shares=tables.step_shares.iloc[:0]), study)

    assert not {"study_steps", "study_idle"} & set(names)


@pytest.mark.parametrize("colors", [PART_COLORS, CAUSE_COLORS])
def test_neighbours_can_be_told_apart_in_grey(colors: Mapping[str, str]) -> None:
    greys = [float(np.dot((0.299, 0.587, 0.114), to_rgb(color))) for color in colors.values()]

    assert min(abs(one - next_one) for one, next_one in pairwise(greys)) > 0.1
