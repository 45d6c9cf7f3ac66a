"""At which session the level of a history changes, for several histories at once, with few false
alarms.

histories (a value per session) -> rounds of tests, each corrected for all that it tests -> Changes
of each history

Binary segmentation: a stretch of sessions is split where a change is significant, and its parts are
tested next. The test permutes the sessions, so that it assumes no distribution (Antoch and Huskova,
Permutation tests in change point analysis, Statistics & Probability Letters 2001). It looks for a
step, and for a level that returns, which a single step would not find (Olshen et al., Circular
binary segmentation, Biostatistics 2004). A session is named only where steps describe the sessions
around it better than a straight line, as a slow change happens at no session (Beaulieu and Killick,
Distinguishing trends and shifts, Journal of Climate 2018), with strong evidence on the scale of
Kass and Raftery (Bayes factors, JASA 1995). The test assumes that sessions do not depend on each
other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_report.tables.statistics import holm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIGNIFICANCE: Final = 0.01
"""Probability that chance alone shows a change in any of the histories of one call."""
TOO_FEW: Final = "too few sessions"
AT_NO_SESSION: Final = "changed, at no single session"
Verdict = Literal["too few sessions", "no change", "changed", "changed, at no single session"]
_SHAPES: Final = 2
_SHORTEST: Final = 2
"""Sessions of a segment: a single one is an outlier and no level."""
_MARGIN: Final = 1.25
"""Twice the relative error of a small p-value, which is estimated from random permutations."""
_STRONG_EVIDENCE: Final = 6.0
_PERMUTATIONS: Final = 100_000
_FOR_EACH_TEST: Final = 2_000
"""Permutations without which none of several corrected p-values could be small enough."""
_GAINS: Final = 500_000_000
"""As many as take some seconds: a year of sessions has 65,000 places, and is permuted less
often.
"""
_AT_A_TIME: Final = 4_000_000
_ENOUGH: Final = 100
"""Permutations that reach the observed change: then it is not significant, and further ones do not
matter.
"""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """`places` are the indices of the first sessions after a change, each with its adjusted
    p-value, in order.

    `sessions_needed` is the fewest sessions in which the test can find a change at all.
    """

    places: Mapping[int, float]
    verdict: Verdict
    sessions_needed: int


def fewest_sessions(histories: int) -> int:
    """The length from which each of several histories can show a change: an ideal step is clearly
    significant.

    Of all orders of the sessions, those with the same sessions at one end are as extreme as such a
    step.
    """
    sessions = 2 * _SHORTEST
    while _SHAPES * 2 / math.comb(sessions, sessions // 2) > SIGNIFICANCE / histories / _MARGIN:
        sessions += 1
    return sessions


def find_changes(histories: Sequence[Sequence[float]]) -> list[Changes]:
    """The changes of each history of positive values; the same histories always give the same
    changes.
    """
    import numpy as np

    logs = [np.log(np.asarray(values, dtype=float)) for values in histories]
    shortest = fewest_sessions(1)
    needed = fewest_sessions(max(1, sum(len(values) >= shortest for values in logs)))
    found: list[dict[int, float]] = [{} for _ in logs]
    stretches = [
        (which, 0, len(values)) for which, values in enumerate(logs) if len(values) >= needed
    ]
    while stretches:
        tested = [
            _best_split(logs[which][start:stop], tests=len(stretches))
            for which, start, stop in stretches
        ]
        adjusted = holm([p for p, _ in tested])
        parts: list[tuple[int, int, int]] = []
        for (which, start, stop), (_, places), p in zip(stretches, tested, adjusted, strict=True):
            if p <= SIGNIFICANCE:
                edges = [start, *(start + place for place in places), stop]
                found[which] |= dict.fromkeys(edges[1:-1], p)
                parts += [(which, *ends) for ends in pairwise(edges)]
        stretches = [part for part in parts if part[2] - part[1] >= shortest]
    return [_changes(values, places, needed) for values, places in zip(logs, found, strict=True)]


def _changes(values: "Floats", places: Mapping[int, float], needed: int) -> Changes:
    if len(values) < needed:
        return Changes(places={}, verdict=TOO_FEW, sessions_needed=needed)
    kept = _without_slow_changes(values, sorted(places))
    verdict: Verdict = "changed" if kept else AT_NO_SESSION if places else "no change"
    return Changes(
        places={place: places[place] for place in kept}, verdict=verdict, sessions_needed=needed
    )


def _best_split(values: "Floats", *, tests: int) -> tuple[float, list[int]]:
    """The p-value of the most likely change, and where it is: one place, or two where the level
    returns.
    """
    import numpy as np

    centered, generator = values - values.mean(), np.random.default_rng(0)
    observed = [shape[0] for shape in _gains(centered[np.newaxis])]
    places = sum(map(len, observed))
    most = max(_FOR_EACH_TEST * tests, min(_PERMUTATIONS, _GAINS // places))
    at_a_time = min(_FOR_EACH_TEST, max(1, _AT_A_TIME // places))
    reached, drawn = np.zeros(_SHAPES), 0
    while drawn < most and reached.min() < _ENOUGH:
        orders = generator.permuted(np.tile(centered, (at_a_time, 1)), axis=1)
        largest = [shape.max(axis=1) for shape in _gains(orders)]
        # Sums of the same numbers in another order differ by rounding.
        reached += [
            (each >= gain.max() * (1 - 1e-9)).sum()
            for each, gain in zip(largest, observed, strict=True)
        ]
        drawn += at_a_time
    p_values = [min(1.0, _SHAPES * (count + 1) / (drawn + 1)) for count in reached]
    shape = p_values.index(min(p_values))
    edges = _places(len(values))[shape][int(observed[shape].argmax())]
    return p_values[shape], [edge for edge in edges if edge]


def _places(sessions: int) -> list[list[tuple[int, int]]]:
    """Begin and end of what the shapes set apart: all sessions before a step, or some in the
    middle.
    """
    ends = range(_SHORTEST, sessions - _SHORTEST + 1)
    return [
        [(0, end) for end in ends],
        [(begin, end) for begin in ends for end in ends if end - begin >= _SHORTEST],
    ]


def _gains(orders: "Floats") -> "list[Any]":
    """By how much each place of each shape lowers the sum of squares, per order of the sessions;
    their mean is 0.
    """
    import numpy as np

    sessions = orders.shape[1]
    sums = np.pad(orders.cumsum(axis=1), ((0, 0), (1, 0)))
    gains = []
    for places in _places(sessions):
        begins, ends = np.array(places).T
        length = ends - begins
        gains.append(
            (sums[:, ends] - sums[:, begins]) ** 2 * (sessions / (length * (sessions - length)))
        )
    return gains


def _without_slow_changes(values: "Floats", places: list[int]) -> list[int]:
    """The places at which a step beats a line; without one of them, its neighbors have longer
    stretches to show it.
    """
    while places:
        edges = [0, *places, len(values)]
        evidence = {
            place: _evidence_of_step(values[before:after], place - before)
            for before, place, after in zip(edges, places, edges[2:], strict=False)
        }
        weakest = min(places, key=evidence.__getitem__)
        if evidence[weakest] >= _STRONG_EVIDENCE:
            break
        places = [place for place in places if place != weakest]
    return places


def _evidence_of_step(values: "Floats", place: int) -> float:
    """Difference of the Bayesian information criteria of a line and of a step, which has its place
    besides.
    """
    import numpy as np

    count, centered = len(values), values - values.mean()
    moments = np.arange(count) - (count - 1) / 2
    line = (centered**2).sum() - (moments @ centered) ** 2 / (moments @ moments)
    step = sum(((part - part.mean()) ** 2).sum() for part in (values[:place], values[place:]))
    tiny = np.finfo(float).tiny  # of a step without any noise
    return float(count * math.log(max(line, tiny) / max(step, tiny)) - math.log(count))
