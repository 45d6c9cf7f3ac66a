"""The order of measuring, when it ends and how often it is wrong, with random numbers in place of
trainings.
"""

import math
import random
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

import pytest

from gpu_report.glossary import Row
from gpu_report.guard.messages import Answer
from gpu_report.guard.sequence import (
    CONFIRMING,
    FIRST_LOOK,
    MOST_REPEATED,
    SECOND_LOOK,
    Guarded,
    Pair,
)
from gpu_report.tables.verdicts import (
    IMPROVEMENTS,
    MEMORY,
    NO_CHANGE,
    NO_VERDICT,
    REGRESSIONS,
    SLOWER,
    STATUS,
    TIME,
)

Times = Callable[[int, int], float]
"""The time of a step by side and number of the pair."""
A_A_GUARDS = 2000


@dataclass
class Simulated:
    """Answers in place of trainings; `calls` are the side, configuration and pair of each."""

    answer: Callable[[int, str, int], Answer]
    calls: list[tuple[int, str, int]] = field(default_factory=list)

    def __call__(self, side: int, name: str, index: int) -> Answer:
        self.calls.append((side, name, index))
        return self.answer(side, name, index)


def timed(times: Times) -> Simulated:
    return Simulated(lambda side, _, index: Answer(step_times_ms={0: times(side, index)}))


def random_times(seed: int, *, sigma: float = 0.01, slowdown: float = 1.0) -> Times:
    chance = random.Random(seed)
    return lambda side, _: 10 * (slowdown if side else 1.0) * math.exp(chance.gauss(0, sigma))


def spread_out(index: int, *, by: float) -> float:
    """The same spread in any even number of pairs, without chance."""
    return 1 + by * (1 if index % 2 else -1)


def guard(
    measure: Simulated,
    names: Sequence[str] = ("a",),
    *,
    tolerance: float = 0.03,
    pairs: list[Pair] | None = None,
) -> tuple[Guarded, list[Row]]:
    guarded = Guarded(
        names,
        measure,
        tolerance=tolerance,
        on_pair=lambda _, pair: None if pairs is None else pairs.append(pair),
    )
    return guarded, guarded.run()


def verdict(rows: Sequence[Row], what: str = TIME, *, name: str = "a") -> str:
    (found,) = (
        row["verdict"] for row in rows if (row["configuration"], row["compared"]) == (name, what)
    )
    return str(found)


def test_sides_and_configurations_take_turns_and_a_clear_result_is_measured_once() -> None:
    measure = timed(lambda _, index: spread_out(index, by=0.001))

    _, rows = guard(measure, ["a", "b"])

    assert verdict(rows) == verdict(rows, name="b") == NO_CHANGE
    assert [name for _, name, _ in measure.calls] == ["a", "a", "b", "b"] * FIRST_LOOK
    assert [side for side, name, _ in measure.calls if name == "a"] == [0, 1, 1, 0] * (
        FIRST_LOOK // 2
    )
    assert [index for _, _, index in measure.calls[::4]] == list(range(FIRST_LOOK))


def test_more_pairs_are_measured_only_of_what_has_no_verdict() -> None:
    def unclear_b(side: int, name: str, index: int) -> Answer:
        noise = spread_out(index, by=0.05) if name == "b" and side else 1.0
        return Answer(step_times_ms={0: 10 * noise})

    guarded, rows = guard(Simulated(unclear_b), ["a", "b"])

    assert {name: len(pairs) for name, pairs in guarded.pairs.items()} == {
        "a": FIRST_LOOK,
        "b": SECOND_LOOK,
    }
    assert (verdict(rows), verdict(rows, name="b")) == (NO_CHANGE, NO_VERDICT)
    assert guarded.confirming == {}


def test_the_second_look_resolves_what_the_first_did_not() -> None:
    guarded, rows = guard(timed(lambda side, index: spread_out(index, by=0.028 * side)))

    assert len(guarded.pairs["a"]) == SECOND_LOOK
    assert verdict(rows) == NO_CHANGE


@pytest.mark.parametrize(
    ("disturbed", "repeated", "expected"),
    [({1, 4}, 2, NO_CHANGE), (range(100), MOST_REPEATED, NO_VERDICT)],
    ids=["two pairs", "all pairs"],
)
def test_a_pair_with_a_doubt_is_measured_again_a_few_times_at_most_and_left_out(
    disturbed: Container[int], repeated: int, expected: str
) -> None:
    def answer(side: int, _: str, index: int) -> Answer:
        if side == 1 and index in disturbed:
            return Answer(step_times_ms={0: 50}, doubts=("background load",))
        return Answer(step_times_ms={0: 10})

    seen: list[Pair] = []
    guarded, rows = guard(Simulated(answer), pairs=seen)

    assert len(guarded.pairs["a"]) == len(seen) == FIRST_LOOK + repeated
    assert verdict(rows) == expected


