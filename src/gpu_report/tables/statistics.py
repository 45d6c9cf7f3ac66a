"""What several processes say together: medians, and how far chance may have moved them.

values, one per process -> summarise -> Summary; two sets of values -> ratio_of_medians -> Summary

The interval is the percentile bootstrap's: the processes are drawn again with replacement, and the middle 95 % of the
medians so found is the interval (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). It is the
one of scipy.stats.bootstrap, whose import would take longer than all tables. Medians and nonparametric intervals,
because run times are skewed (Hoefler and Belli, Scientific Benchmarking of Parallel Computing Systems, SC 2015, rules 5
to 7). With three processes it spans from the least to the greatest value: few processes can not claim more.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE: Final = 0.95
_RESAMPLES: Final = 9999  # the ends of the interval are good to about two digits
_SEED: Final = 20260504  # fixed, so that the same records give the same tables


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A median over processes with its 95 % interval; NaN where not measured, and no interval from one process."""

    median: float
    low: float
    high: float
    count: int

    def as_columns(self, name: str) -> dict[str, float]:
        """The three columns of a table that hold it."""
        return {name: self.median, f"{name}_low": self.low, f"{name}_high": self.high}


NOT_MEASURED: Final = Summary(median=math.nan, low=math.nan, high=math.nan, count=0)


def summarise(values: Sequence[float]) -> Summary:
    """The median of one value per process, whose order does not matter.

    No values, or one that is not finite, are not measured. One value has no interval; equal values one of no width.
    """
    if not values or not all(map(math.isfinite, values)):
        return NOT_MEASURED
    low, high = _interval(tuple(sorted(values)))
    median = statistics.median(values)
    # The interval interpolates between resampled medians, which can pass median and extreme values by a rounding error.
    return Summary(
        median=median,
        low=min(max(low, min(values)), median),
        high=max(min(high, max(values)), median),
        count=len(values),
    )


def ratio_of_medians(values: Sequence[float], reference: Sequence[float]) -> Summary:
    """median(values) / median(reference), both sides drawn again on their own; the count is that of the smaller side.

    Not measured where a side is empty, holds a value that is not finite, or one of the reference's is not above zero. A
    side of one value leaves the interval away, as it hides how far chance moved it.
    """
    if not values or not reference or not all(map(math.isfinite, [*values, *reference])) or min(reference) <= 0:
        return NOT_MEASURED
    low, high = _interval(tuple(sorted(values)), tuple(sorted(reference)))
    quotient = statistics.median(values) / statistics.median(reference)
    count = min(len(values), len(reference))
    return Summary(median=quotient, low=min(low, quotient), high=max(high, quotient), count=count)


@cache  # the tables of experiments hold variants that the table of variants holds too
def _interval(values: tuple[float, ...], reference: tuple[float, ...] | None = None) -> tuple[float, float]:
    """Ends of the bootstrap interval of the median, or of the ratio of medians."""
    sides = [values] if reference is None else [values, reference]
    if any(len(side) < 2 for side in sides):
        return math.nan, math.nan
    if all(side[0] == side[-1] for side in sides):
        exact = values[0] / (reference[0] if reference else 1.0)
        return exact, exact
    resampled = [_medians(side, ranks) for side, ranks in zip(sides, _middle_ranks(*map(len, sides)), strict=True)]
    found = resampled[0] if reference is None else resampled[0] / resampled[1]
    tail = (1 - CONFIDENCE) / 2
    return _quantile(found, tail), _quantile(found, 1 - tail)


@cache
def _middle_ranks(*sizes: int) -> "tuple[NDArray[np.intp], ...]":
    """Of each side's processes drawn again: which two of the ordered values are in the middle, the same if one is.

    The seed is fixed, so that all sides of these sizes are drawn alike: their values change what the ranks stand for.
    """
    import numpy as np

    random = np.random.default_rng(_SEED)
    drawn = [np.sort(random.integers(0, size, (_RESAMPLES, size)), axis=1) for size in sizes]
    return tuple(ranks[:, [(size - 1) // 2, size // 2]] for ranks, size in zip(drawn, sizes, strict=True))


def _medians(ordered: tuple[float, ...], ranks: "NDArray[np.intp]") -> "NDArray[np.float64]":
    import numpy as np

    middle = np.array(ordered)[ranks]
    return np.asarray((middle[:, 0] + middle[:, 1]) / 2)


def _quantile(values: "NDArray[np.float64]", share: float) -> float:
    """The quantile on the straight line between the two values next to it (Hyndman and Fan's definition 7)."""
    import numpy as np

    below, between = divmod(share * len(values) + 1 - share, 1)
    places = [int(below) - 1, int(below)]
    low, high = np.partition(values, places)[places]
    return float((1 - between) * low + between * high)
