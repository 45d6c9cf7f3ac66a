"""Groups hold what their members are: sums are exact, quantiles are values that occur, the heaviest
weighs most.
"""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.grouping import grouped, heaviest, medians, quantiles, rows_of, sums

MEMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), min_size=1, max_size=60)


def columns(members: list[tuple[int, int]]) -> tuple[list[int], np.ndarray, np.ndarray]:
    keys, group = grouped(np.array([key for key, _ in members], dtype=np.int64))
    return keys.tolist(), group, np.array([value for _, value in members], dtype=np.int64)


@pytest.mark.parametrize("keys", [[], [3, 1, 3], [-1, 4, -1], [10**12, 5, 10**12]])
def test_equal_keys_are_one_group_in_ascending_order(keys: list[int]) -> None:
    keys_found, group = grouped(np.array(keys, dtype=np.int64))

    assert keys_found.tolist() == sorted(set(keys))
    assert keys_found[group].tolist() == keys


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(2**45), 2**45)), max_size=30))
def test_sums_are_those_of_whole_numbers(members: list[tuple[int, int]]) -> None:
    group, values = (
        np.array([member[place] for member in members], dtype=np.int64) for place in (0, 1)
    )

    expected = [sum(value for number, value in members if number == wanted) for wanted in range(5)]
    assert sums(group, values, 5).tolist() == expected


@given(MEMBERS, st.sampled_from([1, 2**58]))
def test_a_quantile_is_the_least_value_that_its_share_of_members_does_not_exceed(
    members: list[tuple[int, int]], scale: int
) -> None:
    keys, group, values = columns(members)

    found = quantiles(group, values * scale, len(keys))

    for tenths, column in zip((1, 5, 9), found, strict=True):
        for position in range(len(keys)):
            mine = sorted((values * scale)[group == position].tolist())
            reaching = [
                value
                for value in mine
                if 10 * sum(each <= value for each in mine) >= tenths * len(mine)
            ]
            assert column[position] == reaching[0]


def test_a_median_is_missing_where_a_group_has_no_member() -> None:
    found = medians(np.array([0, 0, 0, 2]), np.array([3.0, 1.0, 2.0, 5.0]), 3)

    assert rows_of(range(3), found=found) == [{"found": 2.0}, {"found": None}, {"found": 5.0}]


@given(MEMBERS, st.data())
def test_the_heaviest_value_of_a_group_weighs_most_and_is_the_least_of_those_that_tie(
    members: list[tuple[int, int]], data: st.DataObject
) -> None:
    keys, group, values = columns(members)
    weights = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=len(members), max_size=len(members)))
    )

    found = heaviest(group, values, weights, len(keys))

    weight: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for each, value, of_member in zip(
        group.tolist(), values.tolist(), weights.tolist(), strict=True
    ):
        weight[each][value] += of_member
    assert found.tolist() == [
        min(weight[position], key=lambda value: (-weight[position][value], value))
        for position in range(len(keys))
    ]
