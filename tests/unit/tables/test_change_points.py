"""Change points: few false alarms, found where they are, and none where there is no single
place.
"""

import random

import pytest

from gpu_report.tables.change_points import fewest_sessions, find_changes

SIGMA = 0.02


def history(*levels: float, seed: int, tails: bool = False) -> list[float]:
    """A session per level, which is in standard deviations of the noise."""
    chance = random.Random(seed)
    noise = [
        chance.gauss(0, 1) / (chance.gammavariate(1.5, 2 / 3) ** 0.5 if tails else 1)
        for _ in levels
    ]
    return [100 * (1 + SIGMA) ** (level + each) for level, each in zip(levels, noise, strict=True)]


def step(sigmas: float, *, at: int, sessions: int = 20) -> list[float]:
    return [sigmas * (session >= at) for session in range(sessions)]


def slope(sigmas: float, *, sessions: int = 20) -> list[float]:
    return [sigmas * session / (sessions - 1) for session in range(sessions)]


@pytest.mark.parametrize(
    ("sessions", "histories", "rounds", "tails"),
    [(12, 1, 500, False), (20, 1, 500, False), (20, 1, 500, True), (20, 4, 150, False)],
)
def test_histories_without_a_change_have_no_change_point_in_99_of_100_cases(
    *, sessions: int, histories: int, rounds: int, tails: bool
) -> None:
    named, changed = 0, 0
    for number in range(rounds):
        seeds = range(number * histories, (number + 1) * histories)
        found = find_changes([history(*[0] * sessions, seed=seed, tails=tails) for seed in seeds])
        named += any(changes.places for changes in found)
        changed += any(changes.verdict != "no change" for changes in found)

    assert named <= 0.01 * rounds
    assert changed <= 0.02 * rounds  # 1 % is expected, and what chance adds in this many rounds


@pytest.mark.parametrize("at", [10, 15])
def test_a_step_of_four_standard_deviations_is_found_at_its_session(at: int) -> None:
    found = [
        list(find_changes([history(*step(4, at=at), seed=seed)])[0].places) for seed in range(30)
    ]

    assert sum(places == [at] for places in found) >= 21
    assert all(abs(place - at) <= 2 for places in found for place in places)


def test_a_level_that_returns_is_two_changes() -> None:
    levels = [6.0 * (7 <= session < 13) for session in range(20)]

    found = [list(find_changes([history(*levels, seed=seed)])[0].places) for seed in range(10)]

    assert sum(places == [7, 13] for places in found) >= 7


@pytest.mark.parametrize("sigmas", [3, 6])
def test_a_slow_change_is_at_no_session(sigmas: float) -> None:
    found = [find_changes([history(*slope(sigmas), seed=seed)])[0] for seed in range(30)]

    assert sum(bool(changes.places) for changes in found) <= 2


def test_a_clear_slow_change_is_reported_as_one() -> None:
    (found,) = find_changes([history(*slope(10), seed=1)])

    assert found.verdict == "changed, at no single session"


def test_one_session_unlike_the_others_is_no_change() -> None:
    values = [100.0 + 0.1 * (session % 3) for session in range(20)]

    (found,) = find_changes([[*values[:12], 70.0, *values[13:]]])

    assert found.verdict == "no change"


@pytest.mark.parametrize("histories", [1, 4, 16])
def test_an_ideal_step_needs_exactly_the_fewest_sessions(histories: int) -> None:
    fewest = fewest_sessions(histories)

    def verdict(sessions: int) -> str:
        constant = [[100.0] * sessions] * (histories - 1)
        return find_changes(
            [history(*step(1000, at=sessions // 2, sessions=sessions), seed=1), *constant]
        )[0].verdict

    assert verdict(fewest - 1) == "too few sessions"
    assert verdict(fewest) == "changed"


@pytest.mark.parametrize("values", [[], [100.0], [100.0] * 30])
def test_equal_or_few_values_are_no_change(values: list[float]) -> None:
    assert not find_changes([values])[0].places


def test_the_same_histories_give_the_same_changes() -> None:
    histories = [history(*step(2, at=10), seed=seed) for seed in range(5)]

    assert find_changes(histories) == find_changes(histories)
    assert find_changes([]) == []
