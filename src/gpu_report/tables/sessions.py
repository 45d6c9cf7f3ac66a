"""The table of sentinels: how far the numbers of one machine drift within a session of measuring,
and from one session to the next.

times of records and points -> number of the session of each; points by session -> spread of a
sentinel's throughput -> Sessions, by which two records of one machine are compared

The spread is that of the logarithm: within sessions the standard deviation between points, pooled;
between sessions that of the means of sessions. Points belong together where the same was asked: by
another version of the protocol, or with other settings, it is another sentinel.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import fmean, stdev
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.batch_sizes import SearchRecord
from gpu_report.records.record import Attempt, Record, SentinelPoint
from gpu_report.storage.columns import Column, Table, number, text, whole
from gpu_report.study.study import Workload
from gpu_report.tables.statistics import (
    NOT_MEASURED,
    VARIANT,
    BySeed,
    Spread,
    Summary,
    deviation_of,
    summarise,
    varies_more,
)

LONGEST_GAP: Final = timedelta(hours=1)
"""Between two measurements of a session, from the end of one to the begin of the next."""

SESSION: Final[Column] = whole(
    "session",
    "1",
    "Number of the session: measurements on the machine, from one boot, without a gap of an hour.",
)
SENTINELS: Final = Table(
    name="sentinels",
    meaning="One row per sentinel, a configuration that is measured again and again, and point.",
    columns=(
        VARIANT,
        text(
            "workload_title", "Its workload for readers; its name if it is a class of the user's."
        ),
        whole("protocol_version", "1", "Version of the protocol by which it was measured."),
        SESSION,
        text("measured_at", "UTC, ISO 8601."),
        text("status", "ok, oom, failed or skipped."),
        text("reason", "Why there is no measurement; else empty."),
        whole("processes", "1", "Fresh processes that trained to the end."),
        number(
            "throughput_per_s", "1/s", "Training samples per second; geometric mean of processes."
        ),
        number("ratio_to_first", "1", "The same over that of the sentinel's first point."),
        whole(
            "sessions",
            "1",
            "Sessions in which it was measured; the same in every row of the sentinel, as what "
            "follows.",
        ),
        number(
            "deviation_within",
            "1",
            "Standard deviation of its log throughput between points of one session, pooled; "
            "missing without two such points.",
        ),
        number(
            "deviation_between",
            "1",
            "That between the means of sessions; missing of fewer than two sessions.",
        ),
        number(
            "deviation_of_processes",
            "1",
            "That between the processes of one point, pooled; missing without two such processes.",
        ),
        whole("process_freedom", "1", "Degrees of freedom of deviation_of_processes."),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """The number of the session by the time at which something was measured, and how far the
    sentinels differ from one session to the next; none where that is not measured.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    spreads: Sequence[Spread] = ()

    def between(self, record: Record, reference: Record, *sides: BySeed) -> Spread | None:
        """The spread by which the comparison of their throughputs, the two sides, is widened; None
        in one session, or where sentinels do not show it.
        """
        return self.spread_of(*sides) if self.differ(record, reference) else None

    def differ(self, record: Record, reference: Record) -> bool:
        """Whether the two were measured in different sessions."""
        return (
            len({self.numbers.get(each.provenance.measured_at) for each in (record, reference)}) > 1
        )

    def spread_of(self, *sides: BySeed) -> Spread | None:
        """The spread of these sides, each one value per process, between two sessions."""
        return spread_for(self.spreads, *(summarise([*side.values()]) for side in sides))


ONE_SESSION: Final[Sessions] = Sessions()
"""Of records that are not known to be of several, such as those of two machines."""


def sessions_of(
    measured: Iterable[Attempt | SearchRecord], points: Sequence[SentinelPoint]
) -> Sessions:
    """The session of each record, search and point, and the spreads between sessions."""
    numbers = number_sessions([*measured, *points])
    return Sessions(numbers=numbers, spreads=spreads_of(tabulate_sentinels(points, numbers)))


