"""Loops that a workload brings are drawn by the time of a pass along the points, and by part."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures.own_loops import iteration_parts
from gpu_report.tables.bundle import Tables
from tests.factories import make_record, make_records, make_tables
from tests.unit.figures.drawn import (
    draw_named,
    specs_by_name,
    specs_of,
    study_and_tables,
    study_of,
    texts_of,
)

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


def test_loops_have_a_figure_of_a_pass_and_no_other_and_no_one_else_has_it() -> None:
    names = [
        name
        for name in specs_of("workers", "precision", LOOPS, SIZES)
        if not name.startswith("study_")
    ]

    assert [name for name in names if name.startswith(LOOPS)] == [f"{LOOPS}_parts", PASSES]
    assert not [
        name for name in names if not name.startswith(LOOPS) and name.endswith(("_parts", "passes"))
    ]
    assert {"workers_throughput", "precision_speedup"} <= set(names)
    assert {"study_steps", "study_idle"} <= set(specs_of(LOOPS))


def test_a_model_beside_a_loop_keeps_the_figures_of_all_models() -> None:
    names = [name for name in specs_of("crossover") if name.startswith("crossover_")]

    assert "crossover_crossover" in names
    assert not [name for name in names if name.endswith("passes")]


def test_loops_of_which_none_was_measured_have_no_figure() -> None:
    study = study_of(LOOPS, SIZES)
    tables = make_tables(study, make_records(study, status="skipped"))

    names = specs_by_name(tables, study)

    assert not [name for name in names if name.startswith(LOOPS)]


def test_doubted_passes_are_hollow_and_the_legend_says_by_what() -> None:
    study = study_of(SIZES)
    shared = {"other_processes": 2}
    doubted, *_ = (
        record.variant
        for record in make_records(study, processes=1)
        if record.variant.endswith("persistent")
    )
    records = [
        make_record(record.variant, telemetry=shared) if record.variant == doubted else record
        for record in make_records(study, processes=2)
    ]

    figure = draw_named(PASSES, make_tables(study, records), study)

    assert "hollow: " in texts_of(figure)
    assert [
        line for axes in figure.axes for line in axes.lines if line.get_markerfacecolor() == "white"
    ]


def test_each_device_has_a_panel_and_each_loop_a_line_from_few_points_to_many() -> None:
    study, tables = study_and_tables(LOOPS, SIZES)
    backwards = {**tables.experiments, SIZES: tables.experiments[SIZES].iloc[::-1]}

    figure = draw_named(PASSES, replace(tables, experiments=backwards), study)

    rows = tables.experiments[SIZES].merge(
        tables.own_loops[["variant", "pass_us", "points"]], on="variant"
    )
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert set(panels) == {"CPU", "CUDA"}
    for device in ("cpu", "cuda"):
        expected = [
            sorted(zip(loop["points"].astype(float), loop["pass_us"], strict=True))
            for _, loop in rows[rows["device"] == device].groupby("optimization", sort=False)
        ]
        assert sorted(curves_of(panels[device.upper()])) == sorted(expected)


def test_a_line_goes_from_few_points_to_many_whatever_the_order_of_the_rows() -> None:
    study, tables = study_and_tables(LOOPS, SIZES)
    backwards = {**tables.experiments, SIZES: tables.experiments[SIZES].iloc[::-1]}

    figure = draw_named(PASSES, replace(tables, experiments=backwards), study)

    assert all(curve == sorted(curve) for axes in figure.axes for curve in curves_of(axes))


def test_more_loops_than_colours_still_look_different() -> None:
    entry = {"question": "?", "axis": "batch_size", "baseline": 8000}
    row = {
        "workload": LOOPS,
        "device": "fastest",
        "batch_size": [800, 8000],
        "epochs": 3,
        "steps_per_epoch": 200,
    }
    loops = [
        "none",
        "compile",
        "graphs",
        "triton",
        "separate",
        "streams",
        "fusedstep",
        "sharedsums",
        "persistent",
    ]
    study = study_of(
        many={**entry, "grid": [{**row, "optimization": loops, "needs_accelerator": True}]}
    )
    tables = make_tables(study, make_records(study, processes=2))

    figure = draw_named("many_passes", tables, study)

    looks = {
        (line.get_color(), line.get_marker())
        for line in figure.axes[0].lines
        if line.get_linestyle() == "-"
    }
    assert len(looks) == len(loops)


NAME = "linear_regression_parts"
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
    return replace(tables, **changed), slugs


def test_the_parts_of_an_iteration_add_up_to_the_device_work_of_the_profiled_run() -> None:
    tables, slugs = with_work()

    parts = iteration_parts(tables)

    for loop, kernels in KERNELS.items():
        of_loop = parts.loc[parts["variant"] == slugs[loop], "time_us"]
        assert of_loop.sum() * PASSES_OF_STEP * STEPS / 1e3 == pytest.approx(
            sum(time_ms for _, time_ms in kernels)
        )


def test_parts_come_from_phases_or_from_kernels_of_one_part_each_or_are_not_distinguished() -> None:
    tables, slugs = with_work()

    parts = iteration_parts(tables)

    named = {loop: set(parts.loc[parts["variant"] == slugs[loop], "part"]) for loop in KERNELS}
    assert named["none"] == named["separate"] == {"forward", "loss", "backward", "optimizer"}
    assert named["fusedstep"] == {"together"}


def drawn_widths(figure: Figure) -> list[float]:
    return [bar.get_width() for bar in figure.axes[0].patches if bar.get_width()]  # type: ignore[attr-defined]


def test_every_part_is_a_segment_as_long_as_its_time() -> None:
    study, _ = study_and_tables("linear_regression")
    tables, _ = with_work()

    figure = draw_named(NAME, tables, study)

    assert sorted(drawn_widths(figure)) == pytest.approx(
        sorted(iteration_parts(tables).query("time_us > 0")["time_us"])
    )
    for words in ("separate CUDA kernels", "backward", "together"):
        assert words in texts_of(figure)


def test_loops_without_parts_of_their_own_have_no_such_figure() -> None:
    study, tables = study_and_tables("linear_regression")

    assert NAME not in specs_by_name(replace(tables, phases=tables.phases.iloc[:0]), study)
