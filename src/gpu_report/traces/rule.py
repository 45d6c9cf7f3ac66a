"""A rule of the advice: what it reads of a trace's tables, what it finds there, and from where on that counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpu_report.columns import Table
from gpu_report.traces.schema import QUALITY, STEPS
from gpu_report.traces.trace import Trace
from gpu_report.traces.trust import trusted

Reads = Mapping[Table, tuple[str, ...]]
"""Columns by table."""


class Finding(NamedTuple):
    """What a rule found: its value, the share of the steps' time at stake, and the place where the trace tells one."""

    value: float
    at_stake: float
    text: str
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The tables by their declarations, any of which may be missing, the trace, and what the rule reads of them."""

    tables: Mapping[Table, Sequence[Mapping[str, Any]]]
    trace: Trace
    reads: Reads

    def rows(self, table: Table, *more: str) -> Sequence[Mapping[str, Any]]:
        """The table's rows; none where the gate spoils a column that the rule reads, or a number of it is missing.

        `more` are columns that it reads where it can, and does without where it cannot. Of a table by step, only the
        steps that are spoiled are left out.
        """
        columns, quality = (*self.reads.get(table, ()), *more), self.tables.get(QUALITY, ())
        rows = [
            row
            for row in self.tables.get(table, ())
            if all(trusted(table.name, column, quality, step=row.get("step")) for column in columns)
        ]
        return rows if all(row[column] is not None for row in rows for column in columns) else ()

    @property
    def wall_ms(self) -> float:
        """The time of all steps, 0 where it cannot be trusted."""
        return float(sum(row["wall_ms"] for row in self.rows(STEPS, "wall_ms")))

    def share_of_steps(self, column: str) -> float | None:
        """The share of the steps' time that a column of STEPS tells."""
        rows = self.rows(STEPS, column, "wall_ms")
        wall_ms = sum(row["wall_ms"] for row in rows)
        return sum(row[column] for row in rows) / wall_ms if wall_ms else None


Find = Callable[[Evidence], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule: it applies from the threshold on, or under it where `is_floor`.

    `reason` says why the threshold is where it is. `reads` are the columns without which it tells nothing.
    """

    name: str
    threshold: float
    unit: str
    reason: str
    advice: str
    find: Find
    is_floor: bool = False
    reads: Reads = field(default_factory=dict)

    def applies(self, finding: Finding) -> bool:
        """Whether the finding is beyond the threshold."""
        return finding.value < self.threshold if self.is_floor else finding.value >= self.threshold