def number_sessions(measured: Iterable[Attempt | SearchRecord]) -> dict[str, int]:
    """The session of each record, search and point, from 1, by when it was measured.

    Two machines of one id, and one before and after it was booted, have sessions of their own.
    """
    numbers: dict[str, int] = {}
    newest: dict[str, tuple[int, datetime]] = {}
    for each in sorted((each.provenance for each in measured), key=lambda one: one.began):
        number, ended = newest.get(each.boot, (0, each.began))
        if not number or each.began - ended > LONGEST_GAP:
            number = max(numbers.values(), default=0) + 1
        numbers[each.measured_at] = number
        newest[each.boot] = number, max(ended, each.ended)
    return numbers


def spreads_of(sentinels: Iterable[Row]) -> list[Spread]:
    """Those of the sentinels by the newest protocol with at least two sessions, the one with the
    steadiest processes first.
    """
    found = [row for row in sentinels if row["sessions"] > 1]
    newest = max((row["protocol_version"] for row in found), default=None)
    spreads = {
        Spread(
            row["deviation_between"],
            row["sessions"],
            row["deviation_of_processes"],
            row["process_freedom"],
        )
        for row in found
        if row["protocol_version"] == newest
    }
    return sorted(spreads, key=lambda spread: (not spread.process_freedom, spread.of_processes))


def spread_for(spreads: Sequence[Spread], *sides: Summary) -> Spread | None:
    """The widest of the `spreads_of` a machine's sentinels that says something about a comparison
    of these throughputs; without them the widest of all.

    A sentinel is left out if its processes vary significantly more than those of the noisier side,
    and these are nearer to the steadiest sentinel's. This assumes that what varies less between
    processes also varies less between sessions: a host that is steady in each session and another
    one in the next is not seen by a sentinel that does not wait for it.
    """
    noisier = max(sides, key=deviation_of, default=NOT_MEASURED)
    own = deviation_of(noisier)
    kept = [
        spread
        for spread in spreads
        if not (
            own**2 < spread.of_processes * spreads[0].of_processes
            and varies_more(spread.of_processes, spread.process_freedom, own, noisier.count - 1)
        )
    ]
    return max(kept or spreads[:1], default=None)


def tabulate_sentinels(points: Iterable[SentinelPoint], numbers: Mapping[str, int]) -> list[Row]:
    """The table SENTINELS, the points of each sentinel in their order."""
    sentinels: dict[str, list[SentinelPoint]] = {}
    for point in points:
        sentinels.setdefault(f"{point.measurement}", []).append(point)
    return [row for each in sentinels.values() for row in _rows_of(each, numbers)]


def _rows_of(points: Sequence[SentinelPoint], numbers: Mapping[str, int]) -> list[Row]:
    speeds = [summarise(point.throughputs_per_s).value for point in points]
    workload = Workload(**points[0].measurement["workload"])
    logs: dict[int, list[float]] = {}
    for point, speed in zip(points, speeds, strict=True):
        if point.throughputs_per_s:
            logs.setdefault(numbers[point.provenance.measured_at], []).append(math.log(speed))
    means = [fmean(values) for values in logs.values()]
    within, _ = _pooled([*logs.values()])
    of_processes, freedom = _pooled(
        [[*map(math.log, each)] for point in points if (each := point.throughputs_per_s)]
    )
    of_all = {
        "sessions": len(means),
        "deviation_within": within,
        "deviation_between": stdev(means) if len(means) > 1 else math.nan,
        "deviation_of_processes": of_processes,
        "process_freedom": freedom,
    }
    return [
        {
            "variant": point.variant,
            "workload_title": workload.built_in.title if workload.built_in else workload.name,
            "protocol_version": point.measurement["protocol"]["version"],
            "session": numbers[point.provenance.measured_at],
            "measured_at": point.provenance.measured_at,
            "status": point.status,
            "reason": point.reason,
            "processes": len(point.throughputs_per_s),
            "throughput_per_s": speed,
            "ratio_to_first": speed / next(each for each in speeds if each > 0 or means == []),
            **of_all,
        }
        for point, speed in zip(points, speeds, strict=True)
    ]


def _pooled(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """The standard deviation of values from the means of their groups, and its degrees of freedom;
    NaN without two values in a group.
    """
    squares = [(value - fmean(values)) ** 2 for values in groups for value in values]
    freedom = len(squares) - len(groups)
    return math.sqrt(sum(squares) / freedom) if freedom else math.nan, freedom