def test_what_is_slower_is_measured_again_before_it_is_called_slower() -> None:
    measure = timed(lambda side, index: 10 * (1.2 if side else 1.0) * spread_out(index, by=0.001))

    guarded, rows = guard(measure)

    assert verdict(rows) == SLOWER
    assert len(guarded.confirming["a"]) == CONFIRMING
    assert len(measure.calls) == 2 * (FIRST_LOOK + CONFIRMING)
    assert rows[0]["why"]


def test_a_slowdown_that_is_gone_or_cannot_be_measured_again_is_not_confirmed() -> None:
    def fails_later(side: int, _: str, index: int) -> Answer:
        if side and index >= FIRST_LOOK:
            return Answer(status="failed", reason="the disk is full")
        return Answer(step_times_ms={0: 12 if side else 10})

    guarded, gone = guard(timed(lambda side, index: 12 if side and index < FIRST_LOOK else 10))
    _, failing = guard(Simulated(fails_later))

    assert len(guarded.confirming["a"]) == CONFIRMING
    assert verdict(gone) == verdict(failing) == NO_VERDICT
    assert SLOWER in gone[0]["why"]
    assert "the disk is full" in failing[0]["why"]


def test_more_memory_is_confirmed_as_well() -> None:
    measure = Simulated(
        lambda side, *_: Answer(step_times_ms={0: 10}, memory_mib={0: 120 if side else 100})
    )

    guarded, rows = guard(measure)

    assert (verdict(rows), verdict(rows, MEMORY)) == (NO_CHANGE, "more memory")
    assert len(guarded.confirming["a"]) == CONFIRMING


def test_what_is_faster_is_measured_again_and_else_only_not_slower() -> None:
    confirmed, rows = guard(timed(lambda side, _: 8 if side else 10))
    _, gone = guard(timed(lambda side, index: 8 if side and index < FIRST_LOOK else 10))
    _, turned = guard(timed(lambda side, index: (8 if index < FIRST_LOOK else 12) if side else 10))
    failed = Answer(status="oom", reason="no memory")
    _, lost = guard(
        Simulated(
            lambda side, _, i: (
                failed if i >= FIRST_LOOK else Answer(step_times_ms={0: 8 if side else 10})
            )
        )
    )

    assert len(confirmed.confirming["a"]) == CONFIRMING
    assert verdict(rows) == "faster"
    assert verdict(gone) == "not slower"
    assert verdict(turned) == verdict(lost) == NO_VERDICT


def test_only_what_changed_is_measured_again() -> None:
    def slower_b(side: int, name: str, _: int) -> Answer:
        return Answer(step_times_ms={0: 12 if side and name == "b" else 10})

    guarded, rows = guard(Simulated(slower_b), ["a", "b"])

    assert [*guarded.confirming] == ["b"]
    assert (verdict(rows), verdict(rows, name="b")) == (NO_CHANGE, SLOWER)


def test_a_process_that_fails_once_is_tried_again() -> None:
    has_failed: list[bool] = []

    def fails_once(side: int, _: str, index: int) -> Answer:
        if (side, index) == (1, 2) and not has_failed:
            has_failed.append(True)
            return Answer(status="failed", reason="a port was taken")
        return Answer(step_times_ms={0: 10})

    measure = Simulated(fails_once)
    _, rows = guard(measure)

    assert verdict(rows) == NO_CHANGE
    assert measure.calls.count((1, "a", 2)) == 2


@pytest.mark.parametrize(("failing", "expected"), [(0, NO_VERDICT), (1, "fails")])
def test_a_side_that_fails_twice_ends_its_configuration_and_not_the_others(
    failing: int, expected: str
) -> None:
    def answer(side: int, name: str, _: int) -> Answer:
        if name == "a" and side == failing:
            return Answer(status="failed", reason="no such module")
        return Answer(step_times_ms={0: 10})

    measure = Simulated(answer)
    guarded, rows = guard(measure, ["a", "b"])

    assert (verdict(rows, STATUS), verdict(rows, name="b")) == (expected, NO_CHANGE)
    assert len(guarded.pairs["a"]) == 1
    assert measure.calls.count((failing, "a", 0)) == 2
    assert guarded.confirming == {}


@pytest.mark.parametrize("slowdown", [1.05, 1 / 1.05])
def test_a_clear_change_is_found_in_either_direction(slowdown: float) -> None:
    found = [
        verdict(guard(timed(random_times(seed, slowdown=slowdown)), tolerance=0.01)[1])
        for seed in range(100)
    ]

    assert found.count(SLOWER if slowdown > 1 else "faster") > 75
    assert found.count("faster" if slowdown > 1 else SLOWER) == 0


def test_two_equal_sides_differ_in_one_guard_of_a_hundred_at_most() -> None:
    alarms = covered = 0
    for seed in range(A_A_GUARDS):
        (row,) = guard(timed(random_times(seed)), tolerance=0.01)[1]
        alarms += row["verdict"] in REGRESSIONS | IMPROVEMENTS
        covered += row["change_low"] <= 0 <= row["change_high"]

    chance = math.sqrt(0.95 * 0.05 / A_A_GUARDS)
    assert alarms <= 0.01 * A_A_GUARDS
    assert covered / A_A_GUARDS > 0.95 - 2 * chance
