"""One iteration is drawn by its parts where kernels or phases name them, and as one bar where none does."""

from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.figure import Figure

from gpu_report.figures.own_loops import iteration_parts
from gpu_report.tables.bundle import Tables
from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables, texts_of

NAME = "linear_regression_parts"
SPACE = "(anonymous namespace)::"
KERNELS = {
    "none": [("void at::native::mse_kernel(int)", 8.0)],
    "separate": [(f"{SPACE}{part}(Training, float*)", 0.5) for part in ("forward", "loss", "gradient", "update")],
    "fusedstep": [(f"{SPACE}one_epoch(Training)", 0.25), (f"{SPACE}begin(Training)", 0.0)],
}
PHASES = {"forward": 4.0, "loss": 1.0, "backward": 2.0, "optimizer": 1.0}
PASSES, STEPS = 10, 5


def loops_on_cuda(tables: Tables) -> "pd.Series[str]":
    loops = tables.own_loops[(tables.own_loops["device"] == "cuda") & tables.own_loops["optimization"].isin(KERNELS)]
    return loops.set_index("optimization")["variant"]


def with_work() -> tuple[Tables, "pd.Series[str]"]:
    """Tables in which three loops have kernels, and the plain one phases, of 10 iterations in each of 5 steps."""
    _, tables = study_and_tables("linear_regression")
    slugs = loops_on_cuda(tables)
    kernels = [
        {"variant": slugs[loop], "name": name, "total_ms": time_ms}
        for loop, found in KERNELS.items()
        for name, time_ms in found
    ]
    phases = [{"variant": slugs["none"], "phase": phase, "self_ms": time_ms} for phase, time_ms in PHASES.items()]
    return (
        replace(
            tables,
            top_kernels=pd.concat([tables.top_kernels.iloc[:0], pd.DataFrame(kernels)]),
            phases=pd.concat([tables.phases.iloc[:0], pd.DataFrame(phases)]),
            own_loops=tables.own_loops.assign(passes=PASSES),
            step_shares=tables.step_shares.assign(steps=STEPS),
        ),
        slugs,
    )


def test_the_parts_of_an_iteration_add_up_to_the_device_work_of_the_profiled_run() -> None:
    tables, slugs = with_work()

    parts = iteration_parts(tables)

    for loop, kernels in KERNELS.items():
        of_loop = parts.loc[parts["variant"] == slugs[loop], "time_us"]
        assert of_loop.sum() * PASSES * STEPS / 1e3 == pytest.approx(sum(time_ms for _, time_ms in kernels))


def test_parts_come_from_phases_or_from_kernels_of_one_part_each_or_are_not_told_apart() -> None:
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
