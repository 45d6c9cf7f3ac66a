"""Loops that a workload brings are drawn by the time of a pass, beside its floor and along the points."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpu_report.figures import labels, style
from gpu_report.number_format import quantity
from gpu_report.tables.bundle import Tables
from tests.factories import make_record, make_records, make_tables
from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables, study_of, texts_of, with_failures

LOOPS, SIZES = "linear_regression", "linear_regression_size"
FLOORS, PASSES = f"{LOOPS}_floors", f"{SIZES}_passes"


def drawn(name: str, **changes: Any) -> tuple[Figure, Tables]:
    study, tables = study_and_tables(LOOPS, SIZES)
    tables = replace(tables, own_loops=tables.own_loops.assign(**changes))
    return draw_named(name, tables, study), tables


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def points_of(line: Line2D) -> list[tuple[float, float]]:
    pairs = zip(np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float), strict=True)
    return [(float(x), float(y)) for x, y in pairs]


def strokes_of(figure: Figure) -> list[tuple[float, float]]:
    """The floors; caps of the bars are strokes as well, in the colours of the devices."""
    (strokes,) = (line for line in figure.axes[0].lines if line.get_color() == style.VERMILLION)
    return points_of(strokes)


def curves_of(axes: Axes) -> list[list[tuple[float, float]]]:
    """The lines through measured points, without the caps of their bars."""
    return [points_of(line) for line in axes.lines if line.get_linestyle() == "-"]


def test_loops_have_a_figure_of_a_pass_and_no_other_and_no_one_else_has_it() -> None:
    study, tables = study_and_tables("workers", "precision", LOOPS, SIZES)

    names = [name for name in specs_by_name(tables, study) if not name.startswith("study_")]

    assert [name for name in names if name.startswith(LOOPS)] == [FLOORS, f"{LOOPS}_parts", PASSES]
    assert not [name for name in names if not name.startswith(LOOPS) and name.endswith(("floors", "_parts", "passes"))]
    assert {"workers_throughput", "precision_speedup"} <= set(names)


def test_a_model_beside_a_loop_keeps_the_figures_of_all_models() -> None:
    study, tables = study_and_tables("crossover")

    names = [name for name in specs_by_name(tables, study) if name.startswith("crossover_")]

    assert "crossover_crossover" in names
    assert not [name for name in names if name.endswith(("floors", "passes"))]


def test_a_study_of_loops_alone_keeps_the_figures_of_the_whole_study() -> None:
    study, tables = study_and_tables(LOOPS)

    assert {"study_steps", "study_idle"} <= set(specs_by_name(tables, study))


def test_loops_of_which_none_was_measured_have_no_figure() -> None:
    study = study_of(LOOPS, SIZES)
    tables = make_tables(study, make_records(study, status="skipped"))

    names = specs_by_name(tables, study)

    assert not [name for name in names if name.startswith(LOOPS)]


def test_a_loop_that_was_not_measured_keeps_its_row_and_says_why() -> None:
    study = study_of(LOOPS)
    records = with_failures(make_records(study, processes=2), triton="skipped", streams="failed")
    tables = make_tables(study, records)

    text = texts_of(draw_named(FLOORS, tables, study))

    assert len(specs_by_name(tables, study)[FLOORS].variants) == len(records)
    assert "fused kernel in Triton" in text
    assert ("skipped" in text, "failed" in text) == (True, True)
    assert "nan" not in text


def test_a_floor_stands_at_its_value_in_the_row_of_its_loop() -> None:
    figure, tables = drawn(FLOORS)
    spec = specs_by_name(tables, study_and_tables(LOOPS, SIZES)[0])[FLOORS]

    strokes = strokes_of(figure)

    floors = tables.own_loops.set_index("variant").loc[list(spec.variants), "floor_us"]
    assert [x for x, _ in strokes] == floors.tolist()
    assert len({y for _, y in strokes}) == len(spec.variants)


def test_a_pass_stands_in_the_row_of_its_floor() -> None:
    figure, tables = drawn(FLOORS, floor_us=lambda table: table["pass_us"] / 2)

    strokes = strokes_of(figure)

    points = (line for line in figure.axes[0].lines if line.get_marker() in ("o", "s"))
    passes = {y: x for line in points for x, y in points_of(line)}
    assert {y: 2 * x for x, y in strokes} == pytest.approx(passes)
    assert len(passes) == len(tables.experiments[LOOPS])


def test_without_a_floor_there_is_no_stroke_and_the_passes_stay() -> None:
    figure, tables = drawn(FLOORS, floor_us=float("nan"))

    passes = [x for line in figure.axes[0].lines if line.get_marker() in ("o", "s") for x, _ in points_of(line)]
    assert not [x for x, _ in strokes_of(figure) if np.isfinite(x)]
    assert len(passes) == len(tables.experiments[LOOPS])


def test_floors_that_lie_far_from_the_passes_are_told_apart_on_a_logarithmic_axis() -> None:
    alike = {"pass_us": 50.0, "pass_us_low": 49.0, "pass_us_high": 51.0}

    near, far = (drawn(FLOORS, floor_us=floor_us, **alike)[0].axes[0] for floor_us in (45.0, 1e-3))

    assert (near.get_xscale(), far.get_xscale()) == ("linear", "log")
    low, high = far.get_xlim()
    assert low < 1e-3 < 51 < high


def test_the_legend_of_floors_tells_a_pass_from_its_floor() -> None:
    figure, _ = drawn(FLOORS)

    assert legend_of(figure) == ["a pass", "its floor"]


@pytest.mark.parametrize(("name", "experiment"), [(FLOORS, LOOPS), (PASSES, SIZES)])
def test_doubted_passes_are_hollow_and_the_legend_says_by_what(name: str, experiment: str) -> None:
    study = study_of(experiment)
    shared = {"other_processes": 2}
    doubted, *_ = (
        record.variant for record in make_records(study, processes=1) if record.variant.endswith("persistent")
    )
    records = [
        make_record(record.variant, telemetry=shared) if record.variant == doubted else record
        for record in make_records(study, processes=2)
    ]

    figure = draw_named(name, make_tables(study, records), study)

    assert legend_of(figure)[-1].startswith("hollow: ")
    assert [line for axes in figure.axes for line in axes.lines if line.get_markerfacecolor() == "white"]


def test_each_device_has_a_panel_and_each_loop_a_line_along_the_points() -> None:
    figure, tables = drawn(PASSES)

    rows = tables.experiments[SIZES].merge(tables.own_loops[["variant", "pass_us", "points"]], on="variant")
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes] == ["CPU", "CUDA"]
    for axes, device in zip(figure.axes, ["cpu", "cuda"], strict=True):
        expected = [
            list(zip(loop["points"].astype(float), loop["pass_us"], strict=True))
            for _, loop in rows[rows["device"] == device].groupby("optimization", sort=False)
        ]
        assert [sorted(curve) for curve in curves_of(axes)] == [sorted(curve) for curve in expected]


def test_a_line_goes_from_few_points_to_many_whatever_the_order_of_the_rows() -> None:
    study, tables = study_and_tables(LOOPS, SIZES)
    backwards = {**tables.experiments, SIZES: tables.experiments[SIZES].iloc[::-1]}

    figure = draw_named(PASSES, replace(tables, experiments=backwards), study)

    assert all(curve == sorted(curve) for axes in figure.axes for curve in curves_of(axes))


def test_the_time_of_reading_the_points_once_is_a_dashed_line_on_every_device() -> None:
    figure, tables = drawn(PASSES)

    told = tables.own_loops.set_index(["device", "points"])["reading_us"].to_dict()
    for axes, device in zip(figure.axes, ["cpu", "cuda"], strict=True):
        (dashed,) = (points_of(line) for line in axes.lines if line.get_linestyle() == "--")
        assert dashed == [(points, told[device, points]) for points, _ in dashed]
        assert len(dashed) == len({points for curve in curves_of(axes) for points, _ in curve})


def test_the_legend_of_passes_names_every_loop_once() -> None:
    figure, tables = drawn(PASSES)

    loops = dict.fromkeys(tables.experiments[SIZES]["optimization"])
    assert legend_of(figure) == [*map(labels.optimization_label, loops), "reading the points once"]


def test_more_loops_than_colours_still_look_different() -> None:
    entry = {"question": "?", "axis": "batch_size", "baseline": 8000}
    row = {"workload": LOOPS, "device": "fastest", "batch_size": [800, 8000], "epochs": 3, "steps_per_epoch": 200}
    loops = ["none", "compile", "graphs", "triton", "separate", "streams", "fusedstep", "sharedsums", "persistent"]
    study = study_of(many={**entry, "grid": [{**row, "optimization": loops, "needs_accelerator": True}]})
    tables = make_tables(study, make_records(study, processes=2))

    figure = draw_named("many_passes", tables, study)

    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].lines if line.get_linestyle() == "-"}
    assert len(looks) == len(loops)


@pytest.mark.parametrize(("name", "experiment"), [(FLOORS, LOOPS), (PASSES, SIZES)])
def test_the_alternative_text_tells_the_fastest_and_the_slowest_pass(name: str, experiment: str) -> None:
    study, tables = study_and_tables(LOOPS, SIZES)

    alt = specs_by_name(tables, study)[name].alt

    shown = tables.own_loops[tables.own_loops["variant"].isin(tables.experiments[experiment]["variant"])]
    least, most = (quantity(value, "µs").plain() for value in (shown["pass_us"].min(), shown["pass_us"].max()))
    assert f"Time of a pass reaches from {least} (" in alt
    assert f" to {most} (" in alt
    assert f"{len(shown)} variants of linear regression" in alt
