import math

import pytest
from scipy import stats

from gpu_report.records.record import Record
from gpu_report.tables.processes import (
    SOFTWARE,
    other_software,
    pairs_of,
    quality_change,
    same_threads,
    speedup,
)
from gpu_report.tables.statistics import CONFIDENCE, NOT_MEASURED, Summary
from tests.factories import ACCELERATOR_ENVIRONMENT, ENVIRONMENT, make_record
from tests.unit.tables.changed import with_measurement, with_repetitions

PLAIN, OTHER = "cnn-small-cpu-b16-w0-fp32-e3", "cnn-small-cpu-b64-w0-fp32-e3"


def with_qualities(slug: str, *qualities: float | None, first_seed: int = 0) -> Record:
    """A record of one process for each quality, whose seeds count up."""
    record = make_record(slug, processes=len(qualities))
    changes = []
    for each, quality in zip(record.repetitions, qualities, strict=True):
        *epochs, last = each.epochs
        last = last.model_copy(update={"quality": quality})
        changes.append({"seed": first_seed + each.index, "epochs": [*epochs, last]})
    return with_repetitions(record, changes)


def test_what_the_seeds_differ_in_cancels() -> None:
    before, after = with_qualities(PLAIN, 0.5, 0.7, 0.9), with_qualities(OTHER, 0.4, 0.61, 0.8)

    change = quality_change(after, before)

    interval = stats.ttest_rel([0.4, 0.61, 0.8], [0.5, 0.7, 0.9]).confidence_interval(CONFIDENCE)
    assert (change.value, change.low, change.high) == pytest.approx(
        (-0.29 / 3, interval.low, interval.high)
    )
    assert -0.12 < change.low < change.high < -0.08  # where the values are from 0.4 to 0.9


def test_a_variant_does_not_differ_from_itself() -> None:
    record = with_qualities(PLAIN, 0.5, 0.7, 0.8, 0.9)

    assert quality_change(record, record) == Summary(value=0.0, low=0.0, high=0.0, count=4, p=1.0)
    assert speedup(record, record) == Summary(value=1.0, low=1.0, high=1.0, count=4, p=1.0)


def test_numbers_of_two_versions_of_the_protocol_are_not_compared() -> None:
    record = make_record(PLAIN)
    other = with_measurement(record, "protocol", version=99)

    assert speedup(record, other) is NOT_MEASURED
    assert quality_change(record, other) is NOT_MEASURED


def test_a_training_whose_optimizer_keeps_smaller_numbers_is_not_called_faster() -> None:
    unknown = make_record(PLAIN)
    exact, rounded = (
        with_repetitions(unknown, [{"optimizer_dtypes": dtypes}] * 5)
        for dtypes in (["float32"], ["bfloat16", "float32"])
    )

    assert speedup(rounded, exact) is NOT_MEASURED
    assert speedup(exact, exact).value == speedup(exact, unknown).value == 1


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        (with_qualities(PLAIN, 0.5, 0.7), with_qualities(OTHER, 0.5, 0.7, first_seed=7), 0),
        (with_qualities(PLAIN, 0.5, 0.7), with_qualities(OTHER, 0.5, float("nan")), 2),
        (with_qualities(PLAIN, None, 0.7, 0.9), with_qualities(OTHER, 0.4, 0.6, None), 3),
    ],
    ids=["other seeds", "diverged", "a quality lends no seed"],
)
def test_a_change_is_unknown_where_each_side_has_a_process_without_a_twin_with_a_quality(
    before: Record, after: Record, pairs: int
) -> None:
    assert len(pairs_of(before, after)) == pairs
    assert math.isnan(quality_change(after, before).value)
    assert math.isnan(quality_change(before, after).value)


def test_a_side_that_a_time_budget_left_fewer_processes_is_compared_by_those() -> None:
    more, fewer = with_qualities(PLAIN, 0.5, 0.7, 0.9, 0.1), with_qualities(OTHER, 0.6, 0.7, 0.9)

    found = quality_change(fewer, more)

    assert found.count == 3
    assert found.value == pytest.approx(0.1 / 3)


@pytest.mark.parametrize(
    "reference",
    [
        None,
        make_record(PLAIN, status="failed"),
        with_qualities("lstm-cpu-b16-w0-fp32-e3", 0.5, 0.7, 0.9),
    ],
    ids=["none", "failed", "another workload"],
)
def test_there_is_no_change_without_a_measured_reference_of_the_same_workload(
    reference: Record | None,
) -> None:
    assert math.isnan(quality_change(with_qualities(OTHER, 0.5, 0.7, 0.9), reference).value)


def trained(slug: str, threads: int | None) -> Record:
    return make_record(slug, environment={**ENVIRONMENT, "cpu_cores": 8, "torch_threads": threads})


ON_CPU, ON_GPU, BY_TWO = (
    "cnn-medium-cpu-b64-w0-fp32-e3",
    "cnn-medium-cuda-b64-w0-fp32-e3",
    "unet-64px-cpu-b8-w0-fp32-e3-ddp2",
)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (trained(ON_CPU, 8), trained(ON_CPU, 8), True),
        (trained(ON_CPU, 8), trained(ON_GPU, 1), True),
        (trained(ON_CPU, 8), trained(BY_TWO, 4), True),
        (trained(ON_CPU, 3), trained(BY_TWO, 3), True),
        (trained(ON_CPU, 8), trained(ON_CPU, None), True),
        (trained(ON_CPU, 8), trained(ON_CPU, 1), False),
        (trained(ON_CPU, 4), trained(ON_GPU, 1), False),
        (trained(ON_GPU, 1), trained(ON_GPU, 8), False),
        (trained(ON_CPU, 8), trained(BY_TWO, 2), False),
    ],
)
def test_threads_are_the_same_where_one_setting_gives_both(
    one: Record, other: Record, *, same: bool
) -> None:
    assert same_threads(one, other) == same_threads(other, one) == same


@pytest.mark.parametrize("key", SOFTWARE)
def test_each_version_that_differs_is_named_and_none_that_only_one_side_has(key: str) -> None:
    environment = {**ENVIRONMENT, "numpy": "2.5.2", **ACCELERATOR_ENVIRONMENT}
    record = make_record(ON_GPU, environment={**environment, key: "another"})

    assert list(other_software(record, make_record(ON_GPU, environment=environment))) == [
        f"{SOFTWARE[key]} another and {environment[key]}"
    ]
    without = {name: value for name, value in environment.items() if name != key}
    assert list(other_software(record, make_record(ON_GPU, environment=without))) == []
