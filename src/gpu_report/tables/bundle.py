"""The study's tables of one machine, by name, for the findings, figures and sections that read
them; and which variants are shown of each workload.

experiments' tables -> the measured variants of each workload and device -> the eager baseline, and
what is fastest beside it
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpu_report.glossary import Row
from gpu_report.study.options import is_bound, option_names
from gpu_report.study.variant import LENGTH_FIELDS
from gpu_report.tables.sessions import spread_for, spreads_of
from gpu_report.tables.statistics import (
    NOT_MEASURED,
    SIGNIFICANCE,
    Spread,
    Summary,
    ratio_of_means,
)

if TYPE_CHECKING:
    import pandas as pd

_Member = TypeVar("_Member")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """Every table of STUDY_TABLES as an attribute under its name, which says what its rows are; one
    without data has no rows.

    `by_name` has what reads each table, when it is first needed: the longest are in few figures.
    `experiments` are by name, in the order of the configuration. Two bundles are never equal but to
    themselves, because tables have no truth value to compare by.
    """

    by_name: Mapping[str, "Callable[[], pd.DataFrame]"]
    experiments: Mapping[str, "pd.DataFrame"]

    def __getattr__(self, name: str) -> "pd.DataFrame":
        # A copy is asked before it has any field.
        known: Mapping[str, Callable[[], pd.DataFrame]] = vars(self).get("by_name", {})
        if name not in known:
            raise AttributeError(f"the study has no table {name!r}; it has {', '.join(known)}")
        frame: pd.DataFrame = vars(self).setdefault(name, known[name]())
        return frame

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.by_name]  # what a notebook completes

    @cached_property
    def rows_of_experiments(self) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
        """The rows of `experiments`, kept because nearly everything asks for all of them."""
        return {name: rows_of(frame) for name, frame in self.experiments.items()}


_OF_TRAINING: Final = ("workload", "size", "batch_size", "parallelism", "precision")
"""What eager baselines share that differ in the length of the training alone."""


def rows_of(frame: "pd.DataFrame") -> tuple[Mapping[str, Any], ...]:
    """One mapping per row, by column name, with plain Python values.

    A column at a time: DataFrame.to_dict takes twice as long for the widest tables, and everything
    reads them this way.
    """
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return tuple(
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    )


def with_variants(frame: "pd.DataFrame", variants: Mapping[str, Row]) -> list[Row]:
    """The rows of a table by variant, each with the columns of its variant; those of unknown
    variants are left out.
    """
    return [
        {**variants[row["variant"]], **row} for row in rows_of(frame) if row["variant"] in variants
    ]


def grouped(members: Iterable[_Member], key: Callable[[_Member], Any]) -> dict[Any, list[_Member]]:
    """The members by what they share, both in the order in which they first come."""
    groups: dict[Any, list[_Member]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


def best_of_each(rows: Iterable[Row], of: str, *columns: str) -> list[Row]:
    """The row with the most in the column `of`, of those with each combination of values in the
    others, in order.
    """
    found = grouped(rows, lambda row: tuple(row[column] for column in columns))
    return [max(each, key=lambda row: float(row[of])) for each in found.values()]


def shown_profiles(tables: Tables) -> list[str]:
    """The variants of `eager_and_fastest` with a row of STEP_SHARES, in its order."""
    profiled = set(tables.step_shares["variant"])
    return [slug for pair in eager_and_fastest(tables) for slug in pair if slug in profiled]


def eager_and_fastest(tables: Tables) -> list[list[str]]:
    """Of each workload and device the eager baseline, and the fastest of all with its size and
    parallelism, where that is significantly faster (`fastest_of`).

    Of the variants that were measured, those on GPUs where there are any; bounds are left out. The
    baseline is of the size with most variants, in fp32 if that was measured, and as long a training
    as the fastest if there is one, else the first in the order of the study; of custom training
    loops that of the most points; without any eager training the fastest variant on the fewest
    devices is alone. Workloads with two variants come first, those whose fastest has another batch
    size than its baseline after the others, custom training loops last.
    """
    rows = {row["variant"]: row for rows in tables.rows_of_experiments.values() for row in rows}
    found = [row for row in rows.values() if row["status"] == "ok"]
    by_device = grouped(
        [row for row in found if row["device"] != "cpu"] or found,
        lambda row: (row["workload"], row["device"]),
    )
    return sorted(
        (_eager_and_fastest(tables, each) for each in by_device.values()),
        key=lambda pair: (
            rows[pair[0]]["begins_anew"],
            -len(pair),
            rows[pair[0]]["batch_size"] != rows[pair[-1]]["batch_size"],
        ),
    )


def _eager_and_fastest(tables: Tables, rows: Sequence[Row]) -> list[str]:
    baselines = [row for row in rows if steps_from_eager(row) <= {row["precision"]}]
    if not baselines:
        fewest = min(row["devices"] for row in rows)
        return [fastest_of([row for row in rows if row["devices"] == fewest])["variant"]]
    sizes = Counter(row["size"] for row in rows)
    eager = min(baselines, key=lambda row: (-sizes[row["size"]], row["precision"] != "fp32"))
    shared = ["size", "parallelism"]
    if eager["begins_anew"]:  # its batch is the whole training set
        eager = max(baselines, key=lambda row: row["batch_size"])
        shared.append("batch_size")

    rivals = [
        row
        for row in rows
        if all(row[field] == eager[field] for field in shared)
        and (row["batch_size"], steps_from_eager(row))
        != (eager["batch_size"], steps_from_eager(eager))
        and not is_bound(row["options"])
        and (gain := gain_over(tables, row, eager)).value > 1
        and gain.p < SIGNIFICANCE
    ]
    if not rivals:
        return [eager["variant"]]
    fastest = fastest_of(rivals)
    as_long = (
        row["variant"]
        for row in baselines
        if all(row[field] == eager[field] for field in _OF_TRAINING)
        and all(str(row[field]) == str(fastest[field]) for field in LENGTH_FIELDS)
    )
    return [next(as_long, eager["variant"]), fastest["variant"]]


def greatest_step(tables: Tables, eager: Row, fastest: Row) -> Row | None:
    """Of the variants that an experiment compares with this eager baseline, and that are one step
    of the fastest from it, the one that gains most, with its `speedup`; None where none is
    significantly faster.
    """
    steps = [
        row
        for row in rows_compared_with(tables, eager)
        if len(steps_from_eager(row)) == 1
        and steps_from_eager(row) <= steps_from_eager(fastest)
        and row["speedup"] > 1
        and row["speedup_p"] < SIGNIFICANCE
    ]
    return max(steps, key=lambda row: float(row["speedup"]), default=None)


def rows_compared_with(tables: Tables, baseline: Row) -> list[Row]:
    """The rows of the groups whose baseline this variant is, with their `speedup` over it."""
    return [
        row
        for rows in tables.rows_of_experiments.values()
        for before in rows
        if before["variant"] == baseline["variant"] and before["is_baseline"]
        for row in rows
        if row["group"] == before["group"]
    ]


def alike(rows: Iterable[Row], row: Row, *columns: str) -> list[Row]:
    """The rows that have the same as that one in these columns."""
    return [each for each in rows if all(each[column] == row[column] for column in columns)]


def fastest_of(rows: Sequence[Row]) -> Row:
    """The row with the highest throughput; of those that are neither significantly slower nor
    slower by 2 %, the one with the fewest optimizations, and rather one without scaled gradients.
    """
    fastest = max(rows, key=lambda row: float(row["throughput_per_s"]))
    rate = summary_in(fastest, "throughput_per_s")

    def is_tied(row: Row) -> bool:
        other = summary_in(row, "throughput_per_s")
        # 2 %: too little to prefer the more complicated. Between sessions, more is chance.
        is_chance = row["session"] != fastest["session"] or not ratio_of_means(rate, other).low > 1
        return rate.value < 1.02 * other.value and is_chance

    return min(
        [fastest, *filter(is_tied, rows)],
        key=lambda row: (
            len(steps_from_eager(row)),
            row["precision"] == "fp16",
            -float(row["throughput_per_s"]),
        ),
    )


def steps_from_eager(row: Row) -> set[str]:
    """The precision unless it is fp32, and everything that is switched on."""
    return {row["precision"], *option_names(row["optimization"])} - {"fp32"}


def gain_over(tables: Tables, row: Row, baseline: Row) -> Summary:
    """The throughput over the baseline's: as an experiment with this baseline compares them, else
    by Welch's t.

    Its p is adjusted for the other comparisons of such an experiment. Of two sessions the interval
    includes the spread between them; of two protocol versions nothing is known.
    """
    for own in rows_compared_with(tables, baseline):
        if own["variant"] == row["variant"]:
            return replace(summary_in(own, "speedup"), p=own["speedup_p"])
    if row["protocol_version"] != baseline["protocol_version"]:
        return NOT_MEASURED
    one, other = (summary_in(each, "throughput_per_s") for each in (row, baseline))
    return ratio_of_means(one, other, spread_between(tables, row, baseline))


def spread_between(tables: Tables, row: Row, other: Row) -> Spread | None:
    """By how much a time of these two may differ because they are of two sessions; None in one
    session, or where the machine's sentinels do not show it.
    """
    if row["session"] == other["session"]:
        return None
    sides = (summary_in(each, "throughput_per_s") for each in (row, other))
    return spread_for(spreads_of(rows_of(tables.sentinels)), *sides)


def summary_in(row: Row, column: str) -> Summary:
    """The figure of a row in a column that has `_low`, `_high` and `_count` beside it."""
    low, high, count = (row[f"{column}_{end}"] for end in ("low", "high", "count"))
    return Summary(value=row[column], low=low, high=high, count=int(count))
