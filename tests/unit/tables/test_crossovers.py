"""Where an accelerator begins to win is found where it was planted, and doubt is told as doubt."""

from collections.abc import Callable, Mapping

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpu_report.records.record import Record
from gpu_report.study.study import Experiment
from gpu_report.study.variant import Variant
from gpu_report.tables.experiments import find_crossover
from gpu_report.tables.statistics import NOT_MEASURED, Summary, ratio
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


@given(st.floats(min_value=1.5, max_value=200.0), st.floats(min_value=0.3, max_value=2.0))
def test_a_planted_crossover_is_found_and_its_interval_holds_it(
    planted: float, steepness: float
) -> None:
    verdict, batch_size = find_crossover(speedups_of(lambda size: (size / planted) ** steepness))

    # Close to the ends of the sizes measured, the interval may leave them, which is told as
    # unclear.
    assume(1.5 * 1.05 ** (1 / steepness) < planted < 200 / 1.05 ** (1 / steepness))
    assert verdict == "crosses"
    assert batch_size.value == pytest.approx(planted, rel=1e-3 / steepness)
    assert batch_size.low <= planted * (1 + 1e-9)
    assert batch_size.high >= planted * (1 - 1e-9)


@pytest.mark.parametrize(
    ("speedup", "verdict"),
    [(3.0, "accelerator always"), (0.3, "cpu always"), (1.005, "unclear")],
)
def test_a_device_that_wins_everywhere_is_named_and_a_draw_is_unclear(
    speedup: float, verdict: str
) -> None:
    assert find_crossover(speedups_of(lambda _: speedup)) == (verdict, NOT_MEASURED)


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
    assert find_crossover(speedups_of(speedups)) == ("unclear", NOT_MEASURED)


def test_three_processes_resolve_a_crossover() -> None:
    verdict, batch_size = find_crossover(
        speedups_of(lambda size: size / 10, spread=(0.99, 1.0, 1.01))
    )

    assert (verdict, batch_size.count) == ("crosses", 3)
    assert 1 / 1.05 < batch_size.low / 10 < 1 < batch_size.high / 10 < 1.05


@pytest.mark.parametrize("processes", [1, 2])
def test_too_few_processes_for_an_interval_resolve_nothing(processes: int) -> None:
    assert find_crossover(speedups_of(lambda size: size / 10, spread=(1.0,) * processes)) == (
        "unclear",
        NOT_MEASURED,
    )


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
