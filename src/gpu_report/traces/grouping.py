"""Sums, quantiles and heaviest members of groups: what the tables' rows are made of, without a loop over events."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from gpu_report.traces.naming import kept_name
from gpu_report.traces.spans import NONE, Flags, Floats, Integers

NS_PER_MS: Final = 1e6
NS_PER_US: Final = 1e3

_SPARSE: Final = 8
"""Keys up to so many times their number are counted in a table, which takes a tenth of the time of sorting them."""


_EXACT: Final = 2.0**53
_MOST_OF_LIST: Final = 50_000
"""An operation on every tensor of a model has as many shapes as the model has tensors."""


class Grouped(NamedTuple):
    """The distinct keys in ascending order, and for each member the position of its key among them."""

    keys: Integers
    group: Integers


def grouped(keys: Integers) -> Grouped:
    """Put members of equal key together."""
    if not len(keys) or keys.min() < 0 or keys.max() > _SPARSE * len(keys):
        return Grouped(*np.unique(keys, return_inverse=True))
    occurs = np.bincount(keys) > 0
    return Grouped(np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[keys])


def distinct(keys: Integers) -> Integers:
    """The distinct keys in ascending order; np.unique without further answers imports numpy.ma, which takes time."""
    return grouped(keys).keys


def is_among(values: Integers, others: Integers) -> Flags:
    """Whether each value is one of the others, as np.isin, which imports numpy.ma for many of them."""
    ordered = distinct(others)
    if not len(ordered):
        return np.zeros(len(values), dtype=np.bool_)
    found: Flags = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found


def fits(texts: Sequence[str], positions: Integers, test: Callable[[str], object]) -> Flags:
    """For each position whether the text there passes the test; only texts that are asked for are tested."""
    return numbers_told(texts, positions, lambda text: bool(test(text))).astype(np.bool_)


def numbers_told(texts: Sequence[str], positions: Integers, tell: Callable[[str], int]) -> Integers:
    """For each position the number that is told of the text there; each text that is asked for is told once."""
    asked, group = grouped(positions)
    return np.array([tell(texts[position]) for position in asked.tolist()], dtype=np.int64)[group]


def sums(group: Integers, values: Integers, groups: int) -> Integers:
    """Exact sums: floats add whole numbers exactly as long as all together are less than 2**53."""
    if np.abs(values, dtype=np.float64).sum() < _EXACT:
        return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
    found = np.zeros(groups, dtype=np.int64)
    np.add.at(found, group, values)
    return found


def counts(group: Integers, groups: int) -> Integers:
    """How many members each group has."""
    return np.bincount(group, minlength=groups).astype(np.int64)


class Quantiles(NamedTuple):
    """For each group the values that a tenth, half and nine tenths of its members do not exceed."""

    p10: Integers
    median: Integers
    p90: Integers


def quantiles(group: Integers, values: Integers, groups: int) -> Quantiles:
    """Values that occur, by nearest rank: the least that at least that share of the members does not exceed.

    Every group has a member, and no value is negative.
    """
    size = counts(group, groups)
    first = np.cumsum(size) - size
    ordered = values[np.lexsort((values, group))] if _overflows(values, groups) else _sorted(group, values)
    return Quantiles(*(ordered[first + (size * tenths + 9) // 10 - 1] for tenths in (1, 5, 9)))


def _overflows(values: Integers, groups: int) -> bool:
    return (int(values.max(initial=0)) + 1) * max(groups, 1) > np.iinfo(np.int64).max


def _sorted(group: Integers, values: Integers) -> Integers:
    """The values group by group in ascending order; sorting one number takes a tenth of the time that two take."""
    span = int(values.max(initial=0)) + 1
    ordered: Integers = np.sort(group * span + values) % span
    return ordered


def medians(group: Integers, values: Floats, groups: int) -> Floats:
    """The median of each group by nearest rank, NaN where it has no member that is a number."""
    is_known = ~np.isnan(values)
    occurring, rank = np.unique(values[is_known], return_inverse=True)
    present, among_present = grouped(group[is_known])
    found = np.full(groups, np.nan)
    found[present] = occurring[quantiles(among_present, rank, len(present)).median]
    return found


def heaviest(group: Integers, values: Integers, weights: Integers, groups: int) -> Integers:
    """For each group the value whose members weigh most together, the least of those that tie; NONE without any."""
    span = int(values.max(initial=NONE)) + 2
    pairs, pair = grouped(group * span + values + 1)
    group_of_pair, value = pairs // span, pairs % span - 1
    by_weight = np.lexsort((-value, sums(pair, weights, len(pairs)), group_of_pair))
    found = np.full(groups, NONE)
    found[group_of_pair[by_weight]] = value[by_weight]
    return found


def share(part: int, whole: int) -> float | None:
    """Part over whole, missing where the whole is nothing."""
    return part / whole if whole else None


def known_or_none(value: float) -> float | None:
    """The number as a plain float, and None for NaN, as a table's rows say that one is missing."""
    return None if np.isnan(value) else float(value)


def evenly_spaced(text: str) -> str:
    """A JSON list of numbers with one space after each comma, however the file is laid out."""
    return kept_name("".join(text.split()).replace(",", ", "), most=_MOST_OF_LIST)
