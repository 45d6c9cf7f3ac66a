"""What several processes say together: their mean, how far chance may have moved it, and the four
columns that hold both; and columns that many of the study's tables share.

values, one per process -> summarise -> Summary; two sets of values, by seed -> ratio or difference
-> Summary with p

Positive quantities are averaged on their logarithms, so that a ratio of two is as good as its
reciprocal (Fleming and Wallace, How not to lie with statistics, CACM 1986). Intervals are Student's
t; two configurations that trained from the same seeds are compared seed by seed, others by Welch's
t with Satterthwaite's degrees of freedom (Welch, Biometrika 1947). Not the percentile bootstrap: of
few processes it is little more than the distance from their least to their greatest value, which
holds the truth far less often than it says.
Student's distribution is computed here, since the import of scipy.stats takes longer than all
tables; a test compares the two.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, NamedTuple, Self

from gpu_report.glossary import METRICS, Scale
from gpu_report.storage.columns import Column, number, text, whole

CONFIDENCE: Final = 0.95
SIGNIFICANCE: Final = 1 - CONFIDENCE
"""Below it a p-value, adjusted for the other comparisons of its experiment, counts as a
difference.
"""

FEWEST_FOR_INTERVAL: Final = 3
"""Processes: a t interval of three is wide, but holds the truth as often as it says, and a study
with a time budget needs verdicts after three. One of two would be over three times as wide.
"""
_BOUNDS: Final[Mapping[Scale, tuple[float, float]]] = {
    "share": (0.0, 1.0),
    "percent": (0.0, 100.0),
    "amount": (0.0, math.inf),
}

BySeed = Mapping[Any, float]
"""One value per process, by what processes that began alike have in common."""

_TINY: Final = 1e-300
_LARGEST_LOG: Final = 700.0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A mean over `count` processes; NaN where not measured.

    `low` and `high` are the ends of the 95 % interval from three processes on, and NaN of fewer.
    `p` is that of no difference, where two sides were compared and have an interval.
    """

    value: float
    low: float
    high: float
    count: int
    p: float = math.nan

    def as_columns(self, name: str) -> dict[str, float]:
        """The columns of a table that hold it."""
        return {
            name: self.value,
            f"{name}_low": self.low,
            f"{name}_high": self.high,
            f"{name}_count": self.count,
        }

    def mapped(self, function: Callable[[float], float]) -> Self:
        """The same of a function that rises, or falls, over the whole interval."""
        if math.isnan(self.low + self.high):
            return replace(self, value=function(self.value), low=math.nan, high=math.nan)
        low, high = sorted((function(self.low), function(self.high)))
        return replace(self, value=function(self.value), low=low, high=high)


class Spread(NamedTuple):
    """How far a number differs from one session of measuring to the next: the standard deviation of
    its logarithm, and the number of sessions that it is estimated from, two at least. Beside it the
    standard deviation between processes of one time, with its degrees of freedom.
    """

    deviation: float
    sessions: int
    of_processes: float = math.nan
    process_freedom: int = 0


NOT_MEASURED: Final = Summary(value=math.nan, low=math.nan, high=math.nan, count=0)


def summarise(values: Sequence[float], *, scale: Scale = "log") -> Summary:
    """The mean of one value per process, whose order does not matter.

    No values, one that is not finite, and on the logarithmic scale one that is not positive, are
    not measured.
    """
    if not _can_be_averaged(values, scale):
        return NOT_MEASURED
    found = (
        _from_logs(_mean([math.log(value) for value in values]))
        if scale == "log"
        else _mean(values)
    )
    value = min(
        max(found.value, min(values)), max(values)
    )  # rounding can take a mean beyond equal values
    if len(values) < FEWEST_FOR_INTERVAL:
        return replace(found, value=value)
    if min(values) == max(values):
        return Summary(value=value, low=min(values), high=max(values), count=len(values))
    least, greatest = _BOUNDS.get(scale, (-math.inf, math.inf))
    if (
        not least <= min(values) <= max(values) <= greatest
    ):  # a metric of the user's own, with bounds of its own
        least, greatest = -math.inf, math.inf
    low, high = min(max(least, found.low), value), max(min(greatest, found.high), value)
    return Summary(value=value, low=low, high=high, count=len(values))


