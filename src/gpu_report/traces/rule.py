"""A rule of the advice: what it reads of a trace's tables, what it finds there, and from where on that counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gpu_report.columns import Table
from gpu_report.errors import GpuReportError
from gpu_report.traces.schema import QUALITY, STEPS
from gpu_report.traces.trace import Trace
from gpu_report.traces.trust import reasons, trusted

Reads = Mapping[Table, tuple[str, ...]]
"""Columns by table."""


class UntoldError(GpuReportError):
    """What a rule reads is missing, or the quality gate spoils it, so that whether it applies is not resolved."""


class Finding(NamedTuple):
    """What a rule found: its value, the share of the steps' time at stake, and the place where the trace tells one."""

    value: float
    at_stake: float
    text: str
    place: str = ""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The tables by their declarations, any of which may be missing, the trace, and what the rule reads of them."""

    tables: Mapping[Table, Sequence[Mapping[str, Any]]]
    trace: Trace
    reads: Reads

    def rows(self, table: Table, *more: str) -> Sequence[Mapping[str, Any]]:
        """The table's rows, of a table by step those of the steps that the gate leaves; `more` are further columns.

        Raises:
            UntoldError: the gate spoils a column that the rule reads, in every row, or a number of it is missing.
        """
        columns = (*self.reads.get(table, ()), *more)
        failed = [check for check in self.tables.get(QUALITY, ()) if not check["passed"]]
        rows = [
            row
            for row in self.tables.get(table, ())
            if all(trusted(table.name, column, failed, step=row.get("step")) for column in columns)
        ]
        for column in columns:
            why = [] if rows else reasons(table.name, column, failed)
            if any(row[column] is None for row in rows):
                why = [f"its table {table.name} lacks {column}"]
            if why:
                raise UntoldError(why[0])
        return rows

    def tells(self, table: Table, *columns: str) -> bool:
        """Whether `rows` has something to go by."""
        try:
            self.rows(table, *columns)
        except UntoldError:
            return False
        return True

    @property
    def all_steps_ms(self) -> float:
        """The time of all steps, also of those that the gate spoils: what sums over all steps are shares of.

        Raises:
            UntoldError: the gate leaves no step, or they took no time.
        """
        self.rows(STEPS, "wall_ms")
        return _time_of(self.tables[STEPS])

    def share_of_steps(self, column: str) -> float:
        """The share of the steps' time that a column of STEPS tells.

        Raises:
            UntoldError: one of the two cannot be trusted, or there is no time.
        """
        rows = self.rows(STEPS, column, "wall_ms")
        return float(sum(row[column] for row in rows)) / _time_of(rows)


def _time_of(steps: Sequence[Mapping[str, Any]]) -> float:
    wall_ms = float(sum(row["wall_ms"] for row in steps))
    if not wall_ms:
        raise UntoldError("its steps took no time")
    return wall_ms


Find = Callable[[Evidence], Iterator[Finding]]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: it applies from the threshold on, or under it where `is_floor`.

    `reason` says why the threshold is where it is. `reads` are the columns that it rests on; without one that it
    comes to need, `find` raises UntoldError.
    """

    name: str
    threshold: float
    unit: str
    reason: str
    advice: str
    find: Find
    is_floor: bool = False
    reads: Reads = msgspec.field(default_factory=dict)

    def applies(self, finding: Finding) -> bool:
        """Whether the finding is beyond the threshold."""
        return finding.value < self.threshold if self.is_floor else finding.value >= self.threshold
