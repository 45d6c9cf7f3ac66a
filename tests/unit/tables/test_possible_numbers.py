"""No table of the study holds a number that cannot be: over the published machines, and over
made-up ones.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_report.bundles.shown_machines import find_bundles
from gpu_report.notebook import read_bundle
from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.bundle import Tables
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL
from gpu_report.tables.traces import STEP_PARTS
from tests.factories import make_records, make_study, make_tables

PROJECT = Path(__file__).parents[3]
BUNDLES = {
    f"{study}: {name}": (bundle, PROJECT / "config" / f"{study}.yaml")
    for study, folder in (("study", "."), ("sources", "sources"))
    for name, (bundle, _) in find_bundles(PROJECT / "results" / "published" / folder).items()
}
IN_EVERY_RUN = ("study: h200-140gb-x1-xeon-16c",)
ROUNDING = 1e-9

WHOLES = {
    "step_shares": (["variant"], [f"{part}_share" for part in STEP_PARTS]),
    "step_categories": (["variant"], ["share"]),
    "phases": (["variant"], ["share"]),
}
"""Table -> rows of one whole, and the columns that share it out."""

ONE_LESS = ("lost_share", "memory_saved_share")
"""One less a ratio: below nothing where something was gained instead of lost, or taken instead of
saved.
"""


@pytest.fixture(
    scope="module",
    params=[
        *(
            pytest.param(name, marks=() if name in IN_EVERY_RUN else pytest.mark.slow)
            for name in BUNDLES
        ),
        "two processes",
        "three processes",
        "high variance",
    ],
)
def tables(request: pytest.FixtureRequest) -> Tables:
    made: dict[str, dict[str, Any]] = {
        "two processes": {"processes": 2},
        "three processes": {"processes": 3},
        "high variance": {"noise": 0.9},
    }
    if request.param in BUNDLES:
        path, config = BUNDLES[request.param]
        return read_bundle(path, study=config).tables
    study = make_study()
    return make_tables(study, make_records(study, **made[request.param]))


def frames(tables: Tables) -> Iterator[tuple[str, pd.DataFrame]]:
    yield from ((name, getattr(tables, name)) for name in tables.by_name)
    yield from tables.experiments.items()


def units(name: str) -> dict[str, str]:
    table = next((table for table in STUDY_TABLES if table.name == name), EXPERIMENT)
    return {column.name: column.unit for column in table.columns}


def is_share(column: str, unit: str) -> bool:
    return (
        any(name in column for name in ("share", "utilisation"))
        and unit in ("1", "%")
        and not column.endswith("_count")
    )


def test_no_share_is_less_than_nothing_or_more_than_the_whole(tables: Tables) -> None:
    for name, frame in frames(tables):
        for column, unit in units(name).items():
            if is_share(column, unit):
                whole = 100.0 if unit == "%" else 1.0
                least = -np.inf if column.startswith(ONE_LESS) else -ROUNDING
                shares = frame[column].dropna()
                assert shares.between(least, whole * (1 + ROUNDING)).all(), (name, column)


def test_the_parts_of_a_whole_sum_to_it(tables: Tables) -> None:
    for name, (rows, columns) in WHOLES.items():
        frame = getattr(tables, name).dropna(subset=columns)
        sums = frame.groupby(rows)[columns].sum().sum(axis="columns")
        assert np.allclose(sums, 1), (name, sums[~np.isclose(sums, 1)])


def test_a_mean_is_between_the_ends_of_its_interval(tables: Tables) -> None:
    for name, frame in frames(tables):
        for column in (
            column.removesuffix("_low") for column in units(name) if column.endswith("_low")
        ):
            known = frame[[f"{column}_low", column, f"{column}_high"]].dropna()
            assert (known.diff(axis="columns").iloc[:, 1:] >= 0).all(axis=None), (name, column)
            without = frame.loc[frame[column].isna(), [f"{column}_low", f"{column}_high"]]
            assert without.isna().all(axis=None), (name, column)


def test_fewer_than_three_processes_have_no_bounds_and_no_test(tables: Tables) -> None:
    for name, frame in frames(tables):
        for column in units(name):
            figure, _, end = column.rpartition("_")
            if end in ("low", "p") and figure != "speedup":  # a baseline is exactly 1
                few = frame[f"{figure}_count"] < FEWEST_FOR_INTERVAL
                assert frame.loc[few, column].isna().all(), (name, column)


def test_a_baseline_is_exactly_as_fast_as_itself(tables: Tables) -> None:
    for frame in tables.experiments.values():
        baselines = frame[frame["is_baseline"] & (frame["status"] == "ok")]
        assert (baselines[["speedup", "speedup_low", "speedup_high"]] == 1).all(axis=None)
        assert (baselines["quality_change"].dropna() == 0).all()