def ratio(
    values: BySeed,
    reference: BySeed,
    *,
    paired: bool = True,
    confidence: float = CONFIDENCE,
    spread: Spread | None = None,
) -> Summary:
    """The mean of `values` over that of `reference`, each one value per process by its seed.

    With the same seeds on both sides the processes are compared in pairs, unless `paired` is
    switched off. Not measured where a side is empty or holds a value that is not finite and
    positive; the count is that of the smaller side. A `spread` is given where the sides are of two
    sessions: each then adds its variance to that of the difference, and Satterthwaite's degrees of
    freedom count from how few sessions it was estimated.
    """
    if not all(_can_be_averaged([*side.values()], "log") for side in (values, reference)):
        return NOT_MEASURED
    logs, reference_logs = (
        {key: math.log(value) for key, value in side.items()} for side in (values, reference)
    )
    if paired and logs.keys() == reference_logs.keys():
        differences = [logs[key] - reference_logs[key] for key in logs]
        return _from_logs(_mean(differences, confidence, spread))
    one, other = (_mean([*side.values()]) for side in (logs, reference_logs))
    return _from_logs(difference_of_means(one, other, spread, confidence=confidence))


def difference(values: BySeed, reference: BySeed, *, confidence: float = CONFIDENCE) -> Summary:
    """The mean of the differences from `reference` seed by seed; not measured where each side has
    seeds that the other lacks. One side alone may have more: a time budget leaves the other fewer.
    """
    found = [values[key] - reference[key] for key in values if key in reference]
    if len(found) < min(len(values), len(reference)) or not _can_be_averaged(found, "linear"):
        return NOT_MEASURED
    return _mean(found, confidence)


def ratio_of_means(one: Summary, other: Summary, spread: Spread | None = None) -> Summary:
    """The quotient of two geometric means, by Welch's t from their intervals, with a `spread` as in
    `ratio`.

    Where one of them has no interval, or one that touches 0, from the least to the greatest
    quotient that the bounds allow.
    """
    count, bounds = min(one.count, other.count), (one.low, one.high, other.low, other.high)
    if count < FEWEST_FOR_INTERVAL or not min(bounds) > 0:
        return Summary(
            value=one.value / other.value,
            low=one.low / other.high,
            high=one.high / other.low if other.low else math.inf,
            count=count,
        )
    found = difference_of_means(one.mapped(math.log), other.mapped(math.log), spread)
    return _from_logs(found)


def difference_of_means(
    one: Summary,
    other: Summary,
    spread: Spread | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Summary:
    """The difference of two arithmetic means, by Welch's t from their intervals, as
    `ratio_of_means`.

    The longer half of an interval counts, as the other may end at the most that a share can be.
    """
    count = min(one.count, other.count)
    if count < FEWEST_FOR_INTERVAL:
        return Summary(
            value=one.value - other.value,
            low=one.low - other.high,
            high=one.high - other.low,
            count=count,
        )
    halves = [max(each.high - each.value, each.value - each.low) for each in (one, other)]
    squares = [
        (half / students_t(each.count - 1)) ** 2
        for half, each in zip(halves, (one, other), strict=True)
    ]
    return _student(one.value - other.value, squares, (one.count, other.count), confidence, spread)


def deviation_of(figure: Summary) -> float:
    """The standard deviation between the processes of a figure, of their logarithms; infinite where
    they are too few to have an interval.
    """
    if figure.count < FEWEST_FOR_INTERVAL:
        return math.inf
    half = math.log(figure.high / figure.low) / 2
    return half / students_t(figure.count - 1) * math.sqrt(figure.count)


def varies_more(deviation: float, freedom: int, other: float, other_freedom: int) -> bool:
    """Whether a standard deviation is significantly greater than another one, each estimated with
    its degrees of freedom: the F test of two variances.
    """
    squares, other_squares = freedom * deviation**2, other_freedom * other**2
    part = other_squares / (other_squares + squares)
    return _incomplete_beta(other_freedom / 2, freedom / 2, part) < SIGNIFICANCE


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p-value adjusted for the others, so that chance makes any of them a claim in 5 % at most
    (Holm 1979).

    NaN stays NaN and does not count.
    """
    order = sorted(
        (index for index, p in enumerate(p_values) if not math.isnan(p)), key=p_values.__getitem__
    )
    adjusted, least = list(p_values), 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, p_values[index] * (len(order) - rank)))
        adjusted[index] = least
    return adjusted


def students_p(t: float, freedom: float) -> float:
    """Probability that chance takes Student's t with `freedom` degrees of freedom at least as far
    from 0.
    """
    return (
        _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) if math.isfinite(t) else 0.0
    )


@cache
def students_t(freedom: float, *, confidence: float = CONFIDENCE) -> float:
    """How far from 0 Student's t stays with this confidence."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if students_p(middle, freedom) > 1 - confidence else (low, middle)
        )
    return high


