"""Where an accelerator begins to win is found where it was planted, and doubt is told as doubt."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq

from gpu_report.records.record import Record
from gpu_report.study.study import Experiment
from gpu_report.study.variant import Variant
from gpu_report.tables.crossovers import UNCLEAR, find_crossover
from gpu_report.tables.statistics import Summary, ratio
from tests.factories import make_record
from tests.tabulated import tabulate_crossovers

SIZES = (1, 4, 16, 64, 256)
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def speedups_of(
    speedup: Callable[[int], float] | Mapping[int, float], *, spread: tuple[float, ...] = SPREAD
) -> dict[int, Summary]:
    """Of an accelerator whose processes are this much faster than the CPU's, and by `spread`."""
    speedup_of = speedup if callable(speedup) else speedup.__getitem__
    sizes = SIZES if callable(speedup) else sorted(speedup)
    return {
        size: ratio(
            {seed: speedup_of(size) * factor for seed, factor in enumerate(spread)},
            dict.fromkeys(range(len(spread)), 1.0),
        )
        for size in sizes
    }


def crossing_by_root_finding(speedups: Mapping[int, float]) -> float:
    """The same by other means: the root of the line through the points in logarithms, which rises
    through 1 once.
    """
    sizes = np.log(sorted(speedups))
    logs = np.log([speedups[size] for size in sorted(speedups)])
    root = brentq(lambda size: float(np.interp(size, sizes, logs)), sizes[0], sizes[-1], xtol=1e-13)
    return math.exp(float(root))


@given(st.floats(min_value=1.5, max_value=200.0), st.floats(min_value=0.3, max_value=2.0))
def test_a_planted_crossover_is_found_and_its_interval_holds_it(
    planted: float, steepness: float
) -> None:
    found = find_crossover(speedups_of(lambda size: (size / planted) ** steepness))

    # Close to the ends of the sizes measured, the interval may leave them, which is told as
    # unclear.
    assume(1.5 * 1.05 ** (1 / steepness) < planted < 200 / 1.05 ** (1 / steepness))
    assert found.verdict == "crosses"
    assert found.batch_size.value == pytest.approx(planted, rel=1e-3 / steepness)
    assert found.batch_size.low <= planted * (1 + 1e-9)
    assert found.batch_size.high >= planted * (1 - 1e-9)


@given(st.lists(st.floats(min_value=0.05, max_value=20.0), min_size=2, max_size=5, unique=True))
def test_the_interpolation_agrees_with_root_finding_on_any_rising_curve(
    values: list[float],
) -> None:
    speedups = dict(zip(SIZES, sorted(values), strict=False))
    assume(all(abs(math.log(value)) > 0.2 for value in values))
    assume(min(values) < 1 < max(values))

    found = find_crossover(speedups_of(speedups, spread=(1.0,) * 4))

    assert found.batch_size.value == pytest.approx(crossing_by_root_finding(speedups))
    assert (found.batch_size.low, found.batch_size.high) == pytest.approx(
        [found.batch_size.value] * 2
    )


@pytest.mark.parametrize(
    ("speedup", "verdict"),
    [(3.0, "accelerator always"), (0.3, "cpu always"), (1.005, "unclear")],
)
def test_a_device_that_wins_everywhere_is_named_and_a_draw_is_unclear(
    speedup: float, verdict: str
) -> None:
    found = find_crossover(speedups_of(lambda _: speedup))

    assert found.verdict == verdict
    assert math.isnan(found.batch_size.value)


@pytest.mark.parametrize(
    "speedups",
    [
        {1: 0.5, 4: 2.0, 16: 0.5, 64: 2.0},
        {1: 2.0, 4: 0.5},
        {1: 0.5, 4: 2.0, 16: 0.5},
        {1: 0.3, 4: 0.6, 16: 1.01},
    ],
    ids=["twice", "the CPU wins the large ones", "and back", "leaves the sizes measured"],
)
def test_a_curve_without_one_crossing_among_the_sizes_is_unclear(
    speedups: dict[int, float],
) -> None:
    assert find_crossover(speedups_of(speedups)) == UNCLEAR


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_too_few_processes_for_an_interval_resolve_nothing(processes: int) -> None:
    assert find_crossover(speedups_of(lambda size: size / 10, spread=(1.0,) * processes)) == UNCLEAR


def variants(device: str, *, size: str = "small", length: str = "e2x30") -> list[Variant]:
    return [Variant.from_slug(f"cnn-{size}-{device}-b{batch}-w0-fp32-{length}") for batch in SIZES]


def experiment_of(
    chosen: list[Variant], *, axis: str = "device", baseline: object = "cpu"
) -> Experiment:
    return Experiment(
        name="crossover", question="Which?", axis=axis, baseline=baseline, variants=tuple(chosen)
    )


def records_of(chosen: list[Variant], *, planted: float = 10.0) -> list[Record]:
    return [
        make_record(
            variant.slug,
            throughput_per_s=100.0
            * (1.0 if variant.device == "cpu" else (variant.batch_size / planted) ** 0.6),
        )
        for variant in chosen
    ]


def tabulated(chosen: list[Variant], records: list[Record] | None = None) -> pd.DataFrame:
    return tabulate_crossovers(
        [experiment_of(chosen)], records_of(chosen) if records is None else records
    )


@pytest.mark.parametrize("axis", ["batch_size", "workers"])
def test_an_experiment_about_something_else_or_without_two_sides_has_no_crossover(
    axis: str,
) -> None:
    chosen = [*variants("cpu"), *variants("cuda")]
    experiment = replace(experiment_of(chosen), axis=axis)

    assert tabulate_crossovers([experiment], records_of(chosen)).empty
    assert tabulated([variants("cpu")[2], variants("cuda")[2]]).empty
    assert tabulated(variants("cpu")).empty
