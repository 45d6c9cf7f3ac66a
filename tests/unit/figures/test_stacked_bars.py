import math
from typing import Any

import pandas as pd
import pytest
import yaml
from matplotlib.patches import Rectangle

from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import shown_profiles
from gpu_report.tables.traces import STEP_PARTS
from tests.factories import CONFIG, make_records, make_tables
from tests.unit.figures.drawn import (
    Change,
    drawn,
    specs_by_name,
    study_and_tables,
    study_of,
    texts_of,
)


def without(workload: str, *tables: str) -> dict[str, Any]:
    return dict.fromkeys(tables, lambda table: table[table["workload"] != workload])


def bars_of(figure: Any) -> list[Rectangle]:
    return [
        patch
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle) and patch.get_width() > 0
    ]


@pytest.mark.parametrize("figure", ["device_phases"])
def test_what_was_profiled_and_has_no_shares_is_not_reliable(figure: str) -> None:
    text = texts_of(drawn(figure, "device", **without("lstm", "phases", "top_operations")))

    assert "not reliable" in text
    assert "not profiled" not in text


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


def test_a_variant_without_reliable_shares_is_a_gap_that_says_so() -> None:
    _, tables = study_and_tables("device")
    shares = tables.step_shares.copy()
    spoiled = shares["workload"] == "unet"
    shares.loc[spoiled, [f"{part}_share" for part in STEP_PARTS]] = math.nan

    figure = drawn("study_steps", "device", step_shares=lambda _: shares)

    shown = shares.set_index("variant").loc[shown_profiles(tables)]
    reliable = int(shown["other_share"].notna().sum())
    gaps = [line for line in texts_of(figure).split("\n") if line.endswith("not reliable")]
    assert len(gaps) == len(shown) - reliable > 0
    assert len({bar.get_y() for bar in bars_of(figure)}) == reliable


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


def test_the_axis_ends_near_the_longest_bar() -> None:
    short = with_idle(0.05, host=0.05)
    gaps = short["idle_causes"](None)
    short["idle_causes"] = lambda _: gaps[gaps["workload"] == "cnn"]

    figure = drawn("study_idle", "models", **short)

    assert 5 < figure.axes[0].get_xlim()[1] < 6
    assert "5.0" in texts_of(figure).split("\n")


def test_waits_for_other_ranks_alone_have_a_sum_and_no_longest_gap() -> None:
    waits = {"other ranks": 0.2}

    text = texts_of(drawn("study_idle", "models", **with_idle(0.2, longest_us=math.nan, **waits)))

    assert "20.0" in text.split("\n")
    assert "other ranks" in text
    assert "not measured" not in text


def test_a_variant_whose_gaps_are_not_reliable_is_a_gap_that_says_so() -> None:
    text = texts_of(drawn("study_idle", "models", **with_idle(math.nan, host=0.2)))

    assert text.split("\n").count("not reliable") == 1


def test_the_idle_share_is_written_where_only_its_causes_are_not_reliable() -> None:
    assert "66.0, not reliable" in texts_of(drawn("study_idle", "models", **with_idle(0.66)))


def test_a_variant_that_never_idled_is_not_called_unreliable() -> None:
    assert "not reliable" not in texts_of(drawn("study_idle", "models", **with_idle(0.0)))


def test_a_longest_gap_is_written_only_beside_idle_time() -> None:
    gaps = [
        texts_of(drawn("study_idle", "models", **with_idle(idle, longest_us=110e3, host=idle)))
        for idle in (0.2, 0.0)
    ]

    assert ["110 ms" in text for text in gaps] == [True, False]


def test_a_training_loop_of_its_own_has_no_phases_beside_other_models() -> None:
    asked = yaml.safe_load(CONFIG.read_text("utf-8"))["experiments"]
    grid = [*asked["device"]["grid"], *asked["crossover"]["grid"]]
    study = study_of(both={**asked["device"], "grid": grid})

    found = specs_by_name(make_tables(study, make_records(study)), study)["both_phases"]

    workloads = {Variant.from_slug(slug).workload for slug in found.variants}
    assert workloads == {"cnn", "unet", "lstm"}
