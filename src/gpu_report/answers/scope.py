"""What a question looks at: one experiment's variants in their groups, or a chapter about the
machine.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from gpu_report.answers.phrases import CPU
from gpu_report.glossary import Row
from gpu_report.study.options import NO_OPTIONS, OPTIONS, SEPARATOR, is_bound, option_names
from gpu_report.study.strategies import SINGLE, STRATEGIES
from gpu_report.study.study import Experiment
from gpu_report.tables.batch_sizes import BATCH_SIZES
from gpu_report.tables.bundle import Tables, grouped, rows_of, with_variants
from gpu_report.tables.efficiency import compares_own_loops
from gpu_report.tables.sources import COMPARED
from gpu_report.words import DISTINGUISHING, described, fields_along, in_words, model_words, titled

TRACE: Final = "trace"
SOURCES: Final = "sources"
"""Chapters about the whole machine, in place of an experiment's name; no experiment can take one of
these.
"""
OWN_LOOPS: Final = "custom loops: "
"""Before the axis of an experiment about loops that its workload brings: they are asked other
questions.
"""
DDP_OPTIONS: Final = "options of DistributedDataParallel"
MODEL_SPLIT: Final = "models in parts"
"""In place of the axis of experiments about these, which are asked other questions, too."""
BATCH_SEARCH: Final = "batch-size searches"
"""In place of the axis of an experiment that searches, which has none."""

SAVES_MEMORY: Final = "checkpoint"
"""The option that makes a training slower on purpose."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Variants of an experiment that differ along its axis alone, in the order of the axis.

    `title` names it for readers; `key` is short and safe in identifiers; `table` is the one that
    has the rows. Without an `axis`, its variants are named in full. The `tables` widen comparisons
    between two sessions.
    """

    title: str
    key: str
    axis: str
    table: str
    rows: tuple[Row, ...]
    tables: Tables | None = None

    @property
    def measured(self) -> list[Row]:
        """The variants that were measured."""
        return [row for row in self.rows if row["status"] == "ok"]

    @property
    def baseline(self) -> Row | None:
        """The measured variant that the others are compared with."""
        return next((row for row in self.measured if row["is_baseline"]), None)

    @property
    def others(self) -> list[Row]:
        """The measured variants beside the baseline."""
        return [row for row in self.measured if not row["is_baseline"]]

    def words(self, row: Row) -> str:
        """The variant's place on the axis, for instance 'batch size 64'; the whole variant where
        there is no axis.
        """
        if not self.axis:
            return described(row)
        if self.axis == "workload":
            return model_words(row)
        return in_words(self.axis, row[self.axis])


@dataclass(frozen=True, kw_only=True)
class Scope:
    """One experiment, or a chapter about the machine, which has no axis and no groups. `table` is
    the one that the rows come from.
    """

    name: str
    axis: str
    table: str
    tables: Tables
    rows: tuple[Row, ...]

    @property
    def about(self) -> str:
        """What its questions are about: its axis, that of loops where its workloads bring all of
        them, or its name.
        """
        if self.table == BATCH_SIZES.name:
            return BATCH_SEARCH
        if compares_own_loops(self.rows, self.axis):
            return OWN_LOOPS + self.axis
        options = (name for row in self.rows for name in option_names(row["options"]))
        if self.axis == "optimization" and any(OPTIONS[name].ddp_only for name in options):
            return DDP_OPTIONS
        if self.axis == "parallelism" and not all(
            STRATEGIES[row["strategy"]].divides_batch for row in self.rows
        ):
            return MODEL_SPLIT
        return self.axis or self.name

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups in the order of the table."""
        by_name = grouped(self.rows, lambda row: row["group"])
        compared = [_compared(rows) for rows in by_name.values()]
        leave_out = fields_along(self.axis, self.rows)
        return tuple(
            Group(
                title=titled(_compared(rows), compared, leave_out=leave_out),
                key=key_of(name),
                axis=self.axis,
                table=self.table,
                rows=tuple(_in_axis_order(rows, self.axis)),
                tables=self.tables,
            )
            for name, rows in by_name.items()
        )


