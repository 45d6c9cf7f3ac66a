import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from gpu_report.figures import style
from gpu_report.figures.stacked_bars import CATEGORY_COLORS, CAUSE_COLORS, PART_COLORS
from gpu_report.tables.bundle import shown_profiles
from gpu_report.tables.traces import STEP_PARTS
from gpu_report.traces.categories import CATEGORIES
from tests.unit.figures.drawn import Change, drawn, specs_of, study_and_tables, texts_of


def without(workload: str, *tables: str) -> dict[str, Any]:
    return dict.fromkeys(tables, lambda table: table[table["workload"] != workload])


def bars_of(figure: Any) -> list[Rectangle]:
    return [
        patch
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle) and patch.get_width() > 0
    ]


def test_convolutions_are_a_share_of_all_time() -> None:
    def change(phases: pd.DataFrame) -> pd.DataFrame:
        phases = phases[phases["phase"].isin(["forward", "backward"])]
        return phases.assign(
            share=0.5, convolution_share=[0.4, 0.8] * (len(phases) // 2), cudnn_share=0.1
        )

    assert "60.0, 10.0" in texts_of(drawn("models_phases", "models", phases=change))


def test_a_model_without_profile_keeps_its_row() -> None:
    text = texts_of(
        drawn("models_phases", "models", **without("resnet18", "phases", "step_shares"))
    )

    assert "not profiled" in text
    assert "not reliable" not in text


@pytest.mark.parametrize("figure", ["device_phases", "device_categories"])
def test_what_was_profiled_and_has_no_shares_is_not_reliable(figure: str) -> None:
    text = texts_of(
        drawn(figure, "device", **without("lstm", "phases", "category_shares", "top_operations"))
    )

    assert "not reliable" in text
    assert "not profiled" not in text


def test_a_category_keeps_its_colour_however_much_time_it_took() -> None:
    def convolution_last(shares: pd.DataFrame) -> pd.DataFrame:
        return shares.assign(share=shares["share"].where(shares["category"] != "convolution", 1e-6))

    figures = [
        drawn("device_categories", "device"),
        drawn("device_categories", "device", category_shares=convolution_last),
    ]

    for legend in (figure.legends[0] for figure in figures):
        colors = [to_rgb(patch.get_facecolor()[:3]) for patch in legend.get_patches()]
        named = dict(zip((text.get_text() for text in legend.get_texts()), colors, strict=True))
        assert named["convolution"] == pytest.approx(to_rgb(style.BLUE))
    assert set(CATEGORY_COLORS) <= set(CATEGORIES)


def with_parts(device: str, **shares: float) -> Change:
    """These shares of a step on that device, and 0 of its other parts."""
    parts = {f"{part}_share": shares.get(part, 0.0) for part in STEP_PARTS}

    def change(table: pd.DataFrame) -> pd.DataFrame:
        on_device = table["device"] == device
        return pd.concat([table[~on_device], table[on_device].assign(**parts)])

    return change


def test_the_parts_of_a_step_fill_the_axis_in_the_order_in_which_they_count() -> None:
    bars = bars_of(
        drawn(
            "study_steps",
            "models",
            step_shares=with_parts("cuda", kernel=0.5, runtime=0.3, other=0.2),
        )
    )

    first = [bar for bar in bars if bar.get_y() == bars[0].get_y()]
    assert [round(bar.get_x()) for bar in first] == [0, 50, 80]
    assert [round(bar.get_width()) for bar in first] == [50, 30, 20]


def test_the_legend_names_the_parts_that_occur_and_no_other() -> None:
    text = texts_of(
        drawn("study_steps", "models", step_shares=with_parts("cuda", kernel=0.7, loader=0.3))
    ).split("\n")

    assert {"kernel", "loader"} <= set(text)
    assert not set(PART_COLORS) - {"kernel", "loader"} & set(text)


def test_how_busy_and_how_launch_bound_the_device_was_is_at_the_right() -> None:
    figure = drawn(
        "study_steps",
        "models",
        step_shares=lambda table: table.assign(device_busy_share=0.617, launch_bound_share=0.084),
    )

    assert "61.7, 8.4" in texts_of(figure)


def test_a_variant_without_reliable_shares_is_a_gap_that_says_so() -> None:
    _, tables = study_and_tables("device")
    shares = tables.step_shares.copy()
    spoiled = shares["workload"] == "unet"
    shares.loc[spoiled, [f"{part}_share" for part in STEP_PARTS]] = math.nan

    figure = drawn("study_steps", "device", step_shares=lambda _: shares)

    shown = shares.set_index("variant").loc[shown_profiles(tables)]
    reliable = int(shown["other_share"].notna().sum())
    assert texts_of(figure).split("\n").count("not reliable") == len(shown) - reliable > 0
    assert len({bar.get_y() for bar in bars_of(figure)}) == reliable


def test_a_step_on_the_cpu_is_whole_without_the_parts_of_an_accelerator() -> None:
    text = texts_of(drawn("study_steps", "device", devices=("cpu",)))

    assert not [words for words in ("not reliable", "busy", "kernel") if words in text]


def test_without_a_profiled_variant_there_is_no_figure_of_steps() -> None:
    assert not {"study_steps", "study_idle"} & set(
        specs_of("device", step_shares=lambda table: table.iloc[:0])
    )


@pytest.mark.parametrize("colors", [PART_COLORS, CAUSE_COLORS])
def test_neighbours_can_be_distinguished_in_grey(colors: Mapping[str, str]) -> None:
    greys = [float(np.dot((0.299, 0.587, 0.114), to_rgb(color))) for color in colors.values()]

    assert min(abs(one - next_one) for one, next_one in pairwise(greys)) > 0.1


def with_idle(idle_share: float, *, longest_us: float = 1.0, **gaps: float) -> dict[str, Any]:
    """That idle share of the image CNN on an accelerator, and gaps of these causes with their
    shares.
    """
    _, tables = study_and_tables("models")
    shares, causes = tables.step_shares.copy(), tables.idle_causes
    networks = (shares["workload"] == "cnn") & (shares["device"] != "cpu")
    shares.loc[networks, "device_idle_share"] = idle_share
    template = {**causes.iloc[0].to_dict(), "workload": "cnn", "longest_us": longest_us}
    added = [
        {**template, "variant": variant, "cause": cause, "share": share}
        for variant in shares.loc[networks, "variant"]
        for cause, share in gaps.items()
    ]
    changed = pd.concat(
        [causes[causes["workload"] != "cnn"], pd.DataFrame(added)], ignore_index=True
    )
    return {"step_shares": lambda _: shares, "idle_causes": lambda _: changed}


def test_gaps_of_one_cause_are_one_segment() -> None:
    once = drawn("study_idle", "models")
    twice = drawn(
        "study_idle",
        "models",
        idle_causes=lambda table: pd.concat([table, table], ignore_index=True),
    )

    widths, doubled = (
        [float(bar.get_width()) for bar in bars_of(figure)] for figure in (once, twice)
    )
    assert doubled == pytest.approx([2 * width for width in widths])


def test_the_idle_share_and_the_longest_gap_are_at_the_right() -> None:
    figure = drawn(
        "study_idle", "models", **with_idle(0.31, longest_us=2157.0, host=0.21, loader=0.1)
    )

    assert "31.0, 2.16 ms" in texts_of(figure)


def test_a_variant_whose_gaps_are_not_reliable_is_a_gap_that_says_so() -> None:
    text = texts_of(drawn("study_idle", "models", **with_idle(math.nan, host=0.2)))

    assert text.split("\n").count("not reliable") == 1


def test_a_variant_that_never_idled_is_not_called_unreliable() -> None:
    assert "not reliable" not in texts_of(drawn("study_idle", "models", **with_idle(0.0)))
