"""The waterfall: a bar per step of a ladder, as long as a step and split by category."""

import pandas as pd
from matplotlib.patches import Rectangle

from gpu_report.figures.ladder import WATERFALL_COLORS
from tests.factories import make_records, make_tables
from tests.unit.figures.drawn import (
    drawn,
    drawn_after_failures,
    specs_by_name,
    specs_of,
    study_of,
    texts_of,
)

NAME = "study_waterfall"


def test_each_row_adds_an_option_and_the_eager_baseline_comes_first() -> None:
    spec = specs_of("optimization")[NAME]

    texts = texts_of(spec.draw())

    assert spec.variants[0] == "unet-128px-cuda-b16-w0-fp32-e3"
    assert "eager, fp32" in texts
    assert "+ CUDA graphs" in texts


def test_a_bar_is_as_long_as_a_step_and_names_the_part_that_changed_most() -> None:
    def without_convolutions_in_the_last(table: pd.DataFrame) -> pd.DataFrame:
        last = table["variant"] == table["variant"].iloc[-1]
        rest: pd.DataFrame = table.loc[~(last & (table["category"] == "convolution"))]
        return rest

    figure = drawn(NAME, "optimization", step_categories=without_convolutions_in_the_last)
    (axes,) = figure.axes

    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert max(bar.get_x() + bar.get_width() for bar in bars) <= axes.get_xlim()[1]
    assert "less convolution" in texts_of(figure)


def test_a_bar_has_the_timed_step_however_long_the_profiled_one_was() -> None:
    def twice_as_long(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(ms_per_step=2 * table["ms_per_step"])

    slowed = drawn(NAME, "optimization", step_categories=twice_as_long)

    assert texts_of(slowed) == texts_of(drawn(NAME, "optimization"))


def test_the_caption_names_the_work_of_a_gpu_only_where_one_worked() -> None:
    ladder = {
        "workload": "lstm",
        "device": "cpu",
        "batch_size": 8,
        "epochs": 2,
        "ladder": ["fused", "compile"],
    }
    asked = {"question": "Which?", "axis": "optimization", "baseline": "none", "grid": [ladder]}
    study = study_of(devices=("cpu",), on_cpu=asked)
    on_cpu = specs_by_name(make_tables(study, make_records(study, processes=4)), study)[NAME]

    assert "GPU" in specs_of("optimization")[NAME].caption
    assert "GPU" not in on_cpu.caption


def test_no_change_is_named_between_two_sessions() -> None:
    figure = drawn(NAME, "optimization", variants=lambda table: table.assign(session=table.index))

    texts = texts_of(figure)
    assert "; other session" in texts
    assert not any(change in texts for change in ("; less ", "; more "))


def test_a_bar_whose_trace_shows_no_categories_is_hatched_and_says_so() -> None:
    (first, *_) = specs_of("optimization")[NAME].variants

    figure = drawn(
        NAME, "optimization", step_categories=lambda table: table.loc[table["variant"] != first]
    )

    (hatched,) = [bar for bar in figure.axes[0].patches if bar.get_hatch()]
    assert isinstance(hatched, Rectangle)
    assert hatched.get_width() > 0
    assert "; not divided" in texts_of(figure)
    assert [bar.get_hatch() for bar in figure.legends[0].get_patches()].count("///") == 1


def test_bars_are_shares_of_the_first_that_was_measured() -> None:
    figure = drawn_after_failures(NAME, "optimization", **{"fp32-e3": "failed"})

    bars = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert max(bar.get_x() + bar.get_width() for bar in bars if bar.get_width() > 0) > 99.9


def test_rows_without_a_step_time_leave_an_axis_without_bars() -> None:
    figure = drawn(
        NAME,
        "optimization",
        step_categories=lambda table: table.assign(ms_per_step=0.0),
        variants=lambda table: table.assign(step_time_ms=float("nan")),
    )

    assert figure.axes[0].get_xlim() == (0, 100)


def test_without_a_trace_of_any_step_there_is_no_waterfall() -> None:
    found = specs_of("optimization", step_categories=lambda table: table.iloc[:0])

    assert NAME not in found


def test_no_two_categories_share_a_color() -> None:
    assert len(set(WATERFALL_COLORS.values())) == len(WATERFALL_COLORS)
