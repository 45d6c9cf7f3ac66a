import math
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.patches import Rectangle

from gpu_report.tables.bundle import Tables
from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables, texts_of


def with_idle(tables: Tables, idle_share: float, *, workload: str, **gaps: float) -> Tables:
    """The tables with that idle share of a workload's variants, and gaps of these causes with their shares."""
    shares = tables.step_shares.copy()
    of_workload = (shares["workload"] == workload) & (shares["device"] != "cpu")
    shares.loc[of_workload, "device_idle_share"] = idle_share
    causes = tables.idle_causes
    template = causes.iloc[0].to_dict()
    added = [
        {**template, "variant": variant, "workload": workload, "cause": cause, "share": share}
        for variant in shares.loc[of_workload, "variant"]
        for cause, share in gaps.items()
    ]
    others = causes[causes["workload"] != workload]
    return replace(tables, step_shares=shares, idle_causes=pd.concat([others, pd.DataFrame(added)], ignore_index=True))


def widths(figure: Any) -> list[float]:
    bars = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle) and patch.get_width() > 0]
    return [round(float(bar.get_width()), 3) for bar in bars]


def test_gaps_of_one_cause_are_one_segment_and_the_sum_stands_at_the_right() -> None:
    study, tables = study_and_tables("models")
    causes = tables.idle_causes
    doubled = replace(tables, idle_causes=pd.concat([causes, causes], ignore_index=True))

    once, twice = (draw_named("study_idle", each, study) for each in (tables, doubled))

    assert widths(twice) == [round(2 * width, 3) for width in widths(once)]


def test_the_idle_share_and_the_longest_gap_are_told() -> None:
    study, tables = study_and_tables("models")
    tables = with_idle(tables, 0.31, workload="cnn", host=0.21, loader=0.1)
    causes = tables.idle_causes.assign(longest_us=2157.0)

    text = texts_of(draw_named("study_idle", replace(tables, idle_causes=causes), study))

    assert "31.0, 2.16 ms" in text


def test_a_variant_whose_gaps_are_not_reliable_is_a_gap_that_says_so() -> None:
    study, tables = study_and_tables("models")

    text = texts_of(draw_named("study_idle", with_idle(tables, math.nan, workload="cnn", host=0.2), study))

    assert text.split("\n").count("not reliable") == 1


def test_a_variant_that_never_idled_is_not_called_unreliable() -> None:
    study, tables = study_and_tables("models")

    text = texts_of(draw_named("study_idle", with_idle(tables, 0.0, workload="cnn"), study))

    assert "not reliable" not in text


def test_the_cpu_has_no_gaps_to_show() -> None:
    study, tables = study_and_tables("device", devices=("cpu",))

    assert "study_idle" not in specs_by_name(tables, study)


def test_variants_on_the_cpu_are_left_out_beside_an_accelerator() -> None:
    study, tables = study_and_tables("device")

    assert "CPU" not in texts_of(draw_named("study_idle", tables, study))
