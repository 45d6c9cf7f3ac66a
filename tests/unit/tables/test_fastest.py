import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import Tables, shown_profiles
from tests.factories import with_tables
from tests.unit.figures.drawn import study_and_tables

LSTM_SHOWN = ["none", "graphs"]
TWO_PROCESSES = {
    "throughput_per_s_count": 2,
    "throughput_per_s_low": math.nan,
    "throughput_per_s_high": math.nan,
}


def tables_with(p: float = 1e-4, **throughputs: float) -> Tables:
    """Of the default study the variants with these throughputs by what is switched on, the others
    with 1.

    `p` is that of every speedup.
    """
    _, tables = study_and_tables("optimization", "device", "linear_regression")
    changed = {}
    for name, frame in tables.experiments.items():
        rates = frame["optimization"].map(throughputs).fillna(1.0)
        changed[name] = frame.assign(throughput_per_s=rates, speedup=rates, speedup_p=p)
    return replace(tables, experiments=changed)


def compared_by_nothing(
    cells: dict[str, dict[str, Any]] | None = None, *, half: float = 0.1
) -> Tables:
    """The LSTM's optimizations as if no experiment had a baseline, CUDA graphs at 9 samples/s and
    the others at 1.

    `half` is half of each interval, as a share; `cells` are further ones, by what is switched on.
    """
    tables = tables_with(graphs=9.0)
    frame = tables.experiments["optimization"]
    rates = frame["throughput_per_s"]
    frame = frame[frame["workload"] == "lstm"].assign(
        is_baseline=False,
        throughput_per_s_low=rates * (1 - half),
        throughput_per_s_high=rates * (1 + half),
        throughput_per_s_count=5,
    )
    for options, values in (cells or {}).items():
        for column, value in values.items():
            frame.loc[frame["options"] == options, column] = value
    return replace(tables, experiments={"optimization": frame})


def options_of(tables: Tables, workload: str) -> list[str]:
    variants = map(Variant.from_slug, shown_profiles(tables))
    return [variant.options for variant in variants if variant.workload == workload]


@pytest.mark.parametrize(
    ("tables", "shown"),
    [
        ({"graphs": 9.0, "resident": 2.0}, ["none", "graphs"]),
        ({"p": 0.2, "graphs": 9.0}, ["none"]),
        ({"none": 9.0}, ["none"]),
    ],
    ids=["the fastest", "not significant", "the baseline itself"],
)
def test_the_eager_baseline_is_beside_what_is_significantly_faster(
    tables: dict[str, float], shown: list[str]
) -> None:
    assert options_of(tables_with(**tables), "lstm") == shown


@pytest.mark.parametrize(
    ("cells", "half", "shown"),
    [
        ({}, 0.1, LSTM_SHOWN),
        ({}, 0.99, ["none"]),
        ({name: {"throughput_per_s_count": 3} for name in ("none", "graphs")}, 0.1, LSTM_SHOWN),
        ({"none": TWO_PROCESSES}, 0.1, ["none"]),
        ({"graphs": TWO_PROCESSES}, 0.1, ["none"]),
        ({"graphs": {"protocol_version": 1}}, 0.1, ["none"]),
        ({"graphs": {"parallelism": "ddp2"}}, 0.1, ["none"]),
    ],
    ids=[
        "faster",
        "chance",
        "three of both",
        "few of it",
        "few of graphs",
        "other protocol",
        "two devices",
    ],
)
def test_what_no_experiment_compares_is_shown_where_its_times_are_comparable_and_apart(
    cells: dict[str, dict[str, Any]], half: float, shown: list[str]
) -> None:
    assert options_of(compared_by_nothing(cells, half=half), "lstm") == shown


@pytest.mark.parametrize(
    ("half", "shown"), [(0.001, "fused+resident+graphs"), (0.3, "graphs")], ids=["apart", "tied"]
)
def test_of_those_that_are_not_significantly_slower_the_one_with_fewest_options_is_shown(
    half: float, shown: str
) -> None:
    rates = {"fused+resident+graphs": 9.4, "graphs": 9.3, "resident": 5.0}
    tables = compared_by_nothing()
    frame = tables.experiments["optimization"]
    frame = frame.assign(throughput_per_s=frame["optimization"].map(rates).fillna(1.0))
    ends = {
        f"throughput_per_s_{end}": frame["throughput_per_s"] * by
        for end, by in (("low", 1 - half), ("high", 1 + half))
    }
    tables = replace(tables, experiments={"optimization": frame.assign(**ends)})

    assert options_of(tables, "lstm") == ["none", shown]


SENTINELS = [
    {"protocol_version": 4, "sessions": 2, "process_freedom": 4, **of_sentinel}
    for of_sentinel in (
        {"deviation_between": 0.005, "deviation_of_processes": 0.01},
        {"deviation_between": 0.4, "deviation_of_processes": 0.3},
    )
]


@pytest.mark.parametrize(
    ("sentinels", "shown"),
    [(SENTINELS, LSTM_SHOWN), (SENTINELS[1:], ["none"])],
    ids=["one that fits", "only a noisy one"],
)
def test_the_fastest_of_another_session_is_shown_if_the_sentinel_that_fits_it_allows(
    sentinels: list[dict[str, float]], shown: list[str]
) -> None:
    tables = compared_by_nothing({"graphs": {"session": 2}}, half=0.01)

    assert options_of(with_tables(tables, sentinels=pd.DataFrame(sentinels)), "lstm") == shown


def test_a_bound_is_not_shown_as_the_fastest_loop() -> None:
    found = options_of(tables_with(statistics=99.0, persistent=9.0), "linear_regression")

    assert found == ["none", "persistent"]
