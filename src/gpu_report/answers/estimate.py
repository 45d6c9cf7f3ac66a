"""An estimate: a mean over processes with its 95 % interval, the doubts about it, and how it
compares with a limit.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, Literal, Self

from gpu_report.glossary import Row, is_timing
from gpu_report.tables import bundle
from gpu_report.tables.bundle import Tables, spread_between, summary_in
from gpu_report.tables.marks import (
    FLAG_SIZE,
    INVALIDATES_ALL,
    UNKNOWN_SPREAD,
    WEAKENING,
    WIDENS_TIMES,
    marks_in,
)
from gpu_report.tables.statistics import (
    NOT_MEASURED,
    SIGNIFICANCE,
    Spread,
    Summary,
    difference_of_means,
    ratio_of_means,
)
from gpu_report.words import listed

Side = Literal["above", "below", "unclear"]

MOST_PROCESSES: Final = 100
TWO_SESSIONS: Final = "measuring both in one session would narrow the interval"
"""Instead of a number of processes, which cannot narrow the spread between sessions."""
# Of the lower tail, where a p-value close to 0 has a quantile too.
_Z: Final = NormalDist().inv_cdf(SIGNIFICANCE / 2)


@dataclass(frozen=True, kw_only=True)
class Estimate(Summary):
    """A mean over fresh processes; `count` is 0 where it is from one profiled run.

    `p` is that of `null`, adjusted for the other comparisons of the experiment; both are NaN where
    nothing was compared. `doubts` are marks that widen the interval by FLAG_SIZE before anything is
    decided, or, if they invalidate it, leave everything open. `is_of_two_sessions` says
    whether the interval includes the spread between two sessions.
    """

    doubts: tuple[str, ...] = ()
    null: float = math.nan
    is_of_two_sessions: bool = False

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return not math.isnan(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether there is a 95 % interval."""
        return not math.isnan(self.low + self.high)

    def against(self, limit: float) -> Side:
        """On which side the whole interval is, widened if it is doubted; 'unclear' where it
        includes the limit or is missing.

        A side that is away from `null` is a claim beside the experiment's other comparisons, so
        that the adjusted p decides as well.
        """
        can_widen = self.low > 0 and WIDENS_TIMES.keys() >= set(self.doubts)
        if not self.has_interval or (self.doubts and not can_widen):
            return "unclear"
        factor = FLAG_SIZE if self.doubts else 1.0
        low, high = self.low / factor, self.high * factor
        side: Side = "above" if low > limit else "below" if high < limit else "unclear"
        differs = (side == "above" and limit >= self.null) or (
            side == "below" and limit <= self.null
        )
        return "unclear" if differs and not self.p < SIGNIFICANCE else side

    def why_unclear(self, limit: float, limit_in_words: str) -> str:
        """Why its side of a limit is too close to call, as the end of a sentence that began with
        'because', and how many processes would decide.
        """
        if self.doubts:
            return listed([WEAKENING[mark] for mark in self.doubts])
        if not self.has_interval:
            given = "1 process gives" if self.count == 1 else f"{self.count} processes give"
            return f"{given} no 95 % interval"
        needed = TWO_SESSIONS if self.is_of_two_sessions else self._processes_needed(limit)
        if self.low <= self.null <= self.high or math.isnan(self.null) or self.p < SIGNIFICANCE:
            return f"the interval includes {limit_in_words}" + (f" ({needed})" if needed else "")
        return (
            "the difference is not significant after Holm's correction for the experiment's other "
            "comparisons" + (f" ({needed})" if needed else "")
        )

    def _processes_needed(self, limit: float) -> str:
        """How many processes would decide if the mean stayed, as the interval shrinks with the root
        of their number; empty where that cannot be computed.

        Beside other comparisons the interval is widened to that of the adjusted p.
        """
        distance = abs(self.value - limit)
        half_width = (self.high - self.low) / 2
        if 0 < self.p < 1:
            from_null = abs(self.value - self.null)
            half_width = max(half_width, from_null * _Z / NormalDist().inv_cdf(self.p / 2))
        if not distance > 0 or not self.count or not math.isfinite(half_width):
            return ""
        needed = math.ceil(self.count * (half_width / distance) ** 2)
        if needed > MOST_PROCESSES:
            return f"more than {MOST_PROCESSES} processes would be needed"
        return f"about {needed} processes would decide" if needed > self.count else ""

    def mapped(self, function: Callable[[float], float]) -> Self:
        """The same of a function that rises, or falls, over the whole interval."""
        null = self.null if math.isnan(self.null) else function(self.null)
        return replace(super().mapped(function), null=null)

    @property
    def inverse(self) -> "Estimate":
        """The ratio the other way round."""
        return self.mapped(lambda ratio: 1 / ratio)

    def over(self, other: "Estimate", spread: Spread | None = None) -> "Estimate":
        """The ratio, by Welch's t where both have an interval; missing where the other's touches
        zero. A `spread` is that between their two sessions.
        """
        has_ratio = other.value and not other.low <= 0
        found = ratio_of_means(self, other, spread) if has_ratio else NOT_MEASURED
        return Estimate(
            value=found.value,
            low=found.low,
            high=found.high,
            count=min(self.count, other.count),
            doubts=tuple(dict.fromkeys((*self.doubts, *other.doubts))),
            is_of_two_sessions=spread is not None,
        )


