"""What a verdict on two sides may say: rules that hold for any values, then the cases that have no
numbers.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.glossary import Row
from gpu_report.records.record import Record, Status
from gpu_report.tables.marks import WEAKENS_TIMES
from gpu_report.tables.verdicts import (
    MEMORY,
    NO_CHANGE,
    NO_VERDICT,
    NOT_WORSE,
    QUALITY,
    REGRESSIONS,
    SLOWER,
    STATUS,
    TIME,
    Side,
    environment_differences,
    in_words,
    mismatches,
    side_of,
    tabulate_verdicts,
)
from tests.factories import make_record
from tests.unit.tables.changed import with_measurement, with_repetitions

SLUG = "cnn-small-cpu-b16-w0-fp32-e3"
ON_GPU = "cnn-small-cuda-b16-w0-fp32-e3"

times = st.lists(st.floats(min_value=0.1, max_value=1e4), min_size=3, max_size=12)
two_sides = st.integers(min_value=3, max_value=12).flatmap(
    lambda count: st.tuples(
        *[st.lists(st.floats(min_value=50, max_value=200), min_size=count, max_size=count)] * 2
    )
)


def timed(values: Sequence[float], **other: Any) -> Side:
    return Side(step_times_ms=dict(enumerate(values)), **other)


def around(
    middle: float, *, spread: float = 0.002, processes: int = 6, seed: int = 0
) -> list[float]:
    chance = random.Random(seed)
    return [middle * math.exp(chance.gauss(0, spread)) for _ in range(processes)]


def row_of(
    before: Side, after: Side, *, what: str = TIME, in_turns: bool = True, **options: Any
) -> Row:
    rows = tabulate_verdicts({"a": (before, after)}, in_turns=in_turns, **options)
    (row,) = (row for row in rows if row["compared"] == what)
    return row


def verdict(before: Side, after: Side, **options: Any) -> str:
    return str(row_of(before, after, **options)["verdict"])


@given(values=times, in_turns=st.booleans())
def test_a_side_compared_with_itself_has_not_changed(
    values: list[float], *, in_turns: bool
) -> None:
    side = timed(
        values, memory_mib=dict(enumerate(values)), quality=dict.fromkeys(range(len(values)), 0.8)
    )

    rows = tabulate_verdicts({"a": (side, side)}, in_turns=in_turns)

    assert {row["compared"]: row["change"] for row in rows} == pytest.approx(
        {TIME: 0, MEMORY: 0, QUALITY: 0}
    )
    assert not REGRESSIONS & {row["verdict"] for row in rows}
    if in_turns:
        assert {row["verdict"] for row in rows} == {NO_CHANGE}


@given(values=two_sides, in_turns=st.booleans())
def test_exchanging_the_sides_turns_slower_into_faster(
    values: tuple[list[float], list[float]], *, in_turns: bool
) -> None:
    one, other = map(timed, values)

    there, back = row_of(one, other, in_turns=in_turns), row_of(other, one, in_turns=in_turns)

    assert 1 + there["change"] == pytest.approx(1 / (1 + back["change"]))
    assert there["p"] == pytest.approx(back["p"])
    assert (there["verdict"] == "slower") == (back["verdict"] == "faster")


@given(
    slowdown=st.floats(min_value=1.06, max_value=3),
    time_ms=st.floats(min_value=0.01, max_value=1e4),
    in_turns=st.booleans(),
)
def test_a_slowdown_with_a_small_spread_is_slower(
    slowdown: float, time_ms: float, *, in_turns: bool
) -> None:
    before, after = timed(around(time_ms)), timed(around(time_ms * slowdown, seed=1))

    row = row_of(before, after, in_turns=in_turns)

    assert row["verdict"] == SLOWER
    assert row["change_low"] <= row["change"] <= row["change_high"]


@given(st.floats(min_value=1 / 1.02, max_value=1.02))
def test_a_change_within_the_tolerance_is_no_change(ratio: float) -> None:
    assert verdict(timed(around(10)), timed(around(10 * ratio, seed=1))) == NO_CHANGE


@pytest.mark.parametrize(
    ("spread", "tolerance", "expected"),
    [(0.002, 0.01, SLOWER), (0.002, 0.1, NO_CHANGE), (0.2, 0.01, NO_VERDICT)],
)
def test_tolerance_and_spread_decide_which_slowdown_is_one(
    spread: float, tolerance: float, expected: str
) -> None:
    before, after = timed(around(10, spread=spread)), timed(around(10.5, spread=spread, seed=1))

    assert verdict(before, after, tolerance=tolerance) == expected


Memory = tuple[Literal["allocator", "resident set"], float]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (("allocator", 100), ("allocator", 102), "more memory"),
        (("allocator", 102), ("allocator", 100), "less memory"),
        (("resident set", 100), ("resident set", 102), NO_CHANGE),
        (("resident set", 100), ("resident set", 200), "more memory"),
        (("allocator", 100), ("resident set", 100), NO_VERDICT),
    ],
)
def test_memory_of_one_kind_is_compared_and_the_allocators_more_closely(
    before: Memory, after: Memory, expected: str
) -> None:
    one, other = (
        timed(around(10), memory_mib=dict.fromkeys(range(6), mib), memory_kind=kind)
        for kind, mib in (before, after)
    )

    assert verdict(one, other, what=MEMORY) == expected


def test_what_drifts_under_both_sides_cancels_only_in_turns() -> None:
    drift = [10 * 1.1**pair for pair in range(6)]
    before, after = (
        timed(drift),
        timed([each * later for each, later in zip(drift, around(1.06), strict=True)]),
    )

    assert verdict(before, after, in_turns=True) == SLOWER
    assert verdict(before, after, in_turns=False) == NO_VERDICT


@pytest.mark.parametrize("doubt", WEAKENS_TIMES)
def test_a_doubt_on_either_side_takes_the_verdict_of_times_alone(doubt: str) -> None:
    before = timed(around(10), memory_mib=dict(enumerate(around(100))))
    after = timed(around(20), memory_mib=dict(enumerate(around(200))))
    doubted = [(replace(before, doubts=[doubt]), after), (before, replace(after, doubts=[doubt]))]

    for one, other in doubted:
        assert verdict(one, other) == NO_VERDICT
        assert doubt in row_of(one, other)["why"]
        assert verdict(one, other, what=MEMORY) == "more memory"


def test_losses_that_are_not_finite_after_alone_are_worse() -> None:
    finite = timed(around(10), quality=dict.fromkeys(range(6), 0.8))
    diverged = replace(finite, quality={}, diverged=2)

    assert verdict(finite, diverged, what=QUALITY) == "worse"
    assert verdict(finite, replace(diverged, diverged=1), what=QUALITY) == NO_VERDICT
    assert verdict(diverged, finite, what=QUALITY) == NO_VERDICT
    assert verdict(diverged, diverged, what=QUALITY) == NO_VERDICT
    assert verdict(finite, diverged) == NO_CHANGE


@pytest.mark.parametrize(
    ("better", "before", "after", "worse"),
    [
        ("higher", 0.9, 0.7, True),
        ("higher", -1, -9, True),
        ("higher", 3, -9, True),
        ("higher", -9, -1, False),
        ("lower", 2, 5, True),
        ("lower", 5, 2, False),
    ],
)
def test_the_change_of_a_metric_is_its_difference_with_the_sign_of_the_numbers_beside_it(
    better: Literal["higher", "lower"], before: float, after: float, *, worse: bool
) -> None:
    sides = [
        timed(
            around(10), quality={index: level + 0.001 * index for index in range(6)}, better=better
        )
        for level in (before, after)
    ]
    row = row_of(*sides, what=QUALITY)

    assert row["verdict"] == ("worse" if worse else "better")
    assert row["change"] == pytest.approx(after - before)
    assert row["change_low"] <= row["change"] <= row["change_high"]
    assert in_words(row)["change"].startswith("+" if after > before else "\N{MINUS SIGN}")


@pytest.mark.parametrize("fewer", ["before", "after"])
def test_the_change_of_a_metric_is_the_difference_also_where_a_side_has_further_seeds(
    fewer: str,
) -> None:
    many = {seed: 0.6 + 0.05 * seed for seed in range(5)}
    few = {seed: many[seed] + 0.08 + 0.001 * seed for seed in range(3)}
    qualities = (few, many) if fewer == "before" else (many, few)

    row = row_of(*(timed(around(10), quality=each) for each in qualities), what=QUALITY)

    assert row["before_count"] == row["after_count"] == row["change_count"] == 3
    assert row["change"] == pytest.approx(row["after"] - row["before"])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("ok", "oom", "fails"),
        ("ok", "failed", "fails"),
        ("ok", "skipped", "fails"),
        ("oom", "ok", "runs"),
        ("oom", "oom", NO_CHANGE),
        ("oom", "failed", NO_VERDICT),
        ("skipped", "skipped", NO_CHANGE),
        ("failed", "ok", NO_VERDICT),
        ("failed", "failed", NO_VERDICT),
    ],
)
def test_a_side_without_numbers_has_a_verdict_on_its_status_alone(
    before: Status, after: Status, expected: str
) -> None:
    one, other = (
        Side() if status == "ok" else Side(status=status, reason=f"{status}!")
        for status in (before, after)
    )

    (row,) = tabulate_verdicts({"a": (one, other)}, in_turns=True)

    assert (row["compared"], row["verdict"]) == (STATUS, expected)
    assert all(f"{status}!" in row["why"] for status in (before, after) if status != "ok")


@pytest.mark.parametrize("processes", [1, 2])
def test_too_few_processes_give_no_verdict_and_nothing_detectable(processes: int) -> None:
    row = row_of(timed(around(10, processes=processes)), timed(around(20, processes=processes)))

    assert row["verdict"] == NO_VERDICT
    assert row["why"] == f"too few processes for an interval: {processes}"
    assert math.isnan(row["detectable"])


@pytest.mark.parametrize("in_turns", [True, False])
@pytest.mark.parametrize(("slower", "expected"), [(1.0, NO_CHANGE), (1.5, SLOWER)])
def test_three_processes_can_decide(slower: float, expected: str, *, in_turns: bool) -> None:
    before, after = (
        timed(around(10 * by, processes=3, seed=seed)) for seed, by in enumerate((1.0, slower))
    )

    row = row_of(before, after, in_turns=in_turns)

    assert row["verdict"] == expected
    assert 0.03 < row["detectable"] < 0.06


@pytest.mark.parametrize("is_slower", [True, False])
def test_one_change_among_many_configurations_needs_more_evidence_than_alone(
    *, is_slower: bool
) -> None:
    fast, slow = timed([10.0] * 6), timed([10.6, 10.7, 10.8, 10.8, 10.9, 11.0])
    pair = (fast, slow) if is_slower else (slow, fast)
    others = {f"other {number}": (fast, fast) for number in range(200)}

    alone, *_ = tabulate_verdicts({"a": pair}, in_turns=True)
    among, *_ = tabulate_verdicts({"a": pair, **others}, in_turns=True)

    verdicts = (SLOWER, NO_VERDICT) if is_slower else ("faster", NOT_WORSE[TIME])
    assert (alone["verdict"], among["verdict"]) == verdicts
    assert alone["p"] < among["p"] <= 1
    assert alone["change_low"] == among["change_low"]
    assert not alone["why"]
    assert is_slower or "improvement" in among["why"]


@given(
    st.floats(min_value=0.001, max_value=0.1),
    st.floats(min_value=1.5, max_value=5),
    st.floats(0.001, 0.2),
)
def test_what_could_be_found_is_above_the_tolerance_and_grows_with_the_spread(
    spread: float, wider: float, tolerance: float
) -> None:
    narrow, wide = (
        row_of(
            timed(around(10, spread=each)),
            timed(around(10, spread=each, seed=1)),
            tolerance=tolerance,
        )
        for each in (spread, wider * spread)
    )

    assert tolerance < narrow["detectable"] < wide["detectable"]


def test_what_is_called_detectable_is_found_as_often_as_the_table_says() -> None:
    tolerance, sigma, found, trials = 0.01, 0.01, 0, 400
    for trial in range(trials):
        before = around(10, spread=sigma, seed=3 * trial)
        detectable = row_of(
            timed(before), timed(around(10, spread=sigma, seed=3 * trial + 1)), tolerance=tolerance
        )
        after = around(10 * (1 + detectable["detectable"]), spread=sigma, seed=3 * trial + 2)
        found += verdict(timed(before), timed(after), tolerance=tolerance) == SLOWER

    assert 0.65 < found / trials < 0.95


def test_a_record_as_a_side_has_a_value_per_process_its_doubts_and_those_that_diverged() -> None:
    record = make_record(SLUG, quality=0.8, memory_peak_mib=300, foreign_cpu_share=0.15)
    first = record.repetitions[0]
    epochs = [each.model_copy(update={"train_losses": [math.nan]}) for each in first.epochs]
    diverged = with_repetitions(record, [{"epochs": epochs}, *[{}] * 4])

    side = side_of(record)

    assert len(side.step_times_ms) == len(side.memory_mib) == len(side.quality) == 5
    assert (side.memory_kind, side.diverged) == ("resident set", 0)
    assert side.doubts == ["background load"]
    assert side_of(diverged).diverged == 1
    assert side_of(make_record(SLUG, status="oom", reason="too large")) == Side(
        status="oom", reason="too large"
    )


RECORD = make_record(SLUG)


@pytest.mark.parametrize(
    ("after", "named"),
    [
        (make_record(SLUG, machine="h100-x1"), ["machine", "xeon-2c", "h100-x1"]),
        (with_measurement(RECORD, "protocol", version=99), ["protocol.version", "99"]),
        (
            with_measurement(RECORD, "protocol", timed_seconds=123),
            ["protocol.timed_seconds", "123"],
        ),
        (with_measurement(RECORD, "workload", settings={"samples": 7}), [SLUG, "samples", "7"]),
        (with_measurement(RECORD, "workload", class_path="mine:Other"), [SLUG, "mine:Other"]),
        (make_record(SLUG, code_digest="0" * 64), ["measuring code"]),
        (
            make_record(SLUG, environment={**RECORD.environment, "torch_threads": 7}),
            [SLUG, "threads", "2", "7"],
        ),
    ],
)
def test_what_two_records_do_not_share_is_named(after: Record, named: list[str]) -> None:
    (found,) = mismatches({SLUG: RECORD}, {SLUG: after})

    assert all(word in found for word in named)


def test_what_many_configurations_differ_in_is_named_once_and_no_speed() -> None:
    slugs = [f"cnn-small-cpu-b{batch}-w0-fp32-e3" for batch in (8, 16, 32)]
    before = {slug: make_record(slug) for slug in slugs}
    after = {
        slug: with_measurement(make_record(slug, machine="h100-x1"), "protocol", version=99)
        for slug in slugs
    }
    faster = make_record(SLUG, throughput_per_s=5000, measured_at="2027-01-01T10:00:00Z")

    assert len(mismatches(before, after)) == 2
    assert len(mismatches({SLUG: RECORD}, {ON_GPU: make_record(ON_GPU)})) == 1
    assert mismatches({SLUG: RECORD}, {SLUG: faster}) == []


def test_other_software_and_clocks_do_not_refuse_a_comparison_but_are_named() -> None:
    before = make_record(ON_GPU, telemetry={"sm_clock_mhz": [1980.0] * 20})
    after = make_record(ON_GPU, telemetry={"sm_clock_mhz": [1400.0] * 20}).model_copy(
        update={"environment": {**before.environment, "torch": "2.16.0"}}
    )

    found = environment_differences({ON_GPU: before}, {ON_GPU: after})

    assert mismatches({ON_GPU: before}, {ON_GPU: after}) == []
    assert len(found) == 2
    assert "2.16.0" in found[0]
    assert "1400" in found[1]
    assert environment_differences({ON_GPU: before}, {ON_GPU: before}) == []
