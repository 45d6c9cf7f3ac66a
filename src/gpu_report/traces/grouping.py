"""Sums, quantiles and heaviest members of groups, and rows of columns: what tables are made of,
without event loops.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from gpu_report.storage.columns import text, whole
from gpu_report.traces.document import kept_name
from gpu_report.traces.trace import NONE, Flags, Floats, Integers

Row = dict[str, Any]
Number = TypeVar("Number", np.int64, np.float64)

NS_PER_MS: Final = 1e6
NS_PER_US: Final = 1e3
BYTES_PER_MIB: Final = 2.0**20

DEVICE: Final = text(
    "device", "Where the time was spent: cpu, or the accelerator's backend as in the trace."
)
STEP: Final = whole("step", "1", "Number of the step in the profiler's schedule.")

_SPARSE: Final = 8
"""Keys up to this many times their number are counted in a table, which takes a tenth of the time
of sorting them.
"""


_MOST_OF_LIST: Final = 50_000
"""An operation on every tensor of a model has as many shapes as the model has tensors."""


def grouped(keys: Integers) -> tuple[Integers, Integers]:
    """The distinct keys in ascending order, and for each member the position of its key among
    them.
    """
    if not len(keys) or keys.min() < 0 or keys.max() > _SPARSE * len(keys):
        return np.unique(keys, return_inverse=True)
    occurs = np.bincount(keys) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[keys]


def fits(texts: Sequence[str], positions: Integers, test: Callable[[str], object]) -> Flags:
    """For each position whether the text there passes the test; only texts at these positions are
    tested.
    """
    return numbers_of(texts, positions, lambda text: bool(test(text))).astype(np.bool_)


def numbers_of(
    texts: Sequence[str], positions: Integers, number_of: Callable[[str], int]
) -> Integers:
    """For each position the number of the text there; `number_of` is called once for each text."""
    asked, group = grouped(positions)
    return np.array([number_of(texts[position]) for position in asked.tolist()], dtype=np.int64)[
        group
    ]


def sums(group: Integers, values: Integers, groups: int) -> Integers:
    """Exact sums, which np.bincount has in floats alone."""
    found = np.zeros(groups, dtype=np.int64)
    np.add.at(found, group, values)
    return found


def counts(group: Integers, groups: int) -> Integers:
    """How many members each group has."""
    return np.bincount(group, minlength=groups).astype(np.int64)


def quantiles(
    group: Integers, values: npt.NDArray[Number], groups: int
) -> tuple[npt.NDArray[Number], npt.NDArray[Number], npt.NDArray[Number]]:
    """For each group the values that a tenth, half and nine tenths of its members do not exceed.

    Values that occur, by nearest rank: the least that at least that share of the members does not
    exceed. Every group has a member.
    """
    size = counts(group, groups)
    first = np.cumsum(size) - size
    ordered = values[np.lexsort((values, group))]
    p10, median, p90 = (ordered[first + (size * tenths + 9) // 10 - 1] for tenths in (1, 5, 9))
    return p10, median, p90


def medians(group: Integers, values: Floats, groups: int) -> Floats:
    """The median of each group by nearest rank, NaN where it has no member that is a number."""
    is_known = ~np.isnan(values)
    present, among_present = grouped(group[is_known])
    found = np.full(groups, np.nan)
    _, found[present], _ = quantiles(among_present, values[is_known], len(present))
    return found


def heaviest(group: Integers, values: Integers, weights: Integers, groups: int) -> Integers:
    """For each group the value whose members weigh most together, the least of those that tie; NONE
    without any.
    """
    span = int(values.max(initial=NONE)) + 2
    pairs, pair = grouped(group * span + values + 1)
    group_of_pair, value = pairs // span, pairs % span - 1
    by_weight = np.lexsort((-value, sums(pair, weights, len(pairs)), group_of_pair))
    found = np.full(groups, NONE)
    found[group_of_pair[by_weight]] = value[by_weight]
    return found


def heaviest_text(
    group: Integers, position: Integers, weights: Integers, groups: int, texts: Sequence[Any]
) -> Integers:
    """For each group the position of the text whose members weigh most together, the first by the
    texts of those that tie; NONE without any. A member's position may be NONE.
    """
    by_text = np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.int64)
    rank = np.append(np.argsort(by_text), NONE)
    return np.append(by_text, NONE)[heaviest(group, rank[position], weights, groups)]


def shares(parts: Integers) -> Floats:
    """Each part over their sum, NaN where that is nothing."""
    whole = parts.sum()
    return parts / whole if whole else np.full(len(parts), np.nan)


def rows_of(
    order: Sequence[int] | Integers, **columns: npt.NDArray[Any] | Sequence[Any]
) -> list[Row]:
    """One row for each position of the order, with what the columns hold there; a number that is
    NaN is missing.
    """
    picked = []
    for column in columns.values():
        values = np.asarray(column, dtype=getattr(column, "dtype", object))
        in_order = values[np.asarray(order, dtype=np.int64)].tolist()
        picked.append([None if value != value else value for value in in_order])
    return [dict(zip(columns, values, strict=True)) for values in zip(*picked, strict=True)]


def evenly_spaced(text: str) -> str:
    """A JSON list of numbers with one space after each comma, however the file is laid out."""
    return kept_name("".join(text.split()).replace(",", ", "), most=_MOST_OF_LIST)