def estimate(row: Row, column: str) -> Estimate:
    """The figure of one row in a column that has `_low`, `_high` and `_count` beside it."""
    return Estimate(**vars(summary_in(row, column)), doubts=doubts_about(column, row))


def against_other(row: Row, column: str, other: Row) -> Estimate:
    """The figure of one row that compares it with another variant, with the doubts about both."""
    doubts = doubts_about(column, row, other)
    return replace(estimate(row, column), doubts=(*doubts, *_doubts_of_sessions(row["marks"])))


def ratio_of(column: str, tables: Tables | None = None) -> Callable[[Row, Row], Estimate]:
    """The figure of one variant over that of another, as a function of both. Of a figure that
    follows the time of a step, the tables of both widen the interval between two sessions.
    """
    if tables is None:
        return lambda row, other: estimate(row, column).over(estimate(other, column))

    def ratio(row: Row, other: Row) -> Estimate:
        spread = spread_between(tables, row, other)
        found = estimate(row, column).over(estimate(other, column), spread)
        return between_sessions(found, row, other, spread)

    return ratio


def between_sessions(found: Estimate, row: Row, other: Row, spread: Spread | None) -> Estimate:
    """The comparison of these two with what their sessions say of it: whether they are two, and
    whether a sentinel shows how far these differ, which is the spread.
    """
    is_unknown = spread is None and row["session"] != other["session"]
    doubts = (UNKNOWN_SPREAD,) if is_unknown else ()
    return replace(found, doubts=(*found.doubts, *doubts), is_of_two_sessions=spread is not None)


def _doubts_of_sessions(marks: str) -> tuple[str, ...]:
    """The same as the marks of a row say it, which are about it and its baseline."""
    return (UNKNOWN_SPREAD,) if UNKNOWN_SPREAD in marks_in(marks) else ()


def of_source(row: Row) -> Estimate:
    """Ours of two trainings that a source compares, a row of SOURCES: the factor of their times or
    throughputs. It agrees with the source above 1.
    """
    return replace(
        estimate(row, "ours"),
        doubts=(
            *doubts_about("throughput_per_s", row),
            *_doubts_of_sessions(row["marks"]),
        ),
        p=row["ours_p"],
        null=1.0,
    )


def speedup(row: Row, baseline: Row) -> Estimate:
    """The table's speedup of a variant over its group's baseline, with the doubts about both."""
    return replace(
        against_other(row, "speedup", baseline),
        p=row["speedup_p"],
        null=1.0,
        is_of_two_sessions="other session" in marks_in(row["marks"]),
    )


def gain_over(tables: Tables, row: Row, baseline: Row) -> Estimate:
    """The throughput over that of any other variant, as `bundle.gain_over` compares the two, with
    the doubts.
    """
    found = Estimate(
        **vars(bundle.gain_over(tables, row, baseline)),
        doubts=doubts_about("throughput_per_s", row, baseline),
        null=1.0,
    )
    return between_sessions(found, row, baseline, spread_between(tables, row, baseline))


def quality_change(row: Row, before: Row) -> Estimate:
    """How much higher the quality of a variant is than before: seed by seed where the table paired
    the two.
    """
    doubts = doubts_about("quality", row, before)
    if is_paired(row, before):
        change = estimate(row, "quality_change")
        return replace(change, doubts=doubts, p=row["quality_change_p"], null=0.0)
    found = difference_of_means(summary_in(row, "quality"), summary_in(before, "quality"))
    return Estimate(**vars(replace(found, p=math.nan)), doubts=doubts)


def quality_gain(row: Row, before: Row) -> Estimate:
    """How much better the quality of a variant is than before, negative where it is worse.

    Of a metric that falls as models get better, or is not from 0 to 1, as a share of its value
    before.
    """
    change, scale = quality_change(row, before), abs(before["quality"])
    if falls(before):
        scale = -scale
    elif is_share(before) and is_share(row):
        return change
    return change.mapped(lambda amount: amount / scale if scale else math.nan)


def falls(row: Row) -> bool:
    """Whether the variant's quality metric falls as its model gets better."""
    return bool(row["quality_better"] == "lower")


def is_share(row: Row) -> bool:
    """Whether its metric may be one from 0 to 1, where 1 is perfect."""
    return not falls(row) and 0 <= row["quality"] <= 1


def is_paired(row: Row, before: Row) -> bool:
    """Whether the table holds the difference between processes of the same seeds."""
    return bool(before["is_baseline"]) and not math.isnan(row["quality_change"])


def doubts_about(column: str, *rows: Row) -> tuple[str, ...]:
    """The marks for which the figures of these variants resolve nothing; empty where they do. That
    about two sessions is of a comparison, and of none of its sides.
    """
    known = (WEAKENING if is_timing(column) else INVALIDATES_ALL).keys() - {UNKNOWN_SPREAD}
    marks = (mark for row in rows for mark in marks_in(row.get("marks", "")))
    return tuple(dict.fromkeys(mark for mark in marks if mark in known))
