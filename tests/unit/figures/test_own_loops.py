"""Loops that a workload brings are drawn by the time of a pass along the points, and by part."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gpu_report.figures.own_loops import iteration_parts
from gpu_report.tables.bundle import Tables
from tests.factories import with_tables
from tests.unit.figures.drawn import draw_named, study_and_tables

LOOPS, SIZES = "linear_regression", "linear_regression_size"
PASSES = f"{SIZES}_passes"


def points_of(line: Line2D) -> list[tuple[float, float]]:
    pairs = zip(
        np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float), strict=True
    )
    return [(float(x), float(y)) for x, y in pairs]


def curves_of(axes: Axes) -> list[list[tuple[float, float]]]:
    """The lines through measured points, without the caps of their bars."""
    return [points_of(line) for line in axes.lines if line.get_linestyle() == "-"]


def test_each_device_has_a_panel_and_each_loop_a_line_from_few_points_to_many() -> None:
    study, tables = study_and_tables(LOOPS, SIZES)
    backwards = {**tables.experiments, SIZES: tables.experiments[SIZES].iloc[::-1]}

    figure = draw_named(PASSES, replace(tables, experiments=backwards), study)

    rows = tables.experiments[SIZES].merge(
        tables.own_loops[["variant", "pass_us", "points"]], on="variant"
    )
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert set(panels) == {"CPU", "GPU"}
    for device, title in (("cpu", "CPU"), ("cuda", "GPU")):
        expected = [
            sorted(zip(loop["points"].astype(float), loop["pass_us"], strict=True))
            for _, loop in rows[rows["device"] == device].groupby("optimization", sort=False)
        ]
        assert sorted(curves_of(panels[title])) == sorted(expected)


SPACE = "(anonymous namespace)::"
KERNELS = {
    "none": [("void at::native::mse_kernel(int)", 8.0)],
    "separate": [
        (f"{SPACE}{part}(Training, float*)", 0.5)
        for part in ("forward", "loss", "gradient", "update")
    ],
    "fusedstep": [(f"{SPACE}one_epoch(Training)", 0.25), (f"{SPACE}begin(Training)", 0.0)],
}
PHASES = {"forward": 4.0, "loss": 1.0, "backward": 2.0, "optimizer": 1.0}
PASSES_OF_STEP, STEPS = 10, 5


def with_work() -> tuple[Tables, "pd.Series[str]"]:
    """Tables in which three loops have kernels, and the plain one phases, of 10 iterations in each
    of 5 steps.
    """
    _, tables = study_and_tables("linear_regression")
    loops = tables.own_loops[
        (tables.own_loops["device"] == "cuda") & tables.own_loops["optimization"].isin(KERNELS)
    ]
    slugs = loops.set_index("optimization")["variant"]
    kernels = [
        {"variant": slugs[loop], "name": name, "total_ms": time_ms}
        for loop, found in KERNELS.items()
        for name, time_ms in found
    ]
    phases = [
        {"variant": slugs["none"], "phase": phase, "self_ms": time_ms}
        for phase, time_ms in PHASES.items()
    ]
    changed: Any = {
        "top_kernels": pd.concat([tables.top_kernels.iloc[:0], pd.DataFrame(kernels)]),
        "phases": pd.concat([tables.phases.iloc[:0], pd.DataFrame(phases)]),
        "own_loops": tables.own_loops.assign(passes=PASSES_OF_STEP),
        "step_shares": tables.step_shares.assign(steps=STEPS),
    }
    return with_tables(tables, **changed), slugs


def test_the_parts_of_an_iteration_add_up_to_the_device_work_of_the_profiled_run() -> None:
    tables, slugs = with_work()

    for loop, kernels in KERNELS.items():
        rows = tables.own_loops[tables.own_loops["variant"] == slugs[loop]]
        parts = iteration_parts(tables, rows)
        assert set(parts["variant"]) == {slugs[loop]}
        of_loop = parts.loc[parts["variant"] == slugs[loop], "time_us"]
        assert of_loop.sum() * PASSES_OF_STEP * STEPS / 1e3 == pytest.approx(
            sum(time_ms for _, time_ms in kernels)
        )


def test_parts_come_from_phases_or_from_kernels_of_one_part_each_or_are_not_distinguished() -> None:
    tables, slugs = with_work()

    parts = iteration_parts(tables, tables.own_loops)

    named = {loop: set(parts.loc[parts["variant"] == slugs[loop], "part"]) for loop in KERNELS}
    assert named["none"] == named["separate"] == {"forward", "loss", "backward", "optimizer"}
    assert named["fusedstep"] == {"together"}