def groups_beside(scope: Scope, table: str) -> list[Group]:
    """The groups, each variant with the columns of its row in another table, where it has one
    there.
    """
    others = {row["variant"]: row for row in rows_of(getattr(scope.tables, table))}
    return [
        replace(
            group,
            table=table,
            rows=tuple({**row, **others.get(row["variant"], {})} for row in group.rows),
        )
        for group in scope.groups
    ]


def experiment_scope(tables: Tables, experiment: Experiment) -> Scope:
    """An experiment's variants as its table holds them, but those that nothing follows from."""
    rows = tuple(filter(_is_evidence, tables.rows_of_experiments[experiment.name]))
    name, axis = experiment.name, experiment.axis
    return Scope(name=name, axis=axis, table=name, tables=tables, rows=rows)


def search_scope(tables: Tables, experiment: Experiment) -> Scope:
    """What an experiment's batch-size searches tried."""
    names = {search.slug for search in experiment.searches}
    rows = tuple(row for row in rows_of(tables.batch_sizes) if row["search"] in names)
    return Scope(name=experiment.name, axis="", table=BATCH_SIZES.name, tables=tables, rows=rows)


def chapter_scopes(tables: Tables) -> list[Scope]:
    """What the chapters about the machine rest on; one without data, such as copies on a CPU, is
    left out.
    """
    variants = {row["variant"]: row for row in rows_of(tables.variants) if _is_evidence(row)}
    steps = filter(_shows_one_device, with_variants(tables.step_shares, variants))
    rows = {
        (TRACE, "step_shares"): tuple(steps),
        (SOURCES, "sources"): tuple(
            row
            for row in rows_of(tables.sources)
            if row["metric"] in COMPARED and not math.isnan(row["ours"])
        ),
    }
    return [
        Scope(name=name, axis="", table=table, tables=tables, rows=found)
        for (name, table), found in rows.items()
        if found
    ]


def key_of(name: str) -> str:
    """A name as part of an identifier."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _is_evidence(row: Row) -> bool:
    """Whether findings may follow from it: not from a bound, which is no training, nor from ranks
    that share a CPU.

    These check that a training is right; their speed forecasts nothing.
    """
    return not is_bound(row["options"]) and (row["device"] != CPU or row["strategy"] == SINGLE)


def _shows_one_device(row: Row) -> bool:
    """Whether a trace is that of one device that computes all the time.

    DataParallel and a split model have one trace of all devices, and the stages of a model wait for
    each other by design; the experiments about them say what that costs.
    """
    strategy = STRATEGIES[row["strategy"]]
    return bool(row["strategy"] == SINGLE or (strategy.has_ranks and strategy.divides_batch))


def saves_memory(row: Row) -> bool:
    """Whether a variant trains in less memory rather than in less time."""
    return bool(row["accumulation"] > 1 or SAVES_MEMORY in option_names(row["options"]))


def added_options(row: Row, before: Row) -> str:
    """The optimization without what the other has too: `compile` for `fused+compile` beside
    `fused`.
    """
    names = option_names(before["optimization"])
    added = (name for name in option_names(row["optimization"]) if name not in names)
    return SEPARATOR.join(added) or NO_OPTIONS


_OTHER_FIELDS: Final = (
    "workload",
    *(field for field in DISTINGUISHING if field not in ("options", "precision")),
)


def differences(before: Row, after: Row) -> list[str]:
    """The further options and the other precision of the second training, where it differs from the
    first in nothing else; else none.
    """
    if any(str(after[field]) != str(before[field]) for field in _OTHER_FIELDS):
        return []  # nearly all pairs
    options, options_before = (option_names(row["options"]) for row in (after, before))
    if not {*options_before} <= {*options}:
        return []
    precision = [after["precision"]] if after["precision"] != before["precision"] else []
    return precision + [name for name in options if name not in options_before]


def _compared(rows: Sequence[Row]) -> Row:
    """The first that is compared with the baseline, which alone may have been trained for shorter
    epochs.
    """
    return next((row for row in rows if not row["is_baseline"]), rows[0])


def _in_axis_order(rows: list[Row], axis: str) -> list[Row]:
    """Numbers ascend; words keep the order of the configuration."""
    if all(isinstance(row[axis], int | float) for row in rows):
        return sorted(rows, key=lambda row: float(row[axis]))
    return rows