def _can_be_averaged(values: Sequence[float], scale: Scale) -> bool:
    return bool(values) and all(map(math.isfinite, values)) and (scale != "log" or min(values) > 0)


def _mean(
    values: Sequence[float], confidence: float = CONFIDENCE, spread: Spread | None = None
) -> Summary:
    """As the values are; p is that of a mean of 0."""
    if len(values) < FEWEST_FOR_INTERVAL:
        return replace(NOT_MEASURED, value=statistics.fmean(values), count=len(values))
    square = statistics.variance(values) / len(values)
    return _student(statistics.fmean(values), [square], [len(values)], confidence, spread)


def _student(
    mean: float,
    squares: Sequence[float],
    counts: Sequence[int],
    confidence: float,
    spread: Spread | None,
) -> Summary:
    """Student's t of a mean, or Welch's of a difference of two, by the squares of their standard
    errors and their numbers of values; the spread between two sessions is one more square.
    """
    processes = min(counts)
    if spread:
        squares, counts = [*squares, 2 * spread.deviation**2], [*counts, spread.sessions]
    error = math.sqrt(sum(squares))
    if not error:
        return Summary(value=mean, low=mean, high=mean, count=processes, p=float(mean == 0))
    parts = [
        (square / error**2) ** 2 / (count - 1)
        for square, count in zip(squares, counts, strict=True)
    ]
    freedom = 1 / sum(parts)
    half = students_t(freedom, confidence=confidence) * error
    p = students_p(mean / error, freedom)
    return Summary(value=mean, low=mean - half, high=mean + half, count=processes, p=p)


def _from_logs(found: Summary) -> Summary:
    return found.mapped(lambda log: math.exp(min(log, _LARGEST_LOG)))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function, by Lentz's continued fraction (Numerical Recipes,
    6.4).
    """
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):  # where the other side's fraction converges faster
        return 1 - _incomplete_beta(b, a, 1 - x)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for term in range(1, 10_000):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for part in (even, odd):
            d, c = 1 / _away_from_zero(1 + part * d), _away_from_zero(1 + part / c)
            fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return math.exp(log_front) * fraction / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def metric(name: str) -> Column:
    """A number of the glossary, by its column."""
    found = METRICS[name]
    return number(name, found.unit, f"{found.description}.")


def summary_of(name: str) -> tuple[Column, ...]:
    """A number of the glossary that is summarized over processes, by its column."""
    return summary(name, METRICS[name].unit, METRICS[name].description)


def summary(name: str, unit: str, meaning: str) -> tuple[Column, ...]:
    """A mean over processes, the two ends of its interval, and how many processes it is from."""
    return (
        number(
            name,
            unit,
            f"{meaning}; mean over processes, of ratios and positive quantities the geometric one.",
        ),
        number(
            f"{name}_low",
            unit,
            "Lower end of its 95 % interval; missing of fewer than "
            f"{FEWEST_FOR_INTERVAL} processes.",
        ),
        number(
            f"{name}_high",
            unit,
            "Upper end of its 95 % interval; missing of fewer than "
            f"{FEWEST_FOR_INTERVAL} processes.",
        ),
        whole(f"{name}_count", "1", "Processes that it is the mean of."),
    )


VARIANT: Final = text("variant", "Name of the variant, the folder of its record.")
WORKLOAD: Final = text("workload", "What is trained, as named in the configuration.")
DEVICE: Final = text("device", "PyTorch device name.")
REPETITION: Final = whole("repetition", "1", "Index of the fresh process.")
EPOCH: Final = whole("epoch", "1", "Index of the epoch, from 0.")
PROFILED: Final = (VARIANT, WORKLOAD, DEVICE)
"""The first columns of every table by profiled variant."""
